"""TIDES vehicle_locations: CSV in metres per second.

Source: https://tides-transit.org, table vehicle_locations. Files without speeds, or with times without offset, are read
as `csv` with columns.
"""

from transforms.layouts.base import FIELDS, OwnLayout, Units, with_heading
from transforms.layouts.mapped.csv import CsvTable
from transforms.value import PER_UNIT

COLUMNS = ("vehicle_id", "event_timestamp", "latitude", "longitude", "speed")
UNITS = Units("iso", PER_UNIT["m/s"])

LAYOUT = OwnLayout(
    CsvTable(UNITS, COLUMNS),
    CsvTable(UNITS, with_heading(COLUMNS), with_heading(FIELDS)),
    form="csv",
    columns=COLUMNS,
    known_by={"location_ping_id", *COLUMNS},
    units_of=dict.fromkeys(("schedule_deviation", "headway_deviation"), "s"),
)
