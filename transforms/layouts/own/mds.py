"""MDS telemetry in JSON: metres per second, milliseconds.

Source: Mobility Data Specification 2.0, data types (Telemetry, GPS Data), agency and provider. MDS 1 differs (`gps.lat`
in an array `data`): it is read as `json` with `records`.
"""

from transforms.layouts.base import WHOLE_ARRAY, OwnLayout, Units
from transforms.layouts.mapped.json import JsonRecords
from transforms.value import PER_UNIT

COLUMNS: tuple[str, ...] = ("device_id", "timestamp", "location.lat", "location.lng", "location.speed")
PLACES = ("telemetry", "data.telemetry")  # an agency is sent the array alone

LAYOUT = OwnLayout(
    JsonRecords(Units("ms", PER_UNIT["m/s"]), COLUMNS, places=PLACES),
    heading="location.heading",
    form="json",
    columns=COLUMNS,
    known_by={"provider_id", *COLUMNS[:-1]},  # speeds may be missing
    records=(WHOLE_ARRAY, *PLACES),
    choices={"vehicle": ("device_id", "vehicle_id", "provider_id")},
)
