"""Files inside an archive, zip or tar, which is looked through once for all of them."""

import io
import os
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from transforms.atomic_files import is_skipped
from transforms.layouts.base import UnreadableFile

INSIDE = "\0"  # between the path of an archive and the name of what is in it: no path has it
MEMBERS = 100_000
WHOLE_BYTES = 256 << 20  # most bytes of a compressed file of a form that is not read from its beginning on
CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR, _TAR_FROM, _TAR_TO = b"ustar", 257, 262


class Archive(NamedTuple):
    """names: files but those of `is_skipped`, sorted. content, places: of a tar, and where in it each file lies."""

    path: str
    names: Sequence[str]
    zipped: zipfile.ZipFile | None
    content: pa.NativeFile
    places: Mapping[str, tuple[int, int]]

    def open(self, name: str) -> BinaryIO:
        """Opens a file by its name. Raises UnreadableFile for an encrypted one, or an error of zipfile."""
        if self.zipped is None:
            return io.BufferedReader(cast(io.RawIOBase, self.content.get_stream(*self.places[name])))
        if self.zipped.getinfo(name).flag_bits & 1:
            raise UnreadableFile(self.path, "the archive is encrypted")
        return cast(BinaryIO, self.zipped.open(name))


def codec_of(start: bytes) -> str | None:
    """Looks at the first bytes: the codec of what is compressed, else None."""
    return next((codec for mark, codec in CODECS.items() if start.startswith(mark)), None)


def archive_of(path: str) -> Archive | None:
    """Opens an archive; None for another file. Raises UnreadableFile, OSError, or an error of zipfile or tarfile."""
    with open(path, "rb") as file:
        start = file.read(_TAR_TO)
        is_zip, codec = start.startswith(_ZIP), codec_of(start)
        if codec is not None:
            file.seek(0)
            start = pa.CompressedInputStream(file, codec).read(_TAR_TO)
    if not is_zip and start[_TAR_FROM:] != _TAR:
        return None
    status = os.stat(path)
    return _read(path, status.st_mtime_ns, status.st_size, None if is_zip else codec or "")


@lru_cache(maxsize=1)
def _read(path: str, _mtime_ns: int, _size: int, codec: str | None) -> Archive:
    """Reads the list of files. codec: of a tar, "" for a plain one; None for a zip."""
    if codec is None:
        zipped = zipfile.ZipFile(path)
        return Archive(path, _checked(path, [name for name in zipped.namelist() if name[-1:] != "/"]), zipped, None, {})
    if codec:
        with pa.CompressedInputStream(pa.OSFile(path), codec) as packed:
            data = packed.read(WHOLE_BYTES + 1)
        if len(data) > WHOLE_BYTES:
            raise UnreadableFile(path, f"it expands to more than {WHOLE_BYTES >> 20} MiB: unpack it first")
    content = pa.BufferReader(data) if codec else pa.OSFile(path)
    with tarfile.open(fileobj=content, mode="r:") as tar:
        files = [member for member in islice(tar, MEMBERS + 1) if member.isreg() and not member.issparse()]
    places = {member.name: (member.offset_data, member.size) for member in files}
    return Archive(path, _checked(path, places), None, content, places)


def _checked(path: str, names: Iterable[str]) -> Sequence[str]:
    files = sorted(name for name in names if not is_skipped(name))
    if not files or len(files) > MEMBERS or any(INSIDE in name for name in files):
        raise UnreadableFile(path, f"an archive must hold 1 to {MEMBERS:,} files")
    return files
