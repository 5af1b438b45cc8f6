"""Input in an object store or another file system that Beam knows: found by pattern, fetched file by file.

A file is fetched into one without a name, as a spool is: nothing of it is left on disk, however the process ends.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from transforms.errors import StepError
from transforms.extras import advice

PIECE_BYTES = 8 << 20
EXTRAS = {"s3": "s3", "gs": "gcs"}
_SYSTEMS = ("apache_beam.io.aws.s3filesystem", "apache_beam.io.gcp.gcsfilesystem")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")


class NoFileSystem(Exception):
    """Nothing is known of a scheme, or its store does not answer."""


def is_remote(path: str) -> bool:
    """Says whether a path or pattern begins with a scheme, such as s3://."""
    return _SCHEME.match(path) is not None


def matching(pattern: str) -> list[str]:
    """Lists the files that a pattern matches, sorted; `*` crosses no slash, `**` does. Raises NoFileSystem."""
    systems = _systems()
    try:
        (listing,) = systems.match([pattern])
        return sorted(file.path for file in listing.metadata_list)
    except ValueError:
        scheme = pattern.partition("://")[0]
        extra = f": {advice(EXTRAS[scheme])}" if scheme in EXTRAS else ""
        raise NoFileSystem(f"no file system is installed for {scheme}://{extra}") from None
    except Exception as error:  # noqa: BLE001 - each store has errors of its own, whose texts may hold keys
        raise NoFileSystem(f"the store of {pattern!r} does not answer ({_kind(error)})") from None


@contextmanager
def fetched(path: str) -> Iterator[str]:
    """Fetches a file to a path of this machine, which ends as the file's name does. Raises StepError."""
    systems = _systems()
    from apache_beam.io.filesystem import CompressionTypes

    with (
        tempfile.TemporaryFile(prefix="hatstream-") as file,
        tempfile.TemporaryDirectory(prefix="hatstream-") as folder,
    ):
        try:
            with systems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as source:
                shutil.copyfileobj(source, file, PIECE_BYTES)
            file.flush()
        except Exception as error:  # noqa: BLE001 - as above; a full disk is one of them
            raise StepError(f"{path}: cannot be fetched ({_kind(error)})") from None
        name = os.path.join(folder, os.path.basename(path))
        os.symlink(f"/proc/{os.getpid()}/fd/{file.fileno()}", name)
        yield name


def _kind(error: BaseException) -> str:
    """Names the innermost error: Beam wraps those of stores."""
    details = getattr(error, "exception_details", None)
    inner = next((of_store for of_store in (details or {}).values() if isinstance(of_store, BaseException)), None)
    return type(inner or error).__name__


def _systems() -> Any:
    import transforms.silence_beam  # noqa: F401  # isort: skip
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    for name in _SYSTEMS:
        with suppress(ImportError):  # its library is not installed, or transforms.lean_beam has left it out
            import_module(name)
    FileSystems.set_options(PipelineOptions([]))  # which a pipeline would do, and without which there is no S3
    return FileSystems
