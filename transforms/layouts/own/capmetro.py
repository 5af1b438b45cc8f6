"""Austin CapMetro's archive: CSV in metres per second."""

from transforms.layouts.base import OwnLayout, Units
from transforms.layouts.mapped.csv import CsvTable
from transforms.value import PER_UNIT

COLUMNS = ("vehicle_id", "timestamp", "latitude", "longitude", "speed")

LAYOUT = OwnLayout(
    CsvTable(Units("iso", PER_UNIT["m/s"]), COLUMNS),
    form="csv",
    columns=COLUMNS,
    known_by={*COLUMNS, "route_id", "trip_id", "trip_headsign"},
    only=True,
)
