"""Opens input files: plain, compressed (gzip, Zstandard), or what an archive (zip) holds, as their first bytes say."""

import errno
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

import pyarrow as pa

from transforms.layouts.base import UnreadableFile
from transforms.regular_files import is_skipped

INSIDE = "\0"
"""Between the path of an archive and the name of what is in it: no path has it."""
MEMBERS = 100_000
WHOLE_BYTES = 256 << 20
"""Most bytes of a compressed file of a form that is not read from its beginning on."""
_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF16 = "the text is UTF-16: save it as UTF-8"
_DAMAGE = (EOFError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowInvalid)
_NO_ERRORS_OF_A_SYSTEM = (None, errno.EINVAL)
"""What Arrow says of a stream that is cut short, and a zip that points before its beginning."""


def files_in(path: str) -> list[str]:
    """Lists what a path is of: itself, or the files of an archive. Raises UnreadableFile or OSError."""
    if os.path.isdir(path):
        return [path]
    with _without_damage(path), open(path, "rb") as file:
        if file.read(4) not in _ZIP:
            return [path]
        names = [info.filename for info in zipfile.ZipFile(file).infolist() if not info.is_dir()]
    kept = [name for name in names if not is_skipped(name)]
    if not kept or len(kept) > MEMBERS or any(INSIDE in name for name in kept):
        raise UnreadableFile(path, f"a zip must hold 1 to {MEMBERS:,} files")
    return [f"{path}{INSIDE}{name}" for name in sorted(kept)]


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Opens a file, or one of `files_in`, decompressed as it is read.

    Raises UnreadableFile where it is damaged, or OSError.
    """
    with ExitStack() as stack, _without_damage(path):
        yield _open(path, stack)


@contextmanager
def opened_text(path: str) -> Iterator[BinaryIO]:
    """Opens a text. Raises UnreadableFile for UTF-16, as a whole, for it has no line that could be read."""
    with opened(path) as file:
        if file.read(2) in UTF16_MARKS:
            raise UnreadableFile(path, UTF16)
    with opened(path) as file:
        yield file


def unpacked(path: str) -> bytes | None:
    """Unpacks what is compressed or inside an archive, to be read from any place; None for a plain file."""
    with open(path.partition(INSIDE)[0], "rb") as file:
        if INSIDE not in path and _kind(file) is None:
            return None
    with opened(path) as file:
        data = file.read(WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES:
        raise UnreadableFile(path, f"it expands to more than {WHOLE_BYTES >> 20} MiB: unpack it first")
    return data


@contextmanager
def _without_damage(path: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE:
        raise _damaged(path) from None
    except OSError as error:
        if error.errno not in _NO_ERRORS_OF_A_SYSTEM:
            raise
        raise _damaged(path) from None


def _damaged(path: str) -> UnreadableFile:
    return UnreadableFile(path, "the compressed file is damaged or cut short")


def _open(path: str, stack: ExitStack) -> BinaryIO:
    outer, is_inside, name = path.partition(INSIDE)
    file: BinaryIO = stack.enter_context(open(outer, "rb"))  # noqa: SIM115 - the stack closes it
    if not is_inside and file.peek(4)[:4] in _ZIP:  # type: ignore[attr-defined]
        is_inside, name = INSIDE, files_in(path)[0].partition(INSIDE)[2]  # whoever reads all asks for each
    if is_inside:
        archive = stack.enter_context(zipfile.ZipFile(file))
        if archive.getinfo(name).flag_bits & 1:
            raise UnreadableFile(path, "the zip is encrypted")
        file = cast(BinaryIO, stack.enter_context(archive.open(name)))
    codec = _kind(file)
    return file if codec is None else cast(BinaryIO, stack.enter_context(pa.CompressedInputStream(file, codec)))


def _kind(file: BinaryIO) -> str | None:
    """Looks at the first bytes, which stay to be read: the codec of what is compressed, else None."""
    start = file.peek(4)[:4]  # type: ignore[attr-defined]
    return next((codec for mark, codec in _CODECS.items() if start.startswith(mark)), None)
