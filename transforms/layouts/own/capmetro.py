"""Austin CapMetro's archive: CSV in metres per second, instants with their offset."""

from transforms.layouts.base import KMH_PER_UNIT, OwnLayout, Units
from transforms.layouts.mapped.csv import CsvTable

COLUMNS = ("vehicle_id", "timestamp", "latitude", "longitude", "speed")

LAYOUT = OwnLayout(
    CsvTable(Units("iso", KMH_PER_UNIT["m/s"]), COLUMNS),
    form="csv",
    columns=COLUMNS,
    known_by={*COLUMNS, "route_id", "trip_id", "trip_headsign"},
    only=True,
)
