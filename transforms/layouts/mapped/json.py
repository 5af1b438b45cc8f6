"""JSON arrays, documents or lines, by dotted paths.

A record is an object that is one row; `table_of_records` makes a batch of records' bytes, and refuses damaged ones. A
document holds records at paths, with EACH for all elements of an array, ANY for all values of an object.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

import msgspec

from transforms.layouts import base
from transforms.layouts.base import Path, RawBatch, UnreadableFile
from transforms.layouts.open_file import opened, opened_text, read_chunks, read_whole
from transforms.layouts.records import DAMAGE, Paths, RecordLayout, table_of_records

MESSAGE_BYTES = 64 << 20  # longer documents of a topic are refused


@dataclass(frozen=True)
class JsonRecords(RecordLayout):
    """JSON objects in a document, array or lines; column `*` is an object's key.

    records: path of the array or object that holds the objects. fixed_records: likewise of a fixed layout, whose inputs
    may also be the array alone. paths: of columns.
    """

    OPTIONS = ("records",)

    records: str | None = None
    fixed_records: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises ValueError for columns and records that do not fit."""
        super().check()
        path = () if self.records is None else base.steps_of_records(self.records)
        if (base.ANY,) in map(base.steps_of, self.columns) and base.ANY not in path:
            raise ValueError("columns: '*' is the key of a record, and input.records has none: such as entity.*")

    @property
    def _record_paths(self) -> tuple[str, ...]:
        """Paths of records in documents; empty for lines or an array."""
        return self.fixed_records if self.records is None else (self.records,)

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of a document, array or lines. Raises UnreadableFile."""
        is_array = False
        if self.records is None:
            with opened_text(path) as file:
                is_array = begins_array(file.read(LOOK_BYTES))
        if is_array:
            elements = array_of(_whole(path, "a JSON array", advice=": use JSON lines").removeprefix(BOM_UTF8))
            if elements is None:
                raise UnreadableFile(path, "a JSON array that is damaged or cut short")
            yield from batches_of_records(elements, self.paths)
        elif self._record_paths:  # one document, with its records at one of these paths
            try:
                yield from batches_of_snapshot(_whole(path, "a JSON document"), self._record_paths, self.paths)
            except NoSnapshot:
                named = " or ".join(map(repr, self._record_paths))
                raise UnreadableFile(path, f"no JSON with an array of objects at {named} (input.records)") from None
        else:
            with opened(path) as file:
                yield from _batches_of_lines(file, self.paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields the batches of messages, refusing invalid documents."""
        if not self._record_paths:  # each message is a record
            yield table_of_records(payloads, self.paths, refusals={})
            return
        for payload in payloads:
            if len(payload) > MESSAGE_BYTES:
                yield table_of_records([], self.paths, {"too-long": 1})
                continue
            try:
                if self.records is None and (elements := array_of(payload)) is not None:
                    yield from batches_of_records(elements, self.paths)
                elif payload.strip():
                    yield from batches_of_snapshot(payload, self._record_paths, self.paths)
                else:
                    raise NoSnapshot  # an empty message
            except NoSnapshot:
                yield table_of_records([], self.paths, {"malformed": 1})


class JsonLines(RecordLayout):
    """JSON lines: one object a line."""

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of lines."""
        with opened_text(path) as file:
            yield from _batches_of_lines(file, self.paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields a batch with a row per message."""
        yield table_of_records(payloads, self.paths, refusals={})


LAYOUTS = {"json": JsonRecords, "jsonl": JsonLines}


def _batches_of_lines(file: BinaryIO, paths: Paths) -> Iterator[RawBatch]:
    """Reads JSON lines in batches, leaving out blank lines."""
    for data, too_long in read_chunks(file):
        texts = [line.removesuffix(b"\r") for line in data.split(b"\n") if line.strip()]
        yield table_of_records(texts, paths, {"too-long": too_long})


def _whole(path: str, kind: str, advice: str = "") -> bytes:
    """Reads a bounded document, with null for NaN and Infinity. Raises UnreadableFile."""
    with opened(path) as file:
        data = read_whole(path, file, ARRAY_BYTES, f"{kind} of more than {ARRAY_BYTES >> 20} MiB{advice}")
    has_words = b"NaN" in data or b"Infinity" in data  # Python writes them, and they are no JSON
    # Group 1 is a text in quotes, which may hold these words: it stays; the words themselves become null.
    return _NAN_PATTERN.sub(lambda match: match[1] or b"null", data) if has_words else data


BATCH_RECORDS = 16_384
ARRAY_BYTES, LOOK_BYTES = 256 << 20, 1 << 17
_NAN_PATTERN = re.compile(rb'("(?:[^"\\]|\\.)*")|NaN|-?Infinity')


def begins_array(start: bytes) -> bool:
    """Recognises a JSON array by its first LOOK_BYTES.

    An array on a line, followed by a line with an object, is one bad record and decides nothing for others.
    """
    text = start.removeprefix(BOM_UTF8).lstrip(b" \t\r\n")
    if not text.startswith(b"["):
        return False
    for line in map(bytes.strip, text.split(b"\n")):
        if line.startswith(b"{"):
            return False
        if line.startswith(b"[") and array_of(line) is None:  # begins an array that further lines end
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


def batches_of_snapshot(data: bytes, dotted_paths: Sequence[str], paths: Paths) -> Iterator[RawBatch]:
    """Reads records of one document, or of a document a line. Raises NoSnapshot.

    dotted_paths: of arrays or objects, all read; missing ones are empty, as protocol buffers' JSON has it. A damaged
    record costs itself alone where the document is JSON.
    """
    data, keyed = data.removeprefix(BOM_UTF8), (base.ANY,) in paths.by_field  # column "*": a record's key in its object
    record_paths = tuple(map(base.steps_of_records, dotted_paths))
    try:
        decode = _decoder(record_paths, in_array=data.lstrip()[:1] == b"[").decode  # an array of documents
        records = list(_inside(decode(data), keyed))
    except DAMAGE:  # not one document: each line may be one
        try:
            decode = _decoder(record_paths).decode
            records = [record for line in data.splitlines() if line.strip() for record in _inside(decode(line), keyed)]
        except DAMAGE:
            raise NoSnapshot from None
    yield from batches_of_records(records, paths)


def batches_of_records(records: Sequence[bytes | msgspec.Raw], paths: Paths) -> Iterator[RawBatch]:
    """Reads objects in batches."""
    for index in range(0, len(records), BATCH_RECORDS):
        yield table_of_records(list(map(bytes, records[index : index + BATCH_RECORDS])), paths, refusals={})


def _inside(item: Any, keyed: bool, key: str | None = None) -> Iterator[bytes | msgspec.Raw]:
    """Yields raw records inside a decoded document; `keyed`: with keys as members `*`."""
    if isinstance(item, msgspec.Raw) and keyed and key is not None:
        record = bytes(item)
        if record.startswith(b"{"):  # an object, of which the key becomes a member
            members = record[1:].lstrip()
            record = b'{"*":' + msgspec.json.encode(key) + (b"" if members.startswith(b"}") else b",") + members
        yield record
    elif isinstance(item, msgspec.Raw):
        yield item
    elif isinstance(item, dict):
        for inner_key, inner in item.items():
            yield from _inside(inner, keyed, inner_key)
    else:
        for inner in msgspec.structs.astuple(item) if isinstance(item, msgspec.Struct) else item or ():
            yield from _inside(inner, keyed, key)


@cache
def _decoder(record_paths: tuple[Path, ...], *, in_array: bool = False) -> msgspec.json.Decoder[Any]:
    kind: Any = _document(record_paths)
    return msgspec.json.Decoder(list[kind] if in_array else kind)


def _document(record_paths: tuple[Path, ...]) -> Any:
    """Builds msgspec's type of a document with undecoded records at disjoint paths.

    Where an array's objects are no records but hold them, a single object may stand in its place.
    """
    if record_paths == ((),):  # the paths have led to a record
        return msgspec.Raw
    tops = list(dict.fromkeys(path[0] for path in record_paths))
    if tops[0] in (base.EACH, base.ANY):  # as paths are disjoint, all of them begin with it
        inner: Any = _document(tuple(path[1:] for path in record_paths))
        if tops[0] == base.ANY:
            return dict[str, inner]
        array: Any = list[inner]
        has_keys = isinstance(inner, type) and issubclass(inner, msgspec.Struct)  # Raw (a record) takes arrays, too
        return array | inner if has_keys else array
    keys = {f"f{i}": key for i, key in enumerate(tops)}  # keys need not be names that a class may have
    types = {name: _document(tuple(path[1:] for path in record_paths if path[0] == key)) for name, key in keys.items()}
    return msgspec.defstruct("Document", [(name, inner_ | None, None) for name, inner_ in types.items()], rename=keys)
