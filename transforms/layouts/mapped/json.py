"""JSON arrays, documents or lines, by dotted paths."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import msgspec

from transforms.layouts import base
from transforms.layouts.base import MappedLayout, Path, RawBatch, Units, UnreadableFile
from transforms.layouts.lines import BOM
from transforms.layouts.mapped.jsonl import read_json_lines
from transforms.layouts.open_file import opened, opened_text
from transforms.layouts.records import Paths, refuse_indexed_objects, table_of_records

MESSAGE_BYTES = 64 << 20


@dataclass(frozen=True)
class JsonRecords(MappedLayout):
    """JSON objects; columns are dotted paths, numbers index arrays, `*` is the record's key.

    records: path of the array or object that holds the objects, in a document. places: paths of such arrays, where
    inputs are documents or the array alone.
    """

    OPTIONS = ("records",)

    records: str | None = None
    places: tuple[str, ...] = ()

    @classmethod
    def of(cls, units: Units, columns: tuple[str, ...], fields: tuple[str, ...], options: Mapping[str, Any]) -> Self:
        """Creates the layout. Raises ValueError for its options."""
        refuse_indexed_objects(fields, columns)
        records: str | None = options["records"]
        if records is not None:
            base.steps_of_records(records)
        if any(steps == (base.ANY,) for steps in map(base.steps_of, columns)) and base.ANY not in base.steps_of(
            records or ""
        ):
            raise ValueError("columns: '*' is the key of a record, and input.records has none: such as entity.*")
        return cls(units, columns, fields, records)

    @property
    def _paths(self) -> Paths:
        return Paths.dotted(self.columns, self.fields, self.units.decimal)

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of a document, array or lines."""
        is_array = False
        if self.records is None:
            with opened_text(path) as file:
                is_array = begins_array(file.read(LOOK_BYTES))
        if is_array:
            elements = array_of(_whole(path, "a JSON array", ": use JSON lines").removeprefix(BOM))
            if elements is None:
                raise UnreadableFile(path, "a JSON array that is damaged or cut short")
            yield from batches_of_records(elements, self._paths)
        elif self.records is not None or self.places:
            yield from read_document(path, self.places if self.records is None else (self.records,), self._paths)
        else:
            with opened(path) as file:
                yield from read_json_lines(file, self._paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields the batches of messages."""
        if self.records is not None:
            yield from documents_of_messages(payloads, (self.records,), self._paths)
            return
        if not self.places:
            yield table_of_records(payloads, self._paths, {})
            return
        for payload in payloads:
            records = array_of(payload) if len(payload) <= MESSAGE_BYTES else None
            if records is not None:
                yield from batches_of_records(records, self._paths)
            else:
                yield from documents_of_messages([payload], self.places, self._paths)


LAYOUT = JsonRecords


def read_document(path: str, records: Sequence[str], paths: Paths) -> Iterator[RawBatch]:
    """Reads a document's objects at all paths of `records`."""
    try:
        yield from batches_of_snapshot(
            _whole(path, "a JSON document"), tuple(map(base.steps_of_records, records)), paths
        )
    except NoSnapshot:
        named = " or ".join(map(repr, records))
        raise UnreadableFile(path, f"no JSON with an array of objects at {named} (input.records)") from None


def documents_of_messages(payloads: Sequence[bytes], records: Sequence[str], paths: Paths) -> Iterator[RawBatch]:
    """Reads messages like `read_document`, refusing invalid ones."""
    places = tuple(map(base.steps_of_records, records))
    for payload in payloads:
        try:
            if len(payload) > MESSAGE_BYTES:
                yield table_of_records([], paths, {"too-long": 1})
            elif not payload.strip():
                raise NoSnapshot
            else:
                yield from batches_of_snapshot(payload, places, paths)
        except NoSnapshot:
            yield table_of_records([], paths, {"malformed": 1})


def _whole(path: str, kind: str, advice: str = "") -> bytes:
    with opened(path) as file:
        data = file.read(ARRAY_BYTES + 1)
    if len(data) > ARRAY_BYTES:
        raise UnreadableFile(path, f"{kind} of more than {ARRAY_BYTES >> 20} MiB{advice}")
    has_words = b"NaN" in data or b"Infinity" in data  # Python writes them, and they are no JSON
    return _WORDS.sub(lambda word: word[1] or b"null", data) if has_words else data


BATCH_RECORDS = 16_384
ARRAY_BYTES, LOOK_BYTES = 256 << 20, 1 << 17
_WORDS = re.compile(rb'("(?:[^"\\]|\\.)*")|NaN|-?Infinity')

DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def begins_array(start: bytes) -> bool:
    """Recognises a JSON array by its first LOOK_BYTES.

    An array on a line, followed by a line with an object, is one bad record and decides nothing for others.
    """
    text = start.removeprefix(BOM).lstrip(b" \t\r\n")
    if not text.startswith(b"["):
        return False
    for line in map(bytes.strip, text.split(b"\n")):
        if line.startswith(b"{"):
            return False
        if line.startswith(b"[") and array_of(line) is None:
            return True
    return True


def array_of(text: bytes) -> list[msgspec.Raw] | None:
    """Splits a JSON array into undecoded elements, or None."""
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except DAMAGE:
        return None


class NoSnapshot(ValueError):
    """Document without JSON, or without the records' array."""


def batches_of_snapshot(data: bytes, places: tuple[Path, ...], paths: Paths) -> Iterator[RawBatch]:
    """Reads records of a document or lines. Raises NoSnapshot.

    places: of arrays or objects, all read; missing ones are empty, as protocol buffers' JSON has it. A damaged record
    costs itself alone where the document is JSON.
    """
    data, keyed = data.removeprefix(BOM), (base.ANY,) in paths.places
    try:
        decode = _decoder(places, in_array=data.lstrip()[:1] == b"[").decode
        records = list(_inside(decode(data), keyed))
    except DAMAGE:
        try:
            decode = _decoder(places).decode
            records = [record for line in data.splitlines() if line.strip() for record in _inside(decode(line), keyed)]
        except DAMAGE:
            raise NoSnapshot from None
    yield from batches_of_records(records, paths)


def batches_of_records(records: Sequence[bytes | msgspec.Raw], paths: Paths) -> Iterator[RawBatch]:
    """Reads objects in batches."""
    for index in range(0, len(records), BATCH_RECORDS):
        yield table_of_records(list(map(bytes, records[index : index + BATCH_RECORDS])), paths, {})


def _inside(item: Any, keyed: bool, key: str | None = None) -> Iterator[bytes | msgspec.Raw]:
    """Yields a decoded document's records, with keys if `keyed`."""
    if isinstance(item, msgspec.Raw):
        yield _with_key(bytes(item), key) if keyed and key is not None else item
    elif isinstance(item, dict):
        for own_key, inner in item.items():
            yield from _inside(inner, keyed, own_key)
    else:
        parts = msgspec.structs.astuple(item) if isinstance(item, msgspec.Struct) else item or ()
        for inner in parts:
            yield from _inside(inner, keyed, key)


def _with_key(record: bytes, key: str) -> bytes:
    if not record.startswith(b"{"):
        return record
    members = record[1:].lstrip()
    return b'{"*":' + msgspec.json.encode(key) + (b"" if members.startswith(b"}") else b",") + members


@cache
def _decoder(places: tuple[Path, ...], *, in_array: bool = False) -> msgspec.json.Decoder[Any]:
    kind: Any = _document(places)
    return msgspec.json.Decoder(list[kind] if in_array else kind)


def _document(places: tuple[Path, ...]) -> Any:
    """Builds a document type with records at disjoint places.

    Where an array is only on the way, a single object may stand in its place.
    """
    if places == ((),):
        return msgspec.Raw
    firsts = list(dict.fromkeys(place[0] for place in places))
    if firsts[0] in (base.EACH, base.ANY):
        inner: Any = _document(tuple(place[1:] for place in places))
        if firsts[0] == base.ANY:
            return dict[str, inner]
        array: Any = list[inner]
        return array | inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else array
    keys = {f"f{i}": key for i, key in enumerate(firsts)}
    parts = {name: _document(tuple(place[1:] for place in places if place[0] == key)) for name, key in keys.items()}
    return msgspec.defstruct("Document", [(name, part | None, None) for name, part in parts.items()], rename=keys)
