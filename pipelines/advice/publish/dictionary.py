"""What every published column means, in words: for the data dictionary, the package and the files themselves."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from pipelines.advice.pages.words import STATUSES
from pipelines.further_columns import value_meaning
from pipelines.specification import Specification


class Column(NamedTuple):
    """unit: empty where there is none, or where the column `unit` says it."""

    name: str
    meaning: str
    unit: str = ""


_INTERVAL = "end of the interval that holds the true value with a probability of 95 % or more"
_LEARNED_INTERVAL = (
    "end of an interval that about 95 % of the rows with status ok, and fewer of others, have the truth in"
)
_PERCENTILES = {
    "p15": "Speed that 15 % of the reports do not exceed",
    "p50": "Speed that half of the reports do not exceed",
    "p85": "Speed that 85 % of the reports do not exceed",
}


def columns_of(table: pa.Schema, spec: Specification) -> list[Column]:
    """In the order of the table's schema. Raises KeyError for a column that nobody has described."""
    known = {column.name: column for column in _columns(spec)}
    return [known[name] for name in table.names]


def _interval(spec: Specification) -> str:
    return _LEARNED_INTERVAL if spec.is_learned else _INTERVAL


def _columns(spec: Specification) -> list[Column]:
    resolution, interval = spec.cells.resolution, _interval(spec)
    listed = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    return [
        Column("slot_start", "Local time at which the slot begins, with its offset from UTC", "ISO 8601"),
        Column("slot_end", "Local time at which the slot ends, with its offset from UTC", "ISO 8601"),
        Column(
            "cell", f"The place: an H3 hexagon of resolution {resolution}, or the id of another place in places.geojson"
        ),
        Column("name", "What people call the place: its busiest stop, from the timetable; no part of what is measured"),
        Column("statistic", "What is measured"),
        Column("value", value_meaning(spec), "column unit"),
        Column("lower95", f"Lower {interval}", "column unit"),
        Column("upper95", f"Upper {interval}", "column unit"),
        Column("unit", "Unit of value, lower95 and upper95"),
        Column(
            "value_of",
            "What the value is of: place; area (the coarser hexagon around it, in the column area); day (the place's "
            "whole day). Where only the area or the day is known, all its places or slots have the same value",
        ),
        Column(
            "area", f"The coarser H3 hexagon, of resolution {max(resolution - 1, 0)}, where the value is of the area"
        ),
        Column("status", f"How well the value is known. {listed}"),
        Column("mechanism", "The algorithm that released it (docs/mechanisms.md, docs/levels.md of hatstream)"),
        Column("spec_id", "Identity of the specification: a hash of everything that decides a release"),
        *_of_some(interval),
        *_of_distributions(),
        Column("cdf", "Shares of reports at or below public speeds, the bins' upper ends", "1"),
        Column("slot_start_at", "Instant at which the slot begins"),
        Column("slot_end_at", "Instant at which the slot ends"),
        Column("geometry", "Outline of the place, longitude and latitude (OGC:CRS84)", "degrees"),
    ]


def _of_some(interval: str) -> list[Column]:
    """Columns that only some rows have."""
    return [
        Column(
            "own_value", "What is estimated of the place and slot by itself, however little is known", "column unit"
        ),
        Column("own_lower95", f"Of own_value: lower {interval}", "column unit"),
        Column("own_upper95", f"Of own_value: upper {interval}", "column unit"),
        Column(
            "noise_std", "Standard deviation of the noise of own_value, or of what is not known of it", "column unit"
        ),
        Column("bias_bound", "The most that clipping and rounding may shift own_value", "column unit"),
        Column(
            "epsilon", "What this value alone cost a vehicle in it; what one vehicle spends adds up over its values"
        ),
        Column("vehicles", "Vehicles that reported; public under this account", "1"),
        Column("reports", "Reports; public under this account", "1"),
        Column(
            "traffic_lower95", f"Of the mean that very many vehicles would have had: lower {_LEARNED_INTERVAL}", "km/h"
        ),
        Column(
            "traffic_upper95", f"Of the mean that very many vehicles would have had: upper {_LEARNED_INTERVAL}", "km/h"
        ),
        Column("leans_on_day", "Of live values: how far they rest on the day itself, 0 to 1", "1"),
        Column("product", "Which coarser product the row is of"),
        Column("distribution_status", "How well p15, p50 and p85 are known, as status has it of the value"),
        *_of_places(),
        Column("model_value", "Mean speed as this and earlier releases together say it", "km/h"),
        Column("model_lower95", f"Of model_value: lower {_LEARNED_INTERVAL}", "km/h"),
        Column("model_upper95", f"Of model_value: upper {_LEARNED_INTERVAL}", "km/h"),
        Column("model_status", "How well model_value is known: ok, unreliable, or held-back where there is none"),
    ]


def _of_places() -> list[Column]:
    return [
        Column("place", "Of products of places: the place, as in cell"),
        Column("days", "Of products of places: the released days that the row rests on, its own counted", "1"),
        Column(
            "vehicles_at_least",
            "Of products of places: 4 where it is proved that at least four vehicles were there on these days, with"
            " 95 % for all places and days together; else empty",
            "1",
        ),
    ]


def _of_distributions() -> list[Column]:
    said: Mapping[str, tuple[str, str]] = {
        **{name: (meaning, "km/h") for name, meaning in _PERCENTILES.items()},
        "mean": ("Mean speed of the distribution", "km/h"),
        "variance": ("Variance of the speeds of the distribution", "(km/h)^2"),
    }
    return [
        Column(f"{name}{end}", f"{part}{meaning}", unit)
        for name, (meaning, unit) in said.items()
        for end, part in (("", ""), ("_lower95", "Lower end of the 95 % interval. "), ("_upper95", "Upper end of it. "))
    ]
