"""TIDES vehicle_locations: CSV in metres per second.

Source: https://tides-transit.org, table vehicle_locations. Files without speeds, or with times without offset, are read
as `csv` with columns.
"""

from transforms.layouts.base import OwnLayout, Units
from transforms.layouts.mapped.csv import CsvTable
from transforms.value import PER_UNIT

COLUMNS = ("vehicle_id", "event_timestamp", "latitude", "longitude", "speed")

LAYOUT = OwnLayout(
    CsvTable(Units("iso", PER_UNIT["m/s"]), COLUMNS),
    heading="heading",
    form="csv",
    columns=COLUMNS,
    known_by={"location_ping_id", *COLUMNS},
    units_of=dict.fromkeys(("schedule_deviation", "headway_deviation"), "s"),
)
