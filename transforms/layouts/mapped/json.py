"""JSON as agencies have it: an array of objects, printed in any way, or an object a line; found by dotted paths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from transforms.layouts.base import MappedLayout, RawBatch, Units, UnreadableFile
from transforms.layouts.lines import BOM
from transforms.layouts.mapped.jsonl import batch_of_messages, read_json_lines
from transforms.layouts.open_file import opened, opened_text
from transforms.layouts.paths import ANY, Path, steps_of, steps_of_records
from transforms.layouts.records import Paths, refuse_indexed_objects
from transforms.layouts.snapshots import (
    ARRAY_BYTES,
    LOOK_BYTES,
    NoSnapshot,
    batches_of_snapshot,
    batches_of_snapshots,
    begins_array,
    read_array,
)

MESSAGE_BYTES = 64 << 20


@dataclass(frozen=True)
class JsonRecords(MappedLayout):
    """columns: dotted paths; a last part that is a number indexes an array; `*` is the key that a record lies under.

    records: the path of the array or object that holds the objects, where a file or message is a document around it.
    """

    OPTIONS = ("records",)

    records: str | None = None

    @classmethod
    def of(cls, units: Units, columns: tuple[str, ...], fields: tuple[str, ...], options: Mapping[str, Any]) -> Self:
        refuse_indexed_objects(fields, columns)
        records: str | None = options["records"]
        if records is not None:
            steps_of_records(records)
        if any(steps == (ANY,) for steps in map(steps_of, columns)) and ANY not in steps_of(records or ""):
            raise ValueError("columns: '*' is the key of a record, and input.records has none: such as entity.*")
        return cls(units, columns, fields, records)

    def read(self, path: str) -> Iterator[RawBatch]:
        paths = Paths.dotted(self.columns, self.fields)
        if self.records is not None:
            yield from read_document(path, (self.records,), paths)
            return
        with opened_text(path) as file:
            is_array = begins_array(file.read(LOOK_BYTES))
        if not is_array:
            with opened(path) as file:
                yield from read_json_lines(file, paths)
            return
        yield from read_array(path, _whole(path, "a JSON array", ": use JSON lines").removeprefix(BOM), paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        paths = Paths.dotted(self.columns, self.fields)
        if self.records is None:
            yield batch_of_messages(payloads, paths)
        else:
            yield from documents_of_messages(payloads, (self.records,), paths)


LAYOUT = JsonRecords


def read_document(path: str, records: Sequence[str], paths: Paths) -> Iterator[RawBatch]:
    """Reads the objects of a document. records: the dotted paths of arrays, all of which are read."""
    try:
        yield from batches_of_snapshot(_whole(path, "a JSON document"), _places(records), paths)
    except NoSnapshot:
        named = " or ".join(map(repr, records))
        raise UnreadableFile(path, f"no JSON with an array of objects at {named} (input.records)") from None


def documents_of_messages(payloads: Sequence[bytes], records: Sequence[str], paths: Paths) -> Iterator[RawBatch]:
    """Reads messages as `read_document` does files; what is no document is one refused row."""
    return batches_of_snapshots(payloads, MESSAGE_BYTES, _places(records), paths)


def _places(records: Sequence[str]) -> tuple[Path, ...]:
    return tuple(map(steps_of_records, records))


def _whole(path: str, what: str, advice: str = "") -> bytes:
    with opened(path) as file:
        data = file.read(ARRAY_BYTES + 1)
    if len(data) > ARRAY_BYTES:
        raise UnreadableFile(path, f"{what} of more than {ARRAY_BYTES >> 20} MiB{advice}")
    return data
