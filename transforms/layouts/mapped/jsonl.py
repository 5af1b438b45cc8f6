"""JSON lines: one object a line, by dotted paths."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

from transforms.layouts.base import MappedLayout, RawBatch, Units
from transforms.layouts.lines import read_chunks
from transforms.layouts.open_file import opened_text
from transforms.layouts.records import Paths, refuse_indexed_objects, table_of_records


class JsonLines(MappedLayout):
    """JSON lines; columns are dotted paths, numbers index arrays."""

    @classmethod
    def of(cls, units: Units, columns: tuple[str, ...], fields: tuple[str, ...], options: Mapping[str, Any]) -> Self:
        """Creates the layout. Raises ValueError for array indices."""
        refuse_indexed_objects(fields, columns)
        return super().of(units, columns, fields, options)

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of lines."""
        with opened_text(path) as file:
            yield from read_json_lines(file, Paths.dotted(self.columns, self.fields, self.units.decimal))

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields a batch with a row per message."""
        yield table_of_records(payloads, Paths.dotted(self.columns, self.fields, self.units.decimal), {})


LAYOUT = JsonLines


def read_json_lines(file: BinaryIO, paths: Paths) -> Iterator[RawBatch]:
    """Reads JSON lines in batches, leaving out blank lines."""
    for data, too_long in read_chunks(file):
        texts = [line.removesuffix(b"\r") for line in data.split(b"\n") if line.strip()]
        yield table_of_records(texts, paths, {"too-long": too_long})
