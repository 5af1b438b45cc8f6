"""TIDES vehicle_locations: CSV in metres per second, instants with their offset.

Source: https://tides-transit.org, table vehicle_locations. A file without speeds, or whose times have no offset, is
read as `csv` with columns.
"""

from transforms.layouts.base import KMH_PER_UNIT, Units
from transforms.layouts.csv_table import CsvTable

TIDES = CsvTable(Units("iso", KMH_PER_UNIT["m/s"]), ("vehicle_id", "event_timestamp", "latitude", "longitude", "speed"))
