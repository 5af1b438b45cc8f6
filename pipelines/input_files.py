"""Finds the files that a pattern matches, on this machine or in an object store."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import InputError, shortened
from transforms.atomic_files import is_skipped


@dataclass(frozen=True)
class InputFiles:
    """The files that a pattern matches, or those in a folder. allow_empty: seals a period of which they hold no row;
    where counts are secret every period is, and it says that there need be no file.

    skip_unreadable: see `Job`. unattended: nobody looks at what this run says, see `LedgerAccount`.
    """

    pattern: str
    allow_empty: bool = False
    skip_unreadable: bool = False
    unattended: bool = False


def paths_of(pattern: str, *, or_none: bool = False) -> list[str]:
    """Lists the files of this machine that a pattern matches, sorted; of a folder all but those of `is_skipped`.

    Raises InputError if there is none, unless `or_none`; then if it matches something else.
    """
    matching = _in_folder(pattern) if os.path.isdir(pattern) else _matching(pattern)
    paths = sorted({path for path in matching if Path(path).is_file()})
    if not paths and (matching or not or_none):
        others = f": what does ({shortened(min(matching))}) is no regular file" if matching else ""
        raise InputError(f"no input file matches {shortened(repr(pattern))}{others}")
    return paths


def input_of(pattern: str, *, or_none: bool = False) -> list[str]:
    """Finds paths as `paths_of` does; the pattern may be of an object store too."""
    from transforms.layouts.open_file import NoFileSystem, is_remote, matching

    if not is_remote(pattern):
        return paths_of(pattern, or_none=or_none)
    try:
        paths = matching(pattern)
    except NoFileSystem as error:
        raise InputError(str(error)) from None
    if not paths and not or_none:
        raise InputError(f"no input file matches {shortened(repr(pattern))}")
    return paths


def _matching(pattern: str) -> list[str]:
    """Matches as `glob.glob(.., recursive=True)` does, but `**` follows no links to folders, for these may lead in
    circles."""
    head, stars, tail = pattern.partition(f"**{os.sep}")
    if not stars:
        return glob.glob(pattern)
    tops = glob.glob(head) if head else [os.curdir]
    folders = (folder for top in tops for folder in _folders(top))
    return [path for folder in folders for path in _matching(os.path.join(glob.escape(folder), tail))]


def _in_folder(top: str) -> list[str]:
    files = (path for folder in _folders(top) for path in glob.glob(os.path.join(glob.escape(folder), "*")))
    return [path for path in files if not os.path.isdir(path) and not is_skipped(os.path.basename(path))]


def _folders(top: str) -> Iterator[str]:
    """Yields a folder and all in it but those of `is_skipped`."""
    for folder, inner, _ in os.walk(top):
        inner[:] = [name for name in inner if not is_skipped(name)]
        yield folder
