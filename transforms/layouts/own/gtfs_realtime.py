"""GTFS-realtime VehiclePositions and TripUpdates: protobuf FeedMessages decoded by entity.

Decoded as one message, two bytes of a hostile feed would take two hundred in memory. An entity holds at most one report
of the layout's kind: a row, or in its place the reason of refusing it. On the wire, a message is a series of fields,
each a tag (a number and a wire type) and its data.
Source: gtfs-realtime.proto (FeedMessage) and the protocol buffers wire format.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, Literal

import pyarrow as pa
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.transit import gtfs_realtime_pb2

from transforms.layouts.base import FIELDS, KEY_FIELDS, OwnLayout, RawBatch, Units, UnreadableFile, raw_batch, with_keys
from transforms.layouts.open_file import LINE_BYTES, opened, read_whole
from transforms.value import PER_UNIT, SPEED

UNITS = Units("s", PER_UNIT["m/s"])
FEED_BYTES = 64 << 20
FEED_FIELDS = 1 << 20  # most fields of a feed message, which are its entities
BATCH_ROWS = 16_384  # of rows that are made one by one

_HEADER, _ENTITY = 1, 2  # field numbers of FeedMessage
_FIRST_TAG = b"\x0a"  # of a message that begins with its header
_REFUSAL_REASONS = ("too-long", "not-utf8", "malformed")
_VARINT, _LENGTH_DELIMITED = 0, 2  # wire types: the low three bits of a field's tag
_FIXED_BYTES = {1: 8, 5: 4}  # by wire type
_TYPES = {"time": pa.uint64()} | dict.fromkeys(("vehicle", *KEY_FIELDS), pa.string())  # else numbers
_Row = tuple[Any, ...]  # values of the layout's columns
_Read = Callable[[Any, int | None], Any]  # called with an entity and its header's time in s; None if it has no value
Kind = Literal["vehicle", "trip_update"]  # as entities name the one that they have


def _value_of(message: Any, name: str) -> Any:
    value = getattr(message, name) if message.HasField(name) else None
    return str(value) if name == "direction_id" and value is not None else value  # a number, and here a key


def _field_of(message: str, name: str) -> _Read:
    """Creates a reader of one field of entities' messages."""
    message_of = attrgetter(message)
    return lambda entity, _: _value_of(message_of(entity), name)


def _occupancy(entity: Any, _: int | None) -> int | None:
    """Reads a vehicle's occupancy, 0 (empty) to 5 (full); None for other statuses."""
    status = _value_of(entity.vehicle, "occupancy_status")
    return status if status is not None and status <= entity.vehicle.FULL else None


def _time_of_update(entity: Any, header_s: int | None) -> int | None:
    update_s = _value_of(entity.trip_update, "timestamp")
    return header_s if update_s is None else update_s


def _next_stop(name: str, entity: Any, header_s: int | None) -> Any:
    """Reads stop_id, next_stop_id or delay (s) of a trip update, as `name` says.

    The next stop is the first with a delay and without a time before now, else the last with a delay.
    """
    now_s, delay_s = _time_of_update(entity, header_s) or 0, _value_of(entity.trip_update, "delay")
    stops, stop_id, following_id = entity.trip_update.stop_time_update, None, None
    for stop, following in zip_longest(stops, stops[1:]):
        if (event := stop.arrival if stop.arrival.HasField("delay") else stop.departure).HasField("delay"):
            stop_id, delay_s = _value_of(stop, "stop_id"), event.delay
            following_id = following and _value_of(following, "stop_id")
            if not event.HasField("time") or event.time >= now_s:
                break
    return {"stop_id": stop_id, "next_stop_id": following_id, "delay": delay_s}[name]


_IDS, _KEYS = ("id", "label", "license_plate"), ("route_id", "trip_id", "direction_id", "stop_id")
_READERS_BY_KIND: Mapping[Kind, dict[str, _Read]] = {
    "vehicle": {
        **{name: _field_of("vehicle", name) for name in ("timestamp", "stop_id", "occupancy_percentage")},
        **{name: _field_of("vehicle.position", name) for name in ("latitude", "longitude", "bearing", "speed")},
        "occupancy_status": _occupancy,
    },
    "trip_update": {
        "timestamp": _time_of_update,
        **{name: partial(_next_stop, name) for name in ("stop_id", "next_stop_id", "delay")},
    },
}
for _kind, _read in _READERS_BY_KIND.items():
    _read |= {name: _field_of(f"{_kind}.vehicle", name) for name in _IDS}
    _read |= {name: _field_of(f"{_kind}.trip", name) for name in _KEYS[:3]}
    _read |= {"entity": lambda entity, _: entity.id, "header": lambda _, header_s: header_s}
COLUMNS = ("id", "timestamp", "latitude", "longitude", "speed")
_CHOICES = {"vehicle": (*_IDS, "entity"), "time": ("timestamp", "header"), **dict.fromkeys(KEY_FIELDS, _KEYS)}


@dataclass(frozen=True)
class GtfsRealtime:
    """GTFS-realtime entities: ids, seconds, positions, speeds in m/s."""

    units: Units = UNITS
    columns: tuple[str, ...] = COLUMNS
    fields: tuple[str, ...] = FIELDS
    kind: Kind = "vehicle"

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of a feed message. Raises UnreadableFile."""
        with opened(path) as file:
            data = read_whole(path, file, FEED_BYTES, f"a feed message of more than {FEED_BYTES >> 20} MiB")
        try:
            yield from _batches(_rows(data, self), self.fields)
        except _TooManyFields:
            raise UnreadableFile(path, f"a feed message of more than {FEED_FIELDS:,} entities") from None
        except (DecodeError, IndexError):
            raise UnreadableFile(path, "not a GTFS-realtime feed message") from None

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields the batches of messages."""
        rows = (row for payload in payloads for row in _rows_of_message(payload, self))
        yield from _batches(rows, self.fields)


LAYOUTS = {
    "gtfs-realtime": OwnLayout(
        GtfsRealtime(),
        heading="bearing",
        choices={**_CHOICES, SPEED: ("occupancy_status", "occupancy_percentage")},
        units_of={"occupancy_percentage": "%"},
    ),
    "gtfs-trip-updates": OwnLayout(  # delays at the next stops, in seconds
        GtfsRealtime(Units("s", Fraction(1)), ("id", "timestamp", "delay"), with_keys(columns=0), "trip_update"),
        choices={**_CHOICES, **dict.fromkeys(KEY_FIELDS, (*_KEYS, "next_stop_id")), SPEED: ("delay",)},
        units_of={"delay": "s"},
        has_positions=False,
    ),
}


class _TooManyFields(DecodeError):  # type: ignore[misc]
    """A message of more than FEED_FIELDS."""


def _rows_of_message(data: bytes, layout: GtfsRealtime) -> list[_Row | str]:
    """Reads a message's rows; damage is one refused row."""
    try:
        return list(_rows(data, layout)) if len(data) <= FEED_BYTES else ["too-long"]
    except _TooManyFields:
        return ["too-long"]
    except (DecodeError, IndexError):
        return ["malformed"]


def _rows(data: bytes, layout: GtfsRealtime) -> Iterator[_Row | str]:
    """Yields a row per entity with a report, or a reason for refusing it.

    The data is one message, or several in a row, each after its length. Raises DecodeError or IndexError for other
    data, _TooManyFields for more than FEED_FIELDS.
    """
    messages, offset = [], 0  # (start, end) of each
    while offset < len(data):
        try:
            size, offset = _varint(data, offset)
        except (DecodeError, IndexError):
            break
        if offset + size > len(data) or data[offset : offset + 1] != _FIRST_TAG:
            break  # no message with its header first: what was read is no length, and the data is one message
        messages.append((offset, offset + size))
        offset += size
    ranges, header_s = (messages if messages and offset == len(data) else [(0, len(data))]), None
    for field, start, end in _fields(data, *ranges[0]):  # the first header may stand behind its entities
        if field == _HEADER:
            header_s = _time_of_header(data[start:end])
            break
    readers, has_header = [_READERS_BY_KIND[layout.kind][column] for column in layout.columns], False
    parts = (part for message in ranges for part in _fields(data, *message))
    for number, (field, start, end) in enumerate(parts):  # field: its number in the message
        if number > FEED_FIELDS:
            raise _TooManyFields
        if field == _HEADER:
            has_header, header_s = True, _time_of_header(data[start:end])
        if field != _ENTITY:
            continue
        if end - start > LINE_BYTES:
            yield "too-long"
            continue
        entity = gtfs_realtime_pb2.FeedEntity.FromString(data[start:end])
        if entity.HasField(layout.kind) and not entity.is_deleted:
            row = tuple(reader(entity, header_s) for reader in readers)
            yield "not-utf8" if any(isinstance(value, bytes) for value in row) else row  # bad texts stay bytes
    if not has_header:
        raise DecodeError


def _time_of_header(data: bytes) -> int | None:
    header = gtfs_realtime_pb2.FeedHeader.FromString(data)
    return header.timestamp if header.HasField("timestamp") else None


def _fields(data: bytes, offset: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yields (field number, start, end) of a message's fields. Raises IndexError, DecodeError."""
    while offset < stop:
        tag, offset = _varint(data, offset)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, offset = _varint(data, offset)
        elif wire_type == _VARINT:
            _, end = _varint(data, offset)
            size = end - offset
        elif wire_type in _FIXED_BYTES:
            size = _FIXED_BYTES[wire_type]
        else:
            raise DecodeError
        if offset + size > stop:
            raise DecodeError
        yield tag >> 3, offset, offset + size
        offset += size


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Reads a varint and the offset after it. Raises DecodeError beyond ten bytes."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise DecodeError


def _batches(rows_or_reasons: Iterator[_Row | str], fields: tuple[str, ...]) -> Iterator[RawBatch]:
    """Puts rows into columns by field, and counts the reasons among them."""
    while decoded := list(islice(rows_or_reasons, BATCH_ROWS)):
        rows = [row for row in decoded if not isinstance(row, str)]
        pairs = zip(fields, zip(*rows, strict=True) if rows else ((),) * len(fields), strict=True)
        arrays = {name: pa.array(values, _TYPES.get(name.partition(".")[0], pa.float64())) for name, values in pairs}
        yield raw_batch(arrays, {reason: decoded.count(reason) for reason in _REFUSAL_REASONS})
