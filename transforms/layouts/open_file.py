"""Opening of input files (plain, compressed, archived, or remote), and their lines.

A file in an archive has as path the archive's, INSIDE (a mark that no path has), and its name there.
"""

import errno
import io
import lzma
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.types import Int64s
from transforms.atomic_files import is_skipped
from transforms.errors import StepError, advice
from transforms.layouts.base import Layout, RawBatch, Units, UnreadableFile

INSIDE = "\0"  # between the path of an archive and the name of what is in it: no path has it
MEMBERS = 100_000  # most files of an archive, folders and links included
WHOLE_BYTES = 256 << 20  # most bytes of a compressed file of a form that is not read from its beginning on
_UNPACK_FIRST = f"it expands to more than {WHOLE_BYTES >> 20} MiB: unpack it first"
_CODEC_BY_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_TAR, _TAR_FROM, _TAR_TO = b"ustar", 257, 262  # the mark of a tar archive, and where its header has it
_DAMAGE_ERRORS = (EOFError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
_DAMAGE_ERRNOS = (None, errno.EINVAL)
"""Of OSErrors that mean damage: of a stream cut short (Arrow), and of a zip that points before its beginning."""


def files_in(path: str) -> list[str]:
    """Lists an archive's files, or the path alone. Raises UnreadableFile or OSError."""
    if INSIDE in path or os.path.isdir(path):  # is a file of an archive, or a folder, whose reading will raise
        return [path]
    with _without_damage(path):
        archive = _archive_of(path)
    return [path] if archive is None else [f"{path}{INSIDE}{name}" for name in archive[0]]  # [0]: its files' names


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Opens a file, decompressing it. Raises UnreadableFile, OSError."""
    outer, _, name = path.partition(INSIDE)  # an archive or plain file, and a file in the archive
    with ExitStack() as stack, _without_damage(path):  # whose errors of damage become UnreadableFile
        archive = _archive_of(outer)
        if archive is None:
            file: Any = stack.enter_context(open(outer, "rb"))
        else:
            names, open_member = archive
            file = stack.enter_context(open_member(name or names[0]))  # a path without a name is of the only file
        codec = _codec_of(file.peek(4))  # 4: the longest mark of a codec
        yield file if codec is None else stack.enter_context(pa.CompressedInputStream(file, codec))


@contextmanager
def opened_text(path: str) -> Iterator[BinaryIO]:
    """Opens a text file. Raises UnreadableFile if its byte order mark says UTF-16."""
    with opened(path) as file:
        if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE):
            raise UnreadableFile(path, "the text is UTF-16: save it as UTF-8")
    with opened(path) as file:  # anew, as not every input can go back to its start
        yield file


def unpacked(path: str) -> bytes | None:
    """Unpacks a compressed or archived file, else returns None."""
    with open(path.partition(INSIDE)[0], "rb") as file:
        if INSIDE not in path and _codec_of(file.read(4)) is None:
            return None
    with opened(path) as file:
        return read_whole(path, file, WHOLE_BYTES, _UNPACK_FIRST)


def read_whole(path: str, file: Any, most_bytes: int, rule: str) -> bytes:
    """Reads all of an opened file. Raises UnreadableFile with `rule` if it is longer."""
    data: bytes = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise UnreadableFile(path, rule)
    return data


@contextmanager
def _without_damage(path: str) -> Iterator[None]:
    """Turns errors that mean a damaged file into UnreadableFile; other OSErrors pass."""
    try:
        yield
    except (*_DAMAGE_ERRORS, pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGE_ERRNOS:
            raise
        raise UnreadableFile(path, "the compressed file is damaged or cut short") from None


_Archive = tuple[Sequence[str], Callable[[str], BinaryIO]]
"""Sorted names of an archive's files except those of `is_skipped`, and a function that opens one by name."""


def _archive_of(path: str) -> _Archive | None:
    """Opens an archive (zip, tar, compressed tar), else returns None. Raises UnreadableFile, OSError."""
    with open(path, "rb") as file:
        start = file.read(_TAR_TO)
        is_zip, codec = start.startswith(_ZIP_MAGIC), _codec_of(start)
        if codec is not None:
            file.seek(0)
            start = pa.CompressedInputStream(file, codec).read(_TAR_TO)
    if not is_zip and start[_TAR_FROM:] != _TAR:
        return None
    status = os.stat(path)
    return _read(path, status.st_mtime_ns, status.st_size, codec=None if is_zip else codec or "")  # "": a plain tar


@lru_cache(maxsize=1)
def _read(path: str, _mtime_ns: int, _size: int, codec: str | None) -> _Archive:
    """Reads an archive's index, cached while its file is unchanged. Raises UnreadableFile.

    codec: None for a zip, empty for an uncompressed tar. A sparse file lies in a tar in several pieces: left out.
    """
    if codec is None:
        zipped = zipfile.ZipFile(path)
        entries: Sequence[Any] = zipped.namelist()
        files: Iterable[str] = (name for name in entries if name[-1:] != "/")

        def open_member(name: str) -> BinaryIO:
            if zipped.getinfo(name).flag_bits & 1:  # bit 0: encrypted
                raise UnreadableFile(path, "the archive is encrypted")
            return cast(BinaryIO, zipped.open(name))
    else:
        content = pa.OSFile(path)
        if codec:
            with pa.CompressedInputStream(content, codec) as packed:
                content = pa.BufferReader(read_whole(path, packed, WHOLE_BYTES, rule=_UNPACK_FIRST))
        with tarfile.open(fileobj=content, mode="r:") as tar:
            entries = list(islice(tar, MEMBERS + 1))  # of more, all could fill the memory
        plain_files = [entry for entry in entries if entry.isreg() and not entry.issparse()]
        files = ranges = {entry.name: (entry.offset_data, entry.size) for entry in plain_files}

        def open_member(name: str) -> BinaryIO:
            return io.BufferedReader(content.get_stream(*ranges[name]))

    names = sorted(name for name in files if not is_skipped(name))  # skipped: hidden files and those of jobs
    if not names or len(entries) > MEMBERS or any(INSIDE in name for name in names):
        raise UnreadableFile(path, f"an archive must hold 1 to {MEMBERS:,} files, folders included")
    return names, open_member


def _codec_of(start: bytes) -> str | None:
    """Recognises the compression by the first bytes; None without."""
    return next((codec for mark, codec in _CODEC_BY_MAGIC.items() if start.startswith(mark)), None)


FILE = "{file}"  # stands where a column of vehicles would be named


@dataclass(frozen=True)
class ByFile:
    """Rows whose vehicle is the file's name, without folders."""

    inner: Layout

    @property
    def units(self) -> Units:
        """Units of the inner layout."""
        return self.inner.units

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields batches with the file's vehicle as a column."""
        vehicle = pa.scalar(vehicle_of(path), pa.binary())
        for batch in self.inner.read(path):
            table = batch.table.add_column(0, "vehicle", pa.repeat(vehicle, batch.table.num_rows))
            yield batch._replace(table=table)


def vehicle_of(path: str) -> bytes:
    """Returns a file's name without folders, and without suffixes of format and compression.

    >>> vehicle_of("/feed/2008-02-02/366.txt.gz")
    b'366'
    """
    name = os.path.basename(os.fsencode(path.rpartition(INSIDE)[2]))
    stem, suffix = os.path.splitext(name)
    return os.path.splitext(stem)[0] if suffix in (b".gz", b".zst", b".zip") else stem


_EXTRAS = {"s3": "s3", "gs": "gcs"}  # which installs the store of a scheme


class NoFileSystem(Exception):
    """Scheme without known file system, or store without answer."""


def is_remote(path: str) -> bool:
    """Recognises paths with a scheme, such as s3://."""
    return re.match("[a-z][a-z0-9+.-]*://", path) is not None


def matching(pattern: str) -> list[str]:
    """Lists a pattern's sorted files. Raises NoFileSystem."""
    systems = _systems()  # of Beam, for each store
    try:
        (listing,) = systems.match([pattern])
        return sorted(file.path for file in listing.metadata_list)
    except ValueError:  # Beam knows no file system of this scheme
        scheme = pattern.partition("://")[0]
        extra = f": {advice(_EXTRAS[scheme])}" if scheme in _EXTRAS else ""
        raise NoFileSystem(f"no file system is installed for {scheme}://{extra}") from None
    except Exception as error:  # noqa: BLE001 - each store has errors of its own, whose texts may hold keys
        raise NoFileSystem(f"the store of {pattern!r} does not answer ({_error_name(error)})") from None


@contextmanager
def fetched(path: str) -> Iterator[str]:
    """Downloads a remote file, and yields a local path to it. Raises StepError.

    The local file has no name, so nothing remains on disk however the process ends; the path is a link to its handle,
    with the remote name, as layouts read the vehicle from it.
    """
    systems = _systems()  # of Beam, for each store
    from apache_beam.io.filesystem import CompressionTypes

    with (
        tempfile.TemporaryFile(prefix="hatstream-") as file,
        tempfile.TemporaryDirectory(prefix="hatstream-") as folder,
    ):
        try:
            with systems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as source:
                shutil.copyfileobj(source, file, 8 << 20)  # bytes at a time
            file.flush()
        except Exception as error:  # noqa: BLE001 - each store has errors of its own, and so has a full disk
            raise StepError(f"{path}: cannot be fetched ({_error_name(error)})") from None
        name = os.path.join(folder, os.path.basename(path))
        os.symlink(f"/proc/{os.getpid()}/fd/{file.fileno()}", name)
        yield name


def _error_name(error: BaseException) -> str:
    """Names the type of a store's error, which Beam's may hold by path."""
    details = getattr(error, "exception_details", None)
    inner = next((of_store for of_store in (details or {}).values() if isinstance(of_store, BaseException)), None)
    return type(inner or error).__name__


def _systems() -> Any:
    """Imports Beam's file systems on first use, with the stores that are installed."""
    import transforms.silence_beam  # noqa: F401  # isort: skip
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    for name in ("apache_beam.io.aws.s3filesystem", "apache_beam.io.gcp.gcsfilesystem"):
        with suppress(ImportError):  # its library is not installed, or transforms.lean_beam has left it out
            import_module(name)
    FileSystems.set_options(PipelineOptions([]))  # which a pipeline would do, and without which there is no S3
    return FileSystems


LINE_BYTES = 65_536  # longer lines are refused: no honest report is as long
CHUNK_BYTES = 2 << 20  # read at a time

NEWLINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')

Chunk = tuple[bytes, int]  # whole lines (the last one may lack its end), and how many were left out as too long


class TextLines(NamedTuple):
    """Starts and ends of a chunk's lines, without breaks."""

    start: Int64s
    end: Int64s


def read_chunks(file: BinaryIO) -> Iterator[Chunk]:
    """Reads chunks of about CHUNK_BYTES, skipping lines above LINE_BYTES."""
    remainder, skipping = file.read(len(BOM_UTF8)).removeprefix(BOM_UTF8), False
    while block := file.read(CHUNK_BYTES):
        if skipping:
            after_line = block.find(b"\n") + 1  # the rest of a line too long ends here
            if not after_line:
                continue
            block, skipping = block[after_line:], False
        data = remainder + block
        cut = data.rfind(b"\n") + 1  # where its last line begins, which goes on in the next block
        remainder = data[cut:]
        skipping = len(remainder) > LINE_BYTES + 1  # one more, for this may end in \r
        if skipping:
            remainder = b""
        yield _without_long_lines(data[:cut], skipped=int(skipping))  # lines, and how many were left out as too long
    if remainder:
        yield _without_long_lines(remainder, skipped=0)


def lines_of(data: bytes) -> TextLines:
    """Finds where a chunk's lines start and end, empty ones included."""
    letters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(letters == NEWLINE)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.append(0, ends + 1)[: len(ends)]  # each but the first after the line before
    has_return = (ends > starts) & (letters[np.maximum(ends - 1, 0)] == RETURN)
    return TextLines(starts, ends - has_return)  # a line that ends in \r\n ends before the \r


def without_lines(data: bytes, lines: TextLines, dropped: NDArray[np.bool_]) -> bytes:
    """Cuts the dropped lines out of a chunk."""
    pieces, start = [], 0
    for i in np.flatnonzero(dropped).tolist():
        pieces.append(data[start : lines.start[i]])
        start = int(lines.start[i + 1]) if i + 1 < len(lines.start) else len(data)
    pieces.append(data[start:])
    return b"".join(pieces)


def _without_long_lines(data: bytes, skipped: int) -> Chunk:
    """Cuts long lines out of a chunk, counting them beside those skipped before."""
    lines = lines_of(data)
    long = lines.end - lines.start > LINE_BYTES
    if not long.any():
        return data, skipped
    return without_lines(data, lines, long), skipped + int(np.count_nonzero(long))


def is_utf8(data: bytes) -> bool:
    """Checks for valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
