"""JSON as agencies have it: an array of objects, printed in any way, or an object a line; found by dotted paths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transforms.layouts.base import FIELDS, Units, UnreadableFile
from transforms.layouts.iudx import ARRAY_BYTES, LOOK_BYTES, begins_array, read_array
from transforms.layouts.jsonl import batch_of_messages, read_json_lines
from transforms.layouts.lines import BOM
from transforms.layouts.open_file import opened
from transforms.layouts.records import Paths
from transforms.records import RawBatch


@dataclass(frozen=True)
class JsonRecords:
    """columns: the dotted path of each of the fields, in that order; a part that is a number indexes an array."""

    units: Units
    columns: tuple[str, ...]
    fields: tuple[str, ...] = FIELDS

    def read(self, path: str) -> Iterator[RawBatch]:
        paths = Paths.dotted(self.columns, self.fields)
        with opened(path) as file:
            is_array = begins_array(file.read(LOOK_BYTES))
        if not is_array:
            with opened(path) as file:
                yield from read_json_lines(file, paths)
            return
        with opened(path) as file:
            data = file.read(ARRAY_BYTES + 1)
        if len(data) > ARRAY_BYTES:
            raise UnreadableFile(path, f"a JSON array of more than {ARRAY_BYTES >> 20} MiB: use JSON lines")
        yield from read_array(path, data.removeprefix(BOM), paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        yield batch_of_messages(payloads, Paths.dotted(self.columns, self.fields))
