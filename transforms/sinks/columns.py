"""Columns of the result table: type, presence, unit and meaning."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

_TYPE_BY_WORD = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64(), "list": pa.list_(pa.float64())}
ALWAYS, NULLABLE, SOME, STATISTIC = "always", "nullable", "some", "statistic"
"""Filled in every row; in every file, empty where a row has nothing; in files of some rows; of some statistics."""
_MEANING_BY_ENDING = {"_lower95": "Lower end of the 95 % interval. ", "_upper95": "Upper end of it. "}


class ResultColumn(NamedTuple):
    """Declaration of a result column."""

    name: str
    kind: pa.DataType
    presence: str  # ALWAYS, NULLABLE, SOME or STATISTIC
    meaning: str  # may contain {value}, {interval}, {learned}, {resolution}
    unit: str = ""  # empty for none


_COLUMN_TABLE = """\
spec_id | text | always |  | Identity of the specification: a hash of everything that decides a release
slot_start | text | always | ISO 8601 | Local time at which the slot begins, with its offset from UTC
slot_end | text | always | ISO 8601 | Local time at which the slot ends, with its offset from UTC
cell | text | always |  | The place: an H3 hexagon of resolution {resolution}, or the id of another place in \
places.geojson
statistic | text | always |  | What is measured
value | number | nullable | column unit | {value}
unit | text | always |  | Unit of value, lower95 and upper95
lower95 | number | nullable | column unit | Lower {interval}
upper95 | number | nullable | column unit | Upper {interval}
noise_std | number | nullable | column unit | Standard deviation of the noise of value, or of what is not known of it
bias_bound | number | nullable | column unit | The most that clipping and rounding may shift value
mechanism | text | always |  | The algorithm that released it (docs/mechanisms.md, docs/released.md of hatstream)
epsilon | number | nullable |  | What this value alone cost a vehicle in it; what one vehicle spends adds up over its \
values
epsilon_slot | number | always |  | The most that a vehicle spent on all values of the slot
status | text | always |  | How well the value is known
parent | text | some |  | Where the value is not known: the parent cell, which is
product | text | some |  | Which coarser product the row is of
place | text | some |  | Of products of places: the place, as in cell
distribution_status | text | some |  | How well p15, p50 and p85 are known, as status has it of the value
leans_on_day | number | some | 1 | Of live values: how far they rest on the day itself, 0 to 1
parent_value | number | some | column unit | The value of what parent names
parent_lower95 | number | some | column unit | Of parent_value: lower {interval}
parent_upper95 | number | some | column unit | Of parent_value: upper {interval}
traffic_lower95 | number | some | km/h | Of the mean that very many vehicles would have had: lower {learned}
traffic_upper95 | number | some | km/h | Of the mean that very many vehicles would have had: upper {learned}
vehicles_status | text | some |  | How well vehicles_about is known, as status has it of the value
vehicles_about+ | number | some | 1 | Vehicles that were there, about: what released weights say, a guess beside value
p15+ | number | some | km/h | Speed that 15 % of the reports do not exceed
p50+ | number | some | km/h | Speed that half of the reports do not exceed
p85+ | number | some | km/h | Speed that 85 % of the reports do not exceed
days | whole | some | 1 | Of products of places: the released days that the row rests on, its own counted
vehicles_at_least | whole | some | 1 | Of products of places: 4 where it is proved that at least four vehicles were \
there on these days, with 95 % for all places and days together; else empty
model | whole | some |  | Version of the model that estimated the value: of equal entries another one may estimate \
another value
mean+ | number | statistic | km/h | Mean speed of the distribution
variance+ | number | statistic | (km/h)^2 | Variance of the speeds of the distribution
cdf | list | statistic | 1 | Shares of reports at or below public speeds, the bins' upper ends
vehicles | whole | statistic | 1 | Vehicles that reported; public under this account
reports | whole | statistic | 1 | Reports; public under this account
"""
"""Name (with a plus: and its ends of 95 %), type, presence, unit and meaning; in the order of files."""


def _columns(declared: str) -> Iterator[ResultColumn]:
    """Reads the table of columns, a line each; a plus adds two ends."""
    for line in declared.splitlines():
        name, kind, presence, unit, meaning = (field.strip() for field in line.split("|"))
        yield ResultColumn(name.rstrip("+"), _TYPE_BY_WORD[kind], presence, meaning, unit)
        for end, field in _MEANING_BY_ENDING.items() if name.endswith("+") else ():
            yield ResultColumn(f"{name[:-1]}{end}", _TYPE_BY_WORD[kind], presence, field + meaning, unit)


COLUMNS = tuple(_columns(_COLUMN_TABLE))
_COMMON = [column for column in COLUMNS if column.presence in (ALWAYS, NULLABLE)]
SCHEMA = pa.schema([pa.field(column.name, column.kind, nullable=column.presence == NULLABLE) for column in _COMMON])
"""Columns that every file has; `schema_of` adds those of statistics with several outputs."""

OPTIONAL = {column.name: column.kind for column in COLUMNS if column.presence == SOME}
EXTRAS = {column.name: column.kind for column in COLUMNS if column.presence in (SOME, STATISTIC)}
"""Columns that only some rows have, without the instants (slot_start_at), which repeat texts."""
TYPES = {column.name: column.kind for column in COLUMNS}
