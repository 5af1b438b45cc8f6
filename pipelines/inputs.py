"""Input files of a run, and its time range."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from pipelines.errors import InputError, UsageError, raise_as, shortened
from transforms.atomic_files import is_skipped
from transforms.time.calendar import Calendar, CalendarError, Timetable, calendar


def input_paths(pattern: str, *, or_none: bool = False, inside: bool = False) -> list[str]:
    """Lists matching files, or those of a folder, sorted.

    pattern: such as `feed/*.csv`; `**` matches any folders. A folder's hidden files are left out. or_none: whether an
    empty list is allowed. inside: whether an archive is replaced by its members, each as the archive's path, a NUL and
    its name. Raises InputError where none matches, none of them is a regular file, or an archive is damaged.

    >>> input_paths("examples/hourly-*.toml")
    ['examples/hourly-means.toml']
    """
    in_folder = [path for _, files in _folders(pattern) for path in files]  # empty if the pattern is no folder's path
    matching = in_folder if os.path.isdir(pattern) else _matching(pattern)
    paths = sorted({path for path in matching if Path(path).is_file()})
    if not paths and (matching or not or_none):  # matches that are no files are an error anyway
        others = f": what does ({shortened(min(matching))}) is not a regular file" if matching else ""
        raise InputError(f"no input file matches {shortened(repr(pattern))}{others}")
    if not inside:
        return paths
    from transforms.layouts.base import UnreadableFile
    from transforms.layouts.open_file import files_in

    with raise_as(InputError, (UnreadableFile, OSError)):
        return [name for path in paths for name in files_in(path)]


def input_of(pattern: str, *, or_none: bool = False) -> list[str]:
    """Lists input files, also in an object store. or_none: allows none. Raises InputError."""
    from transforms.layouts.open_file import NoFileSystem, is_remote, matching

    if not is_remote(pattern):
        return input_paths(pattern, or_none=or_none)
    with raise_as(InputError, NoFileSystem):
        paths = matching(pattern)
    if not paths and not or_none:
        raise InputError(f"no input file matches {shortened(repr(pattern))}")
    return paths


def _matching(pattern: str) -> list[str]:
    """Matches as recursive `glob.glob`, but `**` follows no links, which may form cycles."""
    head, stars, tail = pattern.partition(f"**{os.sep}")
    if not stars:
        return glob.glob(pattern)
    tops = glob.glob(head) if head else [os.curdir]
    folders = (folder for top in tops for folder, _ in _folders(top))
    return [path for folder in folders for path in _matching(os.path.join(glob.escape(folder), tail))]


def _folders(top: str) -> Iterator[tuple[str, list[str]]]:
    """Yields folders at any depth with their files, none hidden or temporary."""
    for folder, inner, names in os.walk(top):
        inner[:] = [name for name in inner if not is_skipped(name)]  # os.walk enters what is left in its list
        yield folder, [os.path.join(folder, name) for name in names if not is_skipped(name)]


FIRST_YEAR, LAST_YEAR = 2000, 2099  # of a range; events of other years are refused as implausible anyway


def range_of(timetable: Timetable, start: str, end: str) -> Calendar:
    """Returns the calendar from --from to --to, a last date in full.

    start, end: local dates or ISO times. Raises UsageError for others, and for an empty range.
    """
    first, until = instant_of(start, timetable, last=False), instant_of(end, timetable, last=True)
    if until <= first:
        raise UsageError(f"the range is empty: --to {end} is before --from {start}")
    with raise_as(UsageError, CalendarError):
        return calendar(timetable, first, until)


def closed_range(timetable: Timetable, start: str, end: str, now: datetime) -> Calendar:
    """Returns the calendar of a finished range; refuses others."""
    to_s = int(instant_of(end, timetable, last=True).timestamp())
    if to_s > now.timestamp():  # checked before slots are listed, which takes seconds for a mistyped year
        raise UsageError(
            f"the range ends at {timetable.text(to_s)}, which is still to come (it is "
            f"{timetable.text(int(now.timestamp()))}): only past slots are released, as nothing is added to them later"
        )
    return range_of(timetable, start, end)


def yesterday(timetable: Timetable, now: datetime) -> Calendar:
    """Returns the calendar of the local day before `now`."""
    day = (now.astimezone(ZoneInfo(timetable.zone)).date() - timedelta(days=1)).isoformat()
    return range_of(timetable, day, day)


def instant_of(text: str, timetable: Timetable, *, last: bool) -> datetime:
    """Parses an ISO time, or a local date's start (`last`: end). Raises UsageError."""
    for kind in (date, datetime):
        with suppress(ValueError, TypeError):  # a library's caller may give anything
            instant = kind.fromisoformat(text)
            break
    else:
        raise UsageError(f"{text!r} is neither a date (2016-11-24) nor an ISO time (2016-11-24T10:00)")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise UsageError(f"{text!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    if isinstance(instant, datetime):
        return instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(timetable.zone))
    return timetable.midnight(instant + timedelta(days=1) if last else instant)
