"""JSON lines: one object a line, by dotted paths."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from transforms.layouts.base import RawBatch
from transforms.layouts.lines import read_chunks
from transforms.layouts.open_file import opened_text
from transforms.layouts.records import Paths, RecordLayout, table_of_records


class JsonLines(RecordLayout):
    """JSON lines."""

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of lines."""
        with opened_text(path) as file:
            yield from read_json_lines(file, self.paths)

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields a batch with a row per message."""
        yield table_of_records(payloads, self.paths, {})


LAYOUT = JsonLines


def read_json_lines(file: BinaryIO, paths: Paths) -> Iterator[RawBatch]:
    """Reads JSON lines in batches, leaving out blank lines."""
    for data, too_long in read_chunks(file):
        texts = [line.removesuffix(b"\r") for line in data.split(b"\n") if line.strip()]
        yield table_of_records(texts, paths, {"too-long": too_long})
