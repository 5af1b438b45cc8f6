"""TIDES stop_visits: CSV of stops' dwell seconds or loads.

Source: https://tides-transit.org, table stop_visits. A delay is the way between two columns, actual and scheduled.
"""

from fractions import Fraction

from transforms.layouts.base import OwnLayout, Units, with_keys
from transforms.layouts.mapped.csv import CsvTable

COLUMNS = ("vehicle_id", "actual_arrival_time", "dwell")

LAYOUT = OwnLayout(
    CsvTable(Units("iso", Fraction(1)), COLUMNS, with_keys(0)),
    form="csv",
    columns=COLUMNS,
    known_by={"trip_id_performed", "schedule_arrival_time", *COLUMNS},
    choices={"time": ("actual_arrival_time", "actual_departure_time")},
    units_of={"dwell": "s"},
    has_positions=False,
)
