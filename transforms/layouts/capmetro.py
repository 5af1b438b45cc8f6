"""Austin CapMetro's archive: CSV in metres per second, instants with their offset."""

from transforms.layouts.base import KMH_PER_UNIT, Units
from transforms.layouts.csv_table import CsvTable

CAPMETRO = CsvTable(Units("iso", KMH_PER_UNIT["m/s"]), ("vehicle_id", "timestamp", "latitude", "longitude", "speed"))
