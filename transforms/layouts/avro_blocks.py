"""The blocks of an Avro object container file, each decompressed in bounded memory.

Source: Apache Avro 1.12 specification, "Object Container Files".
"""

import io
import json
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from transforms.layouts.base import UnreadableFile

BLOCK_BYTES = 64 << 20
HEADER_BYTES = 1 << 20

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4


class Header(NamedTuple):
    """What a file says about itself."""

    schema: Any
    codec: str
    sync: bytes


class AvroBlock(NamedTuple):
    """rows: how many records `data`, decompressed, claims to hold: never more than it has bytes."""

    rows: int
    data: bytes


class Truncated(ValueError):
    """The file ends, or breaks its own rules, in the middle of something."""


def read_header(path: str, file: BinaryIO) -> Header:
    """Raises UnreadableFile for a codec that is not read, Truncated for what is no Avro file."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise Truncated
    fields: dict[str, bytes] = {}
    while count := _long(file):
        if count < 0:
            _long(file)
        for _ in range(min(abs(count), HEADER_BYTES)):
            name = _bytes(file).decode()
            fields[name] = _bytes(file)
            if file.tell() > HEADER_BYTES:
                raise UnreadableFile(path, f"a header of more than {HEADER_BYTES >> 20} MiB")
    codec = fields.get("avro.codec", b"null").decode()
    if codec not in _EXPAND:
        named = codec if codec in ("bzip2", "xz", "lz4") else "that is unknown"
        raise UnreadableFile(path, f"codec {named}: only {', '.join(_EXPAND)} are read")
    return Header(json.loads(fields.get("avro.schema", b"")), codec, _exactly(file, _SYNC_BYTES))


def read_blocks(path: str, file: BinaryIO, header: Header) -> Iterator[AvroBlock]:
    """Raises UnreadableFile for a block that expands too far, Truncated or zlib.error for a damaged one."""
    while file.read(1):
        file.seek(-1, 1)
        rows, size = _long(file), _long(file)
        # A codec lengthens what it cannot shorten: how well speeds are compressed must not decide.
        if size > BLOCK_BYTES + (BLOCK_BYTES // 4 if header.codec != "null" else 0):
            raise _too_big(path)
        data = _exactly(file, size)
        if _exactly(file, _SYNC_BYTES) != header.sync:
            raise Truncated
        data = _EXPAND[header.codec](data)
        if len(data) > BLOCK_BYTES:
            raise _too_big(path)
        if not 0 <= rows <= len(data):
            raise UnreadableFile(path, "a block claims more records than it has bytes")
        yield AvroBlock(rows, data)


# --- codecs: a block's bytes, of one that expands too far the first BLOCK_BYTES + 1 -------------------------------


def _as_it_is(data: bytes) -> bytes:
    return data


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(data, BLOCK_BYTES + 1)


def _from_snappy(data: bytes) -> bytes:
    """Expands Snappy: the first number says how long that is, the last four bytes are a checksum of it."""
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    size = _varint(io.BytesIO(body))
    if size > BLOCK_BYTES:
        return bytes(BLOCK_BYTES + 1)
    try:
        expanded: bytes = pa.decompress(body, size, "snappy", asbytes=True)
    except (pa.ArrowException, OSError):
        raise Truncated from None
    if zlib.crc32(expanded).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise Truncated
    return expanded


def _from_zstandard(data: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            expanded: bytes = stream.read(BLOCK_BYTES + 1)
    except (pa.ArrowException, OSError):
        raise Truncated from None
    return expanded


_EXPAND = {"null": _as_it_is, "deflate": _inflated, "snappy": _from_snappy, "zstandard": _from_zstandard}


def write_long(value: int) -> bytes:
    """Encodes a count or size of at least 0 in Avro's zigzag encoding."""
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def container(header: Header, blocks: list[AvroBlock]) -> bytes:
    """Writes the blocks as an uncompressed file of the header's schema, for fastavro."""
    schema = json.dumps(header.schema).encode()
    parts = [_MAGIC, write_long(1), write_long(len("avro.schema")), b"avro.schema", write_long(len(schema)), schema]
    parts += [write_long(0), header.sync]
    for block in blocks:
        parts += [write_long(block.rows), write_long(len(block.data)), block.data, header.sync]
    return b"".join(parts)


def _too_big(path: str) -> UnreadableFile:
    return UnreadableFile(path, f"a block expands to more than {BLOCK_BYTES >> 20} MiB")


def _long(file: BinaryIO) -> int:
    value = _varint(file)
    return (value >> 1) ^ -(value & 1)


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while shift < 64:
        byte = _exactly(file, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise Truncated


def _bytes(file: BinaryIO) -> bytes:
    size = _long(file)
    if size > HEADER_BYTES:
        raise Truncated
    return _exactly(file, size)


def _exactly(file: BinaryIO, size: int) -> bytes:
    if size < 0 or len(data := file.read(size)) != size:
        raise Truncated
    return data
