"""The rows of the result table: one per statistic and HAT, made from estimates and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from dpops import statistics
from dpops.mechanism import fraction
from dpops.statistics import Output
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
    extras = statistics.extras_of(slot.statistics)
    return [
        _row(slot, hat, extras)
        | (_instants(slot, hat) if shape.zone else {})
        | (_counts(hat) if shape.counts else {})
        | {name: (hat.notes or {}).get(name) for name in slot.notes}
        for hat in slot.hats
    ]


def _instants(slot: SlotEstimates, hat: HatEstimate) -> Row:
    return dict(zip(_TIMES, map(datetime.fromisoformat, _span(slot, hat)), strict=True))


def _span(slot: SlotEstimates, hat: HatEstimate) -> tuple[str, str]:
    return hat.span or (slot.slot_start, slot.slot_end)


def _counts(hat: HatEstimate) -> Row:
    return dict(zip(_COUNTS, hat.counts or (None, None), strict=True))


def _row(slot: SlotEstimates, hat: HatEstimate, extras: Sequence[Output]) -> Row:
    statistic, estimate = statistics.registered()[hat.statistic], hat.estimate
    value, lower, upper = estimate.numbers.get(statistic.outputs[0].name, (None, None, None))
    start, end = _span(slot, hat)
    row: Row = {
        "spec_id": slot.spec_id,
        "slot_start": start,
        "slot_end": end,
        "cell": hat.cell,
        "statistic": hat.statistic,
        "value": _rounded(value),
        "unit": statistic.unit.format(slot.unit),
        "lower95": _rounded(lower),
        "upper95": _rounded(upper),
        "noise_std": _rounded(estimate.noise_std),
        "bias_bound": _rounded(estimate.bias_bound),
        "mechanism": hat.mechanism,
        "epsilon": None if estimate.epsilon is None else float(estimate.epsilon),
        "epsilon_slot": float(fraction(hat.epsilon_slot)),
        "status": estimate.status,
    }
    for output in extras:
        asked = output in statistic.extras
        if output.is_list:
            found = estimate.lists.get(output.name) if asked else None
            row[output.name] = None if found is None else [round(number, 6) for number in found]
        else:
            three = estimate.numbers.get(output.name, (None,) * 3) if asked else (None,) * 3
            row |= {name: _rounded(number) for name, number in zip(_names(output), three, strict=True)}
    return row


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)


def json_of(row: Row) -> bytes:
    """A row as one JSON object, its keys in the order of the schema."""
    return msgspec.json.encode(row)
