"""SIRI-VM: XML vehicle monitoring deliveries, parsed as a stream.

Entities and DTDs are refused; bytes are bounded. A vehicle's activity (VehicleActivity) is one row, texts by column.
Field SPEED holds the value that a specification chooses, also a delay.
Source: SIRI 2.0, CEN/TS 15531-3 (VehicleMonitoringDelivery); velocities are in its default, metres per second.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO
from xml.etree.ElementTree import ParseError

import pyarrow as pa
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from transforms.layouts.base import FIELDS, KEY_FIELDS, OwnLayout, RawBatch, Units, UnreadableFile, raw_batch
from transforms.layouts.open_file import LINE_BYTES, opened
from transforms.value import PER_UNIT, SPEED

UNITS = Units("iso", PER_UNIT["m/s"])
FEED_BYTES = 128 << 20
BATCH_ROWS = 16_384  # of rows that are made one by one
_PIECE_BYTES = 1 << 16
_DAMAGE_ERRORS = (ParseError, DefusedXmlException, ValueError, LookupError)

# Seconds of an ISO 8601 duration's units, before and after its T; a year is of 365.25 days.
_SECONDS_BY_UNIT = {"Y": 31_557_600, "M": 2_629_800, "W": 604_800, "D": 86_400}, {"H": 3_600, "M": 60, "S": 1}
_UNIT_PATTERNS = ["".join(f"(?:([+-]?[0-9]+(?:[.,][0-9]*)?){unit})?" for unit in units) for units in _SECONDS_BY_UNIT]
_DURATION = re.compile(f"([+-]?)P(?=[^T]|T.){_UNIT_PATTERNS[0]}(?:T{_UNIT_PATTERNS[1]})?")
_MOST_S = 1e300  # a finite value counts as its bound, however large

DELAY = "delay"  # in seconds, above 0 if late
_DELIVERY, _VEHICLE, _JOURNEY = "VehicleMonitoringDelivery", "VehicleActivity", "MonitoredVehicleJourney"
_TIMES = tuple(f"{kind}{event}Time" for event in ("Arrival", "Departure") for kind in ("Actual", "Expected", "Aimed"))
_KEYS = ("LineRef", "DirectionRef", "DatedVehicleJourneyRef", "StopPointRef", "PreviousStopPointRef", "OperatorRef")
_COLUMN_BY_PATH: Mapping[tuple[str, ...], str] = {
    ("VehicleMonitoringRef",): "VehicleMonitoringRef",
    ("RecordedAtTime",): "RecordedAtTime",
    **{(_JOURNEY, name): name for name in ("VehicleRef", "OperatorRef", "Bearing", "Velocity", *_KEYS[:2])},
    **{(_JOURNEY, "VehicleLocation", name): name for name in ("Latitude", "Longitude")},
    (_JOURNEY, "FramedVehicleJourneyRef", _KEYS[2]): _KEYS[2],
    **{(_JOURNEY, "MonitoredCall", name): name for name in (_KEYS[3], *_TIMES)},
    (_JOURNEY, "PreviousCalls", "PreviousCall", _KEYS[3]): _KEYS[4],  # of several the last
    (_JOURNEY, "Delay"): DELAY,
}  # where each column is below a vehicle's activity, in whatever namespace
_MOST_DEPTH = 1 + max(map(len, _COLUMN_BY_PATH))  # one more: the path of an element inside a column's is none
_RESPONSE_TIME = "ResponseTimestamp"
COLUMNS = ("VehicleRef", "RecordedAtTime", "Latitude", "Longitude", "Velocity")
_Row = dict[str, str]


@dataclass(frozen=True)
class SiriVm:
    """SIRI-VM reports: VehicleRef, RecordedAtTime, VehicleLocation, and Velocity, often missing.

    Vehicles of two operators with equal VehicleRef count as one, which protects each less (docs/guarantee.md, "What a
    vehicle is"); OperatorRef and VehicleRef distinguish them. columns, fields: output; with a heading, Bearing.
    """

    units: Units = UNITS
    columns: tuple[str, ...] = COLUMNS
    fields: tuple[str, ...] = FIELDS

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields batches of a delivery while parsing. Raises UnreadableFile."""
        feed = _Feed(self)
        try:
            with opened(path) as file:
                yield from feed.batches(file)
        except _TooMuch as found:
            raise UnreadableFile(path, str(found)) from None
        except _DAMAGE_ERRORS:
            raise UnreadableFile(path, "not a SIRI-VM document, or one with a DTD") from None

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields the batches of messages."""
        for payload in payloads:
            try:
                yield from list(_Feed(self).batches(BytesIO(payload)))
            except _TooMuch:
                yield _batch([], self, {"too-long": 1})
            except _DAMAGE_ERRORS:  # a damaged document is one refused row
                yield _batch([], self, {"malformed": 1})


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "vehicle": ("VehicleRef", "OperatorRef", "VehicleMonitoringRef"),
    "time": ("RecordedAtTime", _RESPONSE_TIME),
    SPEED: (DELAY, *_TIMES),
    **dict.fromkeys(KEY_FIELDS, _KEYS),
}
LAYOUTS = {"siri-vm": OwnLayout(SiriVm(), heading="Bearing", form="xml", choices=_CHOICES, units_of={DELAY: "s"})}


class _TooMuch(Exception):
    """The document is longer than any feed."""


class _Feed:
    """Collector of a document's rows; the XML parser calls start, data, end and close.

    _path: names of the open elements. _at_vehicle: its length at the open VehicleActivity, 0 without. _row: texts of
    that activity; _is_long: whether one has more than LINE_BYTES, so that it is no row. _field: column of the open
    element. _paths: columns by path below the activity. _response: the delivery's ResponseTimestamp, once read.
    _rows, _too_long: rows, and number of activities that are none, since the last batch.
    """

    def __init__(self, layout: SiriVm) -> None:
        self._layout = layout
        self._paths = {path: name for path, name in _COLUMN_BY_PATH.items() if name in layout.columns}
        self._response: str | None = None
        self._parser = XMLParser(target=self, forbid_dtd=True)
        self._path: list[str] = []
        self._at_vehicle = self._too_long = 0
        self._row: _Row = {}
        self._field: str | None = None
        self._is_long = self._is_delivery = False
        self._rows: list[_Row] = []

    def batches(self, file: BinaryIO) -> Iterator[RawBatch]:
        """Parses a document into batches. Raises _TooMuch or _DAMAGE_ERRORS."""
        size = 0
        while piece := file.read(_PIECE_BYTES):
            size += len(piece)
            if size > FEED_BYTES:
                raise _TooMuch(f"a SIRI-VM document of more than {FEED_BYTES >> 20} MiB")
            self._parser.feed(piece)
            if len(self._rows) >= BATCH_ROWS:
                yield self._next_batch()
        self._parser.close()
        if not self._is_delivery:
            raise ValueError  # one of _DAMAGE_ERRORS
        yield self._next_batch()

    def _next_batch(self) -> RawBatch:
        """Returns the rows collected since the last batch, and forgets them."""
        rows, too_long = self._rows, self._too_long
        self._rows, self._too_long = [], 0
        return _batch(rows, self._layout, {"too-long": too_long})

    def start(self, tag: str, _: Mapping[str, str]) -> None:
        """Enters an element; below a vehicle's activity, starts a field's text."""
        name = tag.rpartition("}")[2]  # without the namespace
        self._path.append(name)
        self._is_delivery |= name == _DELIVERY
        if self._at_vehicle:  # an activity is open: columns' paths begin at this depth; deeper ones match none
            self._field = self._paths.get(tuple(self._path[self._at_vehicle : self._at_vehicle + _MOST_DEPTH]))
            if self._field is not None:
                self._row[self._field] = ""
        elif name == _VEHICLE:
            self._at_vehicle, self._is_long = len(self._path), False
            self._row = {} if self._response is None else {_RESPONSE_TIME: self._response}
        elif name == _RESPONSE_TIME:
            self._response = ""

    def data(self, text: str) -> None:
        """Adds a piece of text to the delivery's time, or to a vehicle's field."""
        if not self._at_vehicle and self._response is not None and self._path[-1] == _RESPONSE_TIME:
            self._response = (self._response + text)[:LINE_BYTES]
        if self._field is not None and not self._is_long:
            self._row[self._field] += text
            self._is_long = len(self._row[self._field]) > LINE_BYTES

    def end(self, _: str) -> None:
        """Leaves an element; a vehicle's activity has become a row."""
        self._field = None
        if len(self._path) == self._at_vehicle:  # the element that ends is the open VehicleActivity
            self._at_vehicle = 0
            if self._is_long:
                self._too_long += 1
            else:
                self._rows.append(self._row)
        self._path.pop()

    def close(self) -> None:
        """Does nothing; the parser asks for it."""


def seconds_of(duration: str) -> str:
    """Converts an ISO 8601 duration to a text of seconds; others become `?`, bad.

    >>> seconds_of("PT2M"), seconds_of("-PT1M30S"), seconds_of("PT-30.5S"), seconds_of("120")
    ('120.0', '-90.0', '-30.5', '?')
    """
    if (match := _DURATION.fullmatch(duration)) is None:
        return "?"
    # After the sign, the groups are the numbers of Y, M, W, D, H, M, S, as in _SECONDS_BY_UNIT.
    pairs = zip(match.groups("0")[1:], (unit_s for units in _SECONDS_BY_UNIT for unit_s in units.values()), strict=True)
    seconds = sum(float(number.replace(",", ".")) * unit_s for number, unit_s in pairs)
    return str(min(max(-seconds if match[1] == "-" else seconds, -_MOST_S), _MOST_S))  # never "inf"


def _batch(rows: Sequence[_Row], layout: SiriVm, refusals: Mapping[str, int]) -> RawBatch:
    """Puts rows into columns of stripped texts by field; empty ones are null."""
    pairs = zip(layout.fields, layout.columns, strict=True)
    columns = {name: [(row.get(column) or "").strip() or None for row in rows] for name, column in pairs}
    if DELAY in layout.columns:  # it is the value, a duration such as PT90S; texts of other columns are parsed later
        columns[SPEED] = [text and seconds_of(text) for text in columns[SPEED]]
    return raw_batch({name: pa.array(texts, pa.string()) for name, texts in columns.items()}, refusals)
