"""The columns of the result table, declared once: type, whether every row has it, unit and meaning of each."""

from typing import NamedTuple

import pyarrow as pa

TEXT, NUMBER, WHOLE, LIST = pa.string(), pa.float64(), pa.int64(), pa.list_(pa.float64())
ALWAYS, NULLABLE, SOME, STATISTIC = "always", "nullable", "some", "statistic"
"""Filled in every row; in every file, empty where a row has nothing; in files of some rows; of some statistics."""
_VALUE_UNIT = "column unit"
_ENDS = (("", ""), ("_lower95", "Lower end of the 95 % interval. "), ("_upper95", "Upper end of it. "))


class ResultColumn(NamedTuple):
    """presence: ALWAYS, NULLABLE, SOME or STATISTIC. unit: empty where there is none.

    meaning: with {value}, {interval}, {learned} and {resolution}, which a specification decides.
    """

    name: str
    kind: pa.DataType
    presence: str
    meaning: str
    unit: str = ""


def _with_ends(name: str, presence: str, meaning: str, unit: str) -> list[ResultColumn]:
    return [ResultColumn(f"{name}{end}", NUMBER, presence, f"{part}{meaning}", unit) for end, part in _ENDS]


COLUMNS = (
    ResultColumn("spec_id", TEXT, ALWAYS, "Identity of the specification: a hash of everything that decides a release"),
    ResultColumn(
        "slot_start", TEXT, ALWAYS, "Local time at which the slot begins, with its offset from UTC", "ISO 8601"
    ),
    ResultColumn("slot_end", TEXT, ALWAYS, "Local time at which the slot ends, with its offset from UTC", "ISO 8601"),
    ResultColumn(
        "cell",
        TEXT,
        ALWAYS,
        "The place: an H3 hexagon of resolution {resolution}, or the id of another place in places.geojson",
    ),
    ResultColumn("statistic", TEXT, ALWAYS, "What is measured"),
    ResultColumn("value", NUMBER, NULLABLE, "{value}", _VALUE_UNIT),
    ResultColumn("unit", TEXT, ALWAYS, "Unit of value, lower95 and upper95"),
    ResultColumn("lower95", NUMBER, NULLABLE, "Lower {interval}", _VALUE_UNIT),
    ResultColumn("upper95", NUMBER, NULLABLE, "Upper {interval}", _VALUE_UNIT),
    ResultColumn(
        "noise_std",
        NUMBER,
        NULLABLE,
        "Standard deviation of the noise of value, or of what is not known of it",
        _VALUE_UNIT,
    ),
    ResultColumn("bias_bound", NUMBER, NULLABLE, "The most that clipping and rounding may shift value", _VALUE_UNIT),
    ResultColumn(
        "mechanism", TEXT, ALWAYS, "The algorithm that released it (docs/mechanisms.md, docs/levels.md of hatstream)"
    ),
    ResultColumn(
        "epsilon",
        NUMBER,
        NULLABLE,
        "What this value alone cost a vehicle in it; what one vehicle spends adds up over its values",
    ),
    ResultColumn("epsilon_slot", NUMBER, ALWAYS, "The most that a vehicle spent on all values of the slot"),
    ResultColumn("status", TEXT, ALWAYS, "How well the value is known"),
    ResultColumn("parent", TEXT, SOME, "Where the value is not known: the parent cell, or the cell's day, that is"),
    ResultColumn("product", TEXT, SOME, "Which coarser product the row is of"),
    ResultColumn("place", TEXT, SOME, "Of products of places: the place, as in cell"),
    ResultColumn(
        "distribution_status", TEXT, SOME, "How well p15, p50 and p85 are known, as status has it of the value"
    ),
    ResultColumn("leans_on_day", NUMBER, SOME, "Of live values: how far they rest on the day itself, 0 to 1", "1"),
    ResultColumn("parent_value", NUMBER, SOME, "The value of what parent names", _VALUE_UNIT),
    ResultColumn("parent_lower95", NUMBER, SOME, "Of parent_value: lower {interval}", _VALUE_UNIT),
    ResultColumn("parent_upper95", NUMBER, SOME, "Of parent_value: upper {interval}", _VALUE_UNIT),
    ResultColumn(
        "traffic_lower95", NUMBER, SOME, "Of the mean that very many vehicles would have had: lower {learned}", "km/h"
    ),
    ResultColumn(
        "traffic_upper95", NUMBER, SOME, "Of the mean that very many vehicles would have had: upper {learned}", "km/h"
    ),
    *_with_ends("p15", SOME, "Speed that 15 % of the reports do not exceed", "km/h"),
    *_with_ends("p50", SOME, "Speed that half of the reports do not exceed", "km/h"),
    *_with_ends("p85", SOME, "Speed that 85 % of the reports do not exceed", "km/h"),
    ResultColumn(
        "days", WHOLE, SOME, "Of products of places: the released days that the row rests on, its own counted", "1"
    ),
    ResultColumn(
        "vehicles_at_least",
        WHOLE,
        SOME,
        "Of products of places: 4 where it is proved that at least four vehicles were there on these days, with"
        " 95 % for all places and days together; else empty",
        "1",
    ),
    *_with_ends("mean", STATISTIC, "Mean speed of the distribution", "km/h"),
    *_with_ends("variance", STATISTIC, "Variance of the speeds of the distribution", "(km/h)^2"),
    ResultColumn("cdf", LIST, STATISTIC, "Shares of reports at or below public speeds, the bins' upper ends", "1"),
    ResultColumn("vehicles", WHOLE, STATISTIC, "Vehicles that reported; public under this account", "1"),
    ResultColumn("reports", WHOLE, STATISTIC, "Reports; public under this account", "1"),
)
"""In the order of files."""

SCHEMA = pa.schema(
    [
        pa.field(column.name, column.kind, nullable=column.presence == NULLABLE)
        for column in COLUMNS
        if column.presence in (ALWAYS, NULLABLE)
    ]
)
"""Of statistics with one output; `schema_of` adds to it what others put out."""

NOTES = {column.name: column.kind for column in COLUMNS if column.presence == SOME}
EXTRAS = {column.name: column.kind for column in COLUMNS if column.presence in (SOME, STATISTIC)}
"""Columns that only some rows have. Instants (slot_start_at) are left out: they say what the texts say."""
TYPES = {column.name: column.kind for column in COLUMNS}
