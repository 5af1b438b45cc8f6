"""Fixed layouts of CSV and JSON tables: names of columns, and units.

Sources: https://tides-transit.org (tables vehicle_locations, stop_visits); Mobility Data Specification 2.0, data types
(Telemetry, GPS Data), agency and provider. MDS 1 differs (`gps.lat` in an array `data`): it is read as `json` with
`records`.
"""

from collections.abc import Mapping
from fractions import Fraction

from transforms.layouts.base import LINES, WHOLE_ARRAY, OwnLayout, Units, with_keys
from transforms.layouts.mapped.csv import CsvTable
from transforms.layouts.mapped.json import JsonRecords
from transforms.value import PER_UNIT

_CAPMETRO_COLUMNS = ("vehicle_id", "timestamp", "latitude", "longitude", "speed")  # Austin's archive
_IUDX_COLUMNS = ("license_plate", "observationDateTime", "location.coordinates.1", "location.coordinates.0", "speed")
_MDS_COLUMNS = ("device_id", "timestamp", "location.lat", "location.lng", "location.speed")
_MDS_ARRAYS = ("telemetry", "data.telemetry")  # an agency is sent the array alone
_TIDES_COLUMNS = ("vehicle_id", "event_timestamp", "latitude", "longitude", "speed")
_STOP_VISITS = ("vehicle_id", "actual_arrival_time", "dwell")

LAYOUTS: Mapping[str, OwnLayout] = {
    "capmetro": OwnLayout(
        CsvTable(Units("iso", PER_UNIT["m/s"]), _CAPMETRO_COLUMNS),
        form="csv",
        known_by={*_CAPMETRO_COLUMNS, "route_id", "trip_id", "trip_headsign"},
        only=True,
    ),
    "iudx": OwnLayout(
        JsonRecords(Units("iso", PER_UNIT["km/h"]), _IUDX_COLUMNS),
        form="json",
        known_by=set(_IUDX_COLUMNS),
        records=(LINES, WHOLE_ARRAY),
    ),
    "mds": OwnLayout(
        JsonRecords(Units("ms", PER_UNIT["m/s"]), _MDS_COLUMNS, fixed_records=_MDS_ARRAYS),
        heading="location.heading",
        form="json",
        known_by={"provider_id", *_MDS_COLUMNS[:-1]},  # speeds may be missing
        records=(WHOLE_ARRAY, *_MDS_ARRAYS),
        choices={"vehicle": ("device_id", "vehicle_id", "provider_id")},
    ),
    "tides": OwnLayout(  # files without speeds, or with times without offset, are read as `csv` with columns
        CsvTable(Units("iso", PER_UNIT["m/s"]), _TIDES_COLUMNS),
        heading="heading",
        form="csv",
        known_by={"location_ping_id", *_TIDES_COLUMNS},
        units_of=dict.fromkeys(("schedule_deviation", "headway_deviation"), "s"),
    ),
    # Seconds of dwell, or loads. A delay is the difference of two columns, actual and scheduled.
    "tides-stop-visits": OwnLayout(
        CsvTable(Units("iso", Fraction(1)), _STOP_VISITS, with_keys(columns=0)),
        form="csv",
        known_by={"trip_id_performed", "schedule_arrival_time", *_STOP_VISITS},
        choices={"time": ("actual_arrival_time", "actual_departure_time")},
        units_of={"dwell": "s"},
        has_positions=False,
    ),
}
