"""JSON arrays of objects, printed in any way: msgspec reads the array whole, or the file is refused."""

from collections.abc import Iterator

import msgspec

from transforms.layouts.base import RawBatch, UnreadableFile
from transforms.layouts.lines import BOM
from transforms.layouts.records import Paths
from transforms.layouts.snapshots import DAMAGE, batches_of_records

ARRAY_BYTES = 256 << 20
LOOK_BYTES = 1 << 17


def begins_array(start: bytes) -> bool:
    """Says whether a file that starts so, with LOOK_BYTES at most, is one array; else it is lines.

    A line that is a whole array, before one with an object, is a bad record of its own: it decides nothing for others.
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
    """Finds the elements of an array; None where the text is another one, or damaged. They are not decoded yet."""
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except DAMAGE:
        return None


def read_array(path: str, data: bytes, paths: Paths) -> Iterator[RawBatch]:
    """Reads an array's elements in batches. Raises UnreadableFile for one that is damaged or cut short."""
    elements = array_of(data)
    if elements is None:
        raise UnreadableFile(path, "a JSON array that is damaged or cut short")
    yield from batches_of_records(elements, paths)
