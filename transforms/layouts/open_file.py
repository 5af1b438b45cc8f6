"""Opens input files: plain, or compressed as their names say (.gz, .zst, .zip with one file inside)."""

import errno
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

import pyarrow as pa

from transforms.layouts.base import UnreadableFile

_CODECS = {".gz": "gzip", ".zst": "zstd"}
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF16 = "the text is UTF-16: save it as UTF-8"
_DAMAGE = (EOFError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowInvalid)
_NO_ERRORS_OF_A_SYSTEM = (None, errno.EINVAL)
"""What Arrow says of a stream that is cut short, and a zip that points before its beginning."""


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Opens a file, decompressed as it is read. Raises UnreadableFile where it is damaged, or OSError."""
    with ExitStack() as stack:
        try:
            yield _open(path, stack)
        except _DAMAGE:
            raise _damaged(path) from None
        except OSError as error:
            if error.errno not in _NO_ERRORS_OF_A_SYSTEM:
                raise
            raise _damaged(path) from None


@contextmanager
def opened_text(path: str) -> Iterator[BinaryIO]:
    """Opens a text. Raises UnreadableFile for UTF-16, as a whole, for it has no line that could be read."""
    with opened(path) as file:
        if file.read(2) in UTF16_MARKS:
            raise UnreadableFile(path, UTF16)
    with opened(path) as file:
        yield file


def _damaged(path: str) -> UnreadableFile:
    return UnreadableFile(path, "the compressed file is damaged or cut short")


def _open(path: str, stack: ExitStack) -> BinaryIO:
    file = stack.enter_context(open(path, "rb"))  # noqa: SIM115 - the stack closes it
    for suffix, codec in _CODECS.items():
        if path.endswith(suffix):
            return cast(BinaryIO, stack.enter_context(pa.CompressedInputStream(file, codec)))
    if path.endswith(".zip"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        inside = [info for info in archive.infolist() if not info.is_dir()]
        if len(inside) != 1 or inside[0].flag_bits & 1:
            raise UnreadableFile(path, "a .zip must hold exactly one file, not encrypted")
        return cast(BinaryIO, stack.enter_context(archive.open(inside[0])))
    return file
