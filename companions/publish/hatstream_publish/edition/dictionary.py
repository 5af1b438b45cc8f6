"""What every published column means, in words: for the data dictionary, the package and the files themselves."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from hatstream_publish.pages.words import STATUSES
from pipelines.further_columns import value_meaning
from pipelines.specification import Specification


class ColumnEntry(NamedTuple):
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


def columns_of(table: pa.Schema, spec: Specification) -> list[ColumnEntry]:
    """Describes the columns in the order of the table's schema. Raises KeyError for a column that nobody has
    described."""
    entry_of = {column.name: column for column in _columns(spec)}
    return [entry_of[name] for name in table.names]


def _columns(spec: Specification) -> list[ColumnEntry]:
    resolution, interval = spec.cells.resolution, _LEARNED_INTERVAL if spec.is_learned else _INTERVAL
    listed = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    return [
        ColumnEntry("slot_start", "Local time at which the slot begins, with its offset from UTC", "ISO 8601"),
        ColumnEntry("slot_end", "Local time at which the slot ends, with its offset from UTC", "ISO 8601"),
        ColumnEntry(
            "cell", f"The place: an H3 hexagon of resolution {resolution}, or the id of another place in places.geojson"
        ),
        ColumnEntry(
            "name", "What people call the place: its busiest stop, from the timetable; no part of what is measured"
        ),
        ColumnEntry("statistic", "What is measured"),
        ColumnEntry("value", value_meaning(spec), "column unit"),
        ColumnEntry("lower95", f"Lower {interval}", "column unit"),
        ColumnEntry("upper95", f"Upper {interval}", "column unit"),
        ColumnEntry("unit", "Unit of value, lower95 and upper95"),
        ColumnEntry(
            "value_of",
            "What the value is of: place; area (the coarser hexagon around it, in the column area); day (the place's "
            "whole day). Where only the area or the day is known, all its places or slots have the same value",
        ),
        ColumnEntry(
            "area", f"The coarser H3 hexagon, of resolution {max(resolution - 1, 0)}, where the value is of the area"
        ),
        ColumnEntry("status", f"How well the value is known. {listed}"),
        ColumnEntry("mechanism", "The algorithm that released it (docs/mechanisms.md, docs/levels.md of hatstream)"),
        ColumnEntry("spec_id", "Identity of the specification: a hash of everything that decides a release"),
        *_of_some(interval),
        *_of_distributions(),
        ColumnEntry("cdf", "Shares of reports at or below public speeds, the bins' upper ends", "1"),
        ColumnEntry("slot_start_at", "Instant at which the slot begins"),
        ColumnEntry("slot_end_at", "Instant at which the slot ends"),
        ColumnEntry("geometry", "Outline of the place, longitude and latitude (OGC:CRS84)", "degrees"),
    ]


def _of_some(interval: str) -> list[ColumnEntry]:
    """Lists the columns that only some rows have."""
    return [
        ColumnEntry(
            "own_value", "What is estimated of the place and slot by itself, however little is known", "column unit"
        ),
        ColumnEntry("own_lower95", f"Of own_value: lower {interval}", "column unit"),
        ColumnEntry("own_upper95", f"Of own_value: upper {interval}", "column unit"),
        ColumnEntry(
            "noise_std", "Standard deviation of the noise of own_value, or of what is not known of it", "column unit"
        ),
        ColumnEntry("bias_bound", "The most that clipping and rounding may shift own_value", "column unit"),
        ColumnEntry(
            "epsilon", "What this value alone cost a vehicle in it; what one vehicle spends adds up over its values"
        ),
        ColumnEntry("vehicles", "Vehicles that reported; public under this account", "1"),
        ColumnEntry("reports", "Reports; public under this account", "1"),
        ColumnEntry(
            "traffic_lower95", f"Of the mean that very many vehicles would have had: lower {_LEARNED_INTERVAL}", "km/h"
        ),
        ColumnEntry(
            "traffic_upper95", f"Of the mean that very many vehicles would have had: upper {_LEARNED_INTERVAL}", "km/h"
        ),
        ColumnEntry("leans_on_day", "Of live values: how far they rest on the day itself, 0 to 1", "1"),
        ColumnEntry("product", "Which coarser product the row is of"),
        ColumnEntry("distribution_status", "How well p15, p50 and p85 are known, as status has it of the value"),
        *_of_places(),
    ]


def _of_places() -> list[ColumnEntry]:
    return [
        ColumnEntry("place", "Of products of places: the place, as in cell"),
        ColumnEntry("days", "Of products of places: the released days that the row rests on, its own counted", "1"),
        ColumnEntry(
            "vehicles_at_least",
            "Of products of places: 4 where it is proved that at least four vehicles were there on these days, with"
            " 95 % for all places and days together; else empty",
            "1",
        ),
    ]


def _of_distributions() -> list[ColumnEntry]:
    said: Mapping[str, tuple[str, str]] = {
        **{name: (meaning, "km/h") for name, meaning in _PERCENTILES.items()},
        "mean": ("Mean speed of the distribution", "km/h"),
        "variance": ("Variance of the speeds of the distribution", "(km/h)^2"),
    }
    return [
        ColumnEntry(f"{name}{end}", f"{part}{meaning}", unit)
        for name, (meaning, unit) in said.items()
        for end, part in (("", ""), ("_lower95", "Lower end of the 95 % interval. "), ("_upper95", "Upper end of it. "))
    ]
