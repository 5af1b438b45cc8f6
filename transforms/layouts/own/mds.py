"""MDS telemetry: JSON of agencies and providers of shared vehicles, in metres per second, with times in milliseconds.

Source: Mobility Data Specification 2.0, data types (Telemetry, GPS Data), agency and provider. Of MDS 1 an agency's
objects are otherwise (`gps.lat` in an array `data`): they are read as `json` with `records`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transforms.layouts.base import FIELDS, WHOLE_ARRAY, OwnLayout, RawBatch, Units, with_heading
from transforms.layouts.mapped.json import (
    LOOK_BYTES,
    MESSAGE_BYTES,
    JsonRecords,
    array_of,
    batches_of_records,
    begins_array,
    documents_of_messages,
    read_document,
)
from transforms.layouts.open_file import opened
from transforms.layouts.records import Paths
from transforms.value import PER_UNIT

COLUMNS: tuple[str, ...] = ("device_id", "timestamp", "location.lat", "location.lng", "location.speed")
HEADED: tuple[str, ...] = (*COLUMNS[:4], "location.heading", *COLUMNS[4:])
PLACES = ("telemetry", "data.telemetry")
"""Where a document has its objects, in one or both; an agency is sent the array alone."""
UNITS = Units("ms", PER_UNIT["m/s"])


@dataclass(frozen=True)
class MdsTelemetry:
    """Reads device_id, timestamp, location.lat, location.lng, and location.speed where a vehicle knows it."""

    units: Units = UNITS
    columns: tuple[str, ...] = COLUMNS
    fields: tuple[str, ...] = FIELDS

    @property
    def _paths(self) -> Paths:
        return Paths.dotted(self.columns, self.fields)

    def read(self, path: str) -> Iterator[RawBatch]:
        with opened(path) as file:
            is_array = begins_array(file.read(LOOK_BYTES))
        if is_array:
            return JsonRecords(self.units, self.columns, self.fields).read(path)
        return read_document(path, PLACES, self._paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        for payload in payloads:
            records = array_of(payload) if len(payload) <= MESSAGE_BYTES else None
            if records is not None:
                yield from batches_of_records(records, self._paths)
            else:
                yield from documents_of_messages([payload], PLACES, self._paths)


LAYOUT = OwnLayout(
    MdsTelemetry(),
    MdsTelemetry(columns=HEADED, fields=with_heading(FIELDS)),
    form="json",
    columns=COLUMNS,
    known_by={"provider_id", *COLUMNS[:-1]},  # speeds may be missing
    records=(WHOLE_ARRAY, *PLACES),
    choices={"vehicle": ("device_id", "vehicle_id", "provider_id")},
)
