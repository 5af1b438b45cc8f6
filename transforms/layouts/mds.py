"""MDS telemetry: JSON of agencies and providers of shared vehicles, in metres per second, with times in milliseconds.

Source: Mobility Data Specification 2.0, data types (Telemetry, GPS Data), agency and provider. Of MDS 1 an agency's
objects are otherwise (`gps.lat` in an array `data`): they are read as `json` with `records`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from transforms.layouts.base import KMH_PER_UNIT, Units
from transforms.layouts.iudx import LOOK_BYTES, begins_array
from transforms.layouts.json_records import MESSAGE_BYTES, JsonRecords
from transforms.layouts.open_file import opened
from transforms.layouts.records import Paths
from transforms.layouts.snapshots import DAMAGE, batches_of_records
from transforms.records import RawBatch

COLUMNS = ("device_id", "timestamp", "location.lat", "location.lng", "location.speed")
PLACES = ("telemetry", "data.telemetry")
"""Where a document has its objects; an agency is sent the array alone."""
UNITS = Units("ms", KMH_PER_UNIT["m/s"])

_ARRAY = JsonRecords(UNITS, COLUMNS)
_DOCUMENTS = tuple(JsonRecords(UNITS, COLUMNS, records=place) for place in PLACES)


@dataclass(frozen=True)
class MdsTelemetry:
    """device_id, timestamp, location.lat, location.lng, and location.speed where a vehicle knows it."""

    units: Units = UNITS

    def read(self, path: str) -> Iterator[RawBatch]:
        with opened(path) as file:
            is_array = begins_array(file.read(LOOK_BYTES))
        return _ARRAY.read(path) if is_array else _of_document(lambda layout: layout.read(path))

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        for payload in payloads:
            yield from _of_message(payload)


MDS = MdsTelemetry()


def _of_message(payload: bytes) -> Iterator[RawBatch]:
    records = _array_of(payload)
    if records is not None:
        return batches_of_records(records, Paths.dotted(COLUMNS))
    return _of_document(lambda layout: layout.from_messages([payload]))


def _of_document(read: Callable[[JsonRecords], Iterator[RawBatch]]) -> Iterator[RawBatch]:
    """What lies at the first of the places that holds anything."""
    for layout in _DOCUMENTS:
        rows = 0
        for batch in read(layout):
            rows += batch.rows
            yield batch
        if rows:
            return


def _array_of(payload: bytes) -> list[msgspec.Raw] | None:
    if len(payload) > MESSAGE_BYTES:
        return None
    try:
        return msgspec.json.decode(payload, type=list[msgspec.Raw])
    except DAMAGE:
        return None
