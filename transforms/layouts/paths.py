"""One way to say where a value is in nested data: `a.b`, `a.0` in arrays, `a[].b` across arrays, `*` for any key."""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from transforms import arrow_compute as pc
from transforms.layouts.columns import is_text

Path = tuple[str, ...]

EACH, ANY = "[]", "*"
_RECORDS = re.compile(r"[^.\[\]]+(\[\])?(\.[^.\[\]]+(\[\])?)*")
_AXES = {"0": "get_x", "x": "get_x", "1": "get_y", "y": "get_y"}


def steps_of(text: str) -> Path:
    """Splits a path into keys, numbers, EACH and ANY; `a[]` are two steps.

    >>> steps_of("Siri.Delivery[].Activity"), steps_of("location.coordinates.1")
    (('Siri', 'Delivery', '[]', 'Activity'), ('location', 'coordinates', '1'))
    """
    return tuple(step for step in text.replace(EACH, f".{EACH}").split(".") if step) or (text,)


def steps_of_records(text: str) -> Path:
    """Reads where the objects are: each of the last array, or the values of any key. Raises ValueError."""
    if not _RECORDS.fullmatch(text):
        raise ValueError(f"records: must be a path such as data.vehicles, a[].b or entity.*, got {text[:60]!r}")
    steps = steps_of(text)
    return steps if steps[-1] in (EACH, ANY) else (*steps, EACH)


def refuse_steps(field: str, column: str) -> None:
    """Refuses the column of a field that would be of several values. Raises ValueError."""
    steps = steps_of(column)
    if EACH in steps or (ANY in steps and steps != (ANY,)):
        raise ValueError(f"columns.{field}: {column[:60]!r} is of many values: [] and * stand in input.records")


def kind_at(kind: pa.DataType, steps: Path) -> pa.DataType | None:
    """Finds the type at a path below a column of a type; None where there is nothing."""
    for step in steps:
        if pa.types.is_struct(kind) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        elif _is_list(kind) and step.isdecimal():
            kind = kind.value_type
        elif is_text(kind) and step in _AXES:
            kind = pa.float64()
        else:
            return None
    return kind


def values_at(column: Any, steps: Path) -> Any:
    """Follows a path that `kind_at` knows; null where nothing is there."""
    for step in steps:
        if pa.types.is_struct(column.type):
            column = pc.struct_field(column, step)
        elif _is_list(column.type):
            column = _element(column, int(step))
        else:  # points in well-known binary; null for what is none
            import shapely

            points = shapely.from_wkb(np.array(column.to_pylist(), object), on_invalid="ignore")
            degrees = getattr(shapely, _AXES[step])(points)
            column = pa.array(degrees, mask=np.isnan(degrees))
    return column


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _element(column: Any, number: int) -> Any:
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(column.type):
        starts = (np.arange(len(column)) + column.offset) * column.type.list_size
    else:
        starts = column.offsets.to_numpy(zero_copy_only=False)[: len(column)]
    has = sizes > number
    return column.values.take(pa.array(np.where(has, starts + number, 0), pa.int64(), mask=~has))
