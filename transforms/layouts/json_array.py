"""The objects of a JSON array, printed in any way; damage costs an object alone."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from transforms.layouts.base import RawBatch, UnreadableFile
from transforms.layouts.lines import BOM, LINE_BYTES
from transforms.layouts.records import Paths, table_of_records

ARRAY_BYTES = 256 << 20

_WINDOW = 2 << 20
_REACH = 1 << 17  # an element of more bytes is damage
LOOK_BYTES = _REACH
SMALL_LOOKS, LOOKS_A_BYTE = 4 << 20, 64
"""Bytes that may be looked at in a damaged array: so many, and so many for each of its bytes."""
_LOOK_COST = 256
_CLOSES = {b"}": b"{", b"]": b"["}
_WHITE = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*")
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_GAP = re.compile(rb",[ \t\r\n]*(?=\{)")
_FOLLOWS = re.compile(r"[ \t\r\n]*(?:[,\]{]|\Z)")
_END = re.compile(rb"[\] \t\r\n]*\Z")
_NEXT = re.compile(rb",[ \t\r\n]*\{")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\]]', re.DOTALL)
_SCANNER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


def begins_array(start: bytes) -> bool:
    """Says whether a file that starts so, with LOOK_BYTES at most, is one array; else it is lines.

    A line that is a whole array, before one with an object, is a bad record of its own: it decides nothing for others.
    """
    text = start.removeprefix(BOM).lstrip(_WHITE)
    if not text.startswith(b"["):
        return False
    for line in map(bytes.strip, text.split(b"\n")):
        if line.startswith(b"{"):
            return False
        if line.startswith(b"[") and not _is_json(line):
            return True
    return True


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class _Looks:
    """Bounds how far is looked to find where damage ends: damage can be made of which each byte needs many looks."""

    def __init__(self, path: str, size: int) -> None:
        self._path, self._left = path, SMALL_LOOKS + LOOKS_A_BYTE * size

    def take(self, size: int) -> None:
        """Raises UnreadableFile."""
        self._left -= size
        if self._left < 0:
            raise UnreadableFile(self._path, "a JSON array with too much damage, nested or running on")


def read_array(path: str, data: bytes, paths: Paths) -> Iterator[RawBatch]:
    """Reads an array's elements in batches; a damaged element costs itself alone. May raise UnreadableFile."""
    start = data.index(b"[") + 1
    looks = _Looks(path, len(data))
    while start < len(data):
        piece = _whole_piece(data, start) or _damaged_piece(data, start, looks)
        start = piece.end
        yield table_of_records(piece.elements, paths, {"malformed": piece.malformed, "too-long": piece.too_long})


class _Piece(NamedTuple):
    """Elements of one stretch of an array, what was no element, and where the next stretch begins."""

    elements: list[bytes]
    malformed: int
    too_long: int
    end: int


def _whole_piece(data: bytes, start: int) -> _Piece | None:
    """Reads a stretch that msgspec takes as a list; None where it is damaged (or was cut inside of an element)."""
    end = start + _WINDOW
    body: bytes | memoryview
    if end >= len(data):
        body, end = b"[" + data[start:], len(data)
        if body[1:].strip() in (b"", b"]"):
            return _Piece([], 0, 0, end)
    else:
        cut = None
        for cut in _BETWEEN.finditer(data, max(start, end - 2 * LINE_BYTES), end):  # noqa: B007 - the last one is meant
            pass
        if cut is None:
            return None
        body, end = b"[" + data[start : cut.start() + 1] + b"]", cut.end()
    try:
        return _Piece(list(map(bytes, msgspec.json.decode(body, type=list[msgspec.Raw]))), 0, 0, end)
    except (msgspec.DecodeError, RecursionError):
        return None


def _damaged_piece(data: bytes, start: int, looks: _Looks) -> _Piece:
    """Goes element by element through a stretch, to the next good one after each that is damaged.

    Short stretches, for every error in JSON costs a look at the text before it.
    """
    elements: list[bytes] = []
    malformed = too_long = 0
    base, text = start, data[start : start + 2 * _REACH].decode("latin-1")
    while (start := _past_blanks(data, start)) - base <= _REACH:
        if start >= len(data) or (data[start] == ord("]") and _past_blanks(data, start + 1) == len(data)):
            start = len(data)
            break
        end = _element_end(text, start - base, looks)
        if end is not None:
            elements.append(data[start : base + end])
            start = _past_blanks(data, base + end)
            start += data[start : start + 1] == b","
            continue
        after = _resume(data, start, looks)
        too_long += after - start > LINE_BYTES
        malformed += after - start <= LINE_BYTES
        start = after
    return _Piece(elements, malformed, too_long, start)


def _past_blanks(data: bytes, start: int) -> int:
    blanks = _BLANK.match(data, start)
    return blanks.end() if blanks else start


def _element_end(text: str, start: int, looks: _Looks) -> int | None:
    """Finds where the JSON value at `start` ends; None if there is none, or if no comma, bracket or object follows.

    Lenient: what is inside is judged when it is decoded. An array that holds objects may be one that was never
    closed and took the elements after it: no value.
    """
    try:
        end: int = _SCANNER.raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        looks.take(error.pos - start + _LOOK_COST)
        return None
    except (ValueError, RecursionError):
        looks.take(LINE_BYTES)
        return None
    looks.take(end - start + _LOOK_COST)
    if text[start] == "[" and "{" in text[start:end]:
        return None
    return end if _FOLLOWS.match(text, end) else None


def _resume(data: bytes, start: int, looks: _Looks) -> int:
    """Finds where the element after a damaged one begins: at the first `, {` that is not inside of the damaged one.

    Inside of an object no `{` follows a comma, only inside of an array. In an array that stays open it is still the
    next element if it can be read and another follows it; where a string runs over it a quote is missing.
    """
    tokens = _STRING_OR_BRACKET.finditer(data, start)
    nesting = _Nesting()
    over = start
    for gap in _GAP.finditer(data, start):
        while over <= gap.start() and over - start <= LINE_BYTES and (token := next(tokens, None)):
            nesting.take(token[0])
            over = token.end()
        in_array = nesting.in_array and over <= gap.end() + 1
        if not in_array or gap.end() - start > LINE_BYTES or _reads_on(data, gap.end(), looks):
            return gap.end()
    return len(data)


class _Nesting:
    """Open brackets; closing one closes what was left open inside of it."""

    def __init__(self) -> None:
        self._stack: list[bytes] = []
        self._open = {b"{": 0, b"[": 0}

    @property
    def in_array(self) -> bool:
        return self._stack[-1:] == [b"["]

    def take(self, token: bytes) -> None:
        if token in self._open:
            self._stack.append(token)
            self._open[token] += 1
        elif token in _CLOSES and self._open[_CLOSES[token]]:
            closed = b""
            while closed != _CLOSES[token]:
                closed = self._stack.pop()
                self._open[closed] -= 1


def _reads_on(data: bytes, start: int, looks: _Looks) -> bool:
    end = _element_end(data[start : start + LINE_BYTES].decode("latin-1"), 0, looks)
    if end is None:
        return False
    after = _past_blanks(data, start + end)
    return bool(_NEXT.match(data, after) or _END.match(data, after))
