"""GTFS-realtime VehiclePositions: one protobuf FeedMessage a file or message, decoded entity by entity.

Decoded as a whole, two bytes of a hostile feed would take two hundred in memory.
Source: gtfs-realtime.proto (FeedMessage) and the protocol buffers wire format.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.transit import gtfs_realtime_pb2

from transforms.layouts.base import (
    FIELDS,
    HEADING,
    OwnLayout,
    RawBatch,
    Units,
    UnreadableFile,
    raw_batch,
    with_heading,
)
from transforms.layouts.lines import LINE_BYTES
from transforms.value import PER_UNIT

UNITS = Units("s", PER_UNIT["m/s"])
FEED_BYTES = 64 << 20
FEED_FIELDS = 1 << 20
"""Most fields of a feed message, which are its entities."""
BATCH_ROWS = 16_384  # of rows that are made one by one

_HEADER, _ENTITY = 1, 2
_REASONS = ("too-long", "not-utf8", "malformed")
_FIXED_BYTES = {1: 8, 5: 4}  # by wire type
_TYPES = {"vehicle": pa.string(), "time": pa.uint64(), "speed": pa.float64()}
_TYPES |= dict.fromkeys(("lat", "lon", HEADING), pa.float64())
_Row = tuple[str | bytes | None, int | None, float | None, float | None, float | None, float | None]
_ROW = with_heading(FIELDS)


@dataclass(frozen=True)
class GtfsRealtime:
    """vehicle.vehicle.id, timestamp in seconds, position in degrees, position.speed in metres per second.

    fields: those that are kept; with a heading, position.bearing.
    """

    units: Units = UNITS
    fields: tuple[str, ...] = FIELDS

    def read(self, path: str) -> Iterator[RawBatch]:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > FEED_BYTES:
                raise UnreadableFile(path, f"a feed message of more than {FEED_BYTES >> 20} MiB")
            data = file.read()
        try:
            rows = _rows(data)
            while part := list(islice(rows, BATCH_ROWS)):
                yield _batch(part, self.fields)
        except _TooManyFields:
            raise UnreadableFile(path, f"a feed message of more than {FEED_FIELDS:,} entities") from None
        except (DecodeError, IndexError):
            raise UnreadableFile(path, "not a GTFS-realtime feed message") from None

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        rows = (row for payload in payloads for row in _message_rows(payload))
        while part := list(islice(rows, BATCH_ROWS)):
            yield _batch(part, self.fields)


LAYOUT = OwnLayout(GtfsRealtime(), GtfsRealtime(fields=with_heading(FIELDS)), form="binary")


class _TooManyFields(DecodeError):  # type: ignore[misc]
    """A message of more than FEED_FIELDS."""


def _message_rows(data: bytes) -> list[_Row | str]:
    """Gives the rows that `_rows` does, but a damaged feed is one refused row."""
    if len(data) > FEED_BYTES:
        return ["too-long"]
    try:
        return list(_rows(data))
    except _TooManyFields:
        return ["too-long"]
    except (DecodeError, IndexError):
        return ["malformed"]


def _rows(data: bytes) -> Iterator[_Row | str]:
    """Yields the rows of the entities that have a vehicle, and a reason for each that is refused."""
    has_header = False
    for number, (field, start, end) in enumerate(_fields(data)):
        if number > FEED_FIELDS:
            raise _TooManyFields
        has_header |= field == _HEADER
        if field != _ENTITY:
            continue
        if end - start > LINE_BYTES:
            yield "too-long"
            continue
        entity = gtfs_realtime_pb2.FeedEntity.FromString(data[start:end])
        if entity.HasField("vehicle"):
            row = _row(entity.vehicle)
            yield "not-utf8" if isinstance(row[0], bytes) else row
    if not has_header:
        raise DecodeError


def _fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields number, start and end of each field of a message. Raises IndexError or DecodeError where it is damaged."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == 2:
            size, place = _varint(data, place)
        elif wire == 0:
            size = _varint(data, place)[1] - place
        elif wire in _FIXED_BYTES:
            size = _FIXED_BYTES[wire]
        else:
            raise DecodeError
        if place + size > len(data):
            raise DecodeError
        yield tag >> 3, place, place + size
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise DecodeError


def _row(report: Any) -> _Row:
    place = report.position
    return (
        report.vehicle.id if report.vehicle.HasField("id") else None,
        report.timestamp if report.HasField("timestamp") else None,
        place.latitude if place.HasField("latitude") else None,
        place.longitude if place.HasField("longitude") else None,
        place.bearing if place.HasField("bearing") else None,
        place.speed if place.HasField("speed") else None,
    )


def _batch(decoded: list[_Row | str], fields: tuple[str, ...]) -> RawBatch:
    rows = [row for row in decoded if not isinstance(row, str)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(_ROW)
    found_of = dict(zip(_ROW, columns, strict=True))
    arrays = {name: pa.array(found_of[name], _TYPES[name]) for name in fields}
    return raw_batch(arrays, {reason: decoded.count(reason) for reason in _REASONS})
