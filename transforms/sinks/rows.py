"""The rows of the result table: one per statistic and HAT, made from estimates and nothing else."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from dpops import statistics
from dpops.mechanism import fraction, number
from dpops.statistics import Output, Statistic
from transforms.records import HatEstimate, SlotEstimates

SCHEMA = pa.schema(
    [
        pa.field("spec_id", pa.string(), nullable=False),
        pa.field("slot_start", pa.string(), nullable=False),
        pa.field("slot_end", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("statistic", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("lower95", pa.float64()),
        pa.field("upper95", pa.float64()),
        pa.field("noise_std", pa.float64()),
        pa.field("bias_bound", pa.float64()),
        pa.field("mechanism", pa.string(), nullable=False),
        pa.field("epsilon", pa.float64()),
        pa.field("epsilon_slot", pa.float64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
    ]
)
"""Of statistics with one output; `schema_of` adds to it what others put out."""

_MODEL = ("model_value", "model_lower95", "model_upper95")

NOTES = dict.fromkeys(("parent", "product", "model_status"), pa.string()) | dict.fromkeys(
    ("leans_on_day", "parent_value", "parent_lower95", "parent_upper95", *_MODEL), pa.float64()
)
"""Columns that only some slots' rows have. leans_on_day: of live values, how far they rest on the day's own slots.
parent: where a HAT is not known, the parent cell that is, or "day", the cell's own; parent_value, ..: of that.
product: what a row of a coarser product is. model_value, ..: what the entry and those before it teach of a HAT's mean,
beside what was released of it; model_status: ok, unreliable, or held-back where there is no value."""

_NO_NUMBER = (None, None, None)
_TIMES = ("slot_start_at", "slot_end_at")
_COUNTS = ("vehicles", "reports")

Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """What rows and files have on request; without it they are as they always were.

    zone: of the columns slot_start_at and slot_end_at, which are instants; None: there are no such columns. counts:
    the columns vehicles and reports, for specifications whose counts are public. by_date: files lie in folders
    date=2026-05-13, so that the output folder is one dataset. model: columns of what the past teaches of means.
    """

    zone: str | None = None
    counts: bool = False
    by_date: bool = False
    model: bool = False


PLAIN = Shape()


def schema_of(asked: Sequence[str], shape: Shape = PLAIN, notes: Sequence[str] = ()) -> pa.Schema:
    """The columns of a specification's rows, by the names of its statistics: the same for every slot of one kind."""
    extras = [field for output in statistics.extras_of(asked) for field in _fields(output)]
    instant = pa.timestamp("us", shape.zone or "UTC")
    times = [pa.field(name, instant, nullable=False) for name in _TIMES] if shape.zone else []
    counts = [pa.field(name, pa.int64()) for name in _COUNTS] if shape.counts else []
    return pa.schema([*SCHEMA, *extras, *times, *counts, *(pa.field(name, NOTES[name]) for name in notes)])


def _fields(output: Output) -> list[pa.Field]:
    if output.is_list:
        return [pa.field(output.name, pa.list_(pa.float64()))]
    return [pa.field(name, pa.float64()) for name in _names(output)]


def _names(output: Output) -> tuple[str, str, str]:
    return output.name, f"{output.name}_lower95", f"{output.name}_upper95"


def rows_of(slot: SlotEstimates, shape: Shape = PLAIN) -> list[Row]:
    """The rows of one slot by cell and statistic; all have the columns of `schema_of`, in this order."""
    extras, known = statistics.extras_of(slot.statistics), statistics.registered()
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in zip(*_columns(slot, known), strict=True)]
    for row, hat in zip(rows, slot.hats, strict=True) if extras or shape.zone or shape.counts or slot.notes else ():
        row |= _extras(hat, known[hat.statistic], extras)
        row |= _instants(slot, hat) if shape.zone else {}
        row |= _counts(hat) if shape.counts else {}
        row |= {name: (hat.notes or {}).get(name) for name in slot.notes}
    return rows


def _columns(slot: SlotEstimates, known: Mapping[str, Statistic]) -> Iterator[Iterable[Any]]:
    """Those of SCHEMA, in its order."""
    hats, estimates = slot.hats, [hat.estimate for hat in slot.hats]
    first = {name: statistic.outputs[0].name for name, statistic in known.items()}
    units = {name: statistic.unit.format(slot.unit) for name, statistic in known.items()}
    numbers = [each.numbers.get(first[hat.statistic], _NO_NUMBER) for each, hat in zip(estimates, hats, strict=True)]
    spans = [_span(slot, hat) for hat in hats]
    yield [slot.spec_id] * len(hats)
    yield (span[0] for span in spans)
    yield (span[1] for span in spans)
    yield (hat.cell for hat in hats)
    yield (hat.statistic for hat in hats)
    yield rounded([each[0] for each in numbers])
    yield (units[hat.statistic] for hat in hats)
    yield rounded([each[1] for each in numbers])
    yield rounded([each[2] for each in numbers])
    yield rounded([each.noise_std for each in estimates])
    yield rounded([each.bias_bound for each in estimates])
    yield (hat.mechanism for hat in hats)
    yield (None if each.epsilon is None else number(each.epsilon) for each in estimates)
    yield (number(fraction(hat.epsilon_slot)) for hat in hats)
    yield (each.status for each in estimates)


def _instants(slot: SlotEstimates, hat: HatEstimate) -> Row:
    return dict(zip(_TIMES, map(datetime.fromisoformat, _span(slot, hat)), strict=True))


def _span(slot: SlotEstimates, hat: HatEstimate) -> tuple[str, str]:
    return hat.span or (slot.slot_start, slot.slot_end)


def _counts(hat: HatEstimate) -> Row:
    return dict(zip(_COUNTS, hat.counts or (None, None), strict=True))


def _extras(hat: HatEstimate, statistic: Statistic, extras: Sequence[Output]) -> Row:
    row: Row = {}
    for output in extras:
        asked = output in statistic.extras
        if output.is_list:
            found = hat.estimate.lists.get(output.name) if asked else None
            row[output.name] = None if found is None else [round(each, 6) for each in found]
        else:
            three = hat.estimate.numbers.get(output.name, _NO_NUMBER) if asked else _NO_NUMBER
            row |= {name: _rounded(each) for name, each in zip(_names(output), three, strict=True)}
    return row


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Each as `round(value, 6)` has it, None where there is none.

    A product with 10**6 below 2**40 is off by less than 2**-13: near a half alone could it be rounded to another
    integer. Over 10**6 that integer is what `round` gives: both are the float nearest to the same decimal number.
    """
    exact = np.array([math.nan if value is None else value for value in values], np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not sure
        scaled = exact * 1e6
        found: list[float | None] = (np.rint(scaled) / 1e6).tolist()
        is_sure = (np.abs(scaled) < 2.0**40) & (np.abs(scaled - np.floor(scaled) - 0.5) > 2.0**-12)  # false for nan
    for at in np.flatnonzero(~is_sure).tolist():
        found[at] = _rounded(values[at])
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def json_of(row: Row) -> bytes:
    """A row as one JSON object, its keys in the order of the schema."""
    return msgspec.json.encode(row)
