"""A folder that grows, for operators without Kafka: an unbounded splittable DoFn that reads every new file once.

A file belongs to the folder when it has its name: write it under a name that begins with a dot or ends with .part or
.tmp, or elsewhere on the same disk, and rename it. The restriction holds the names that were read, so the engine's
checkpoints own them; see docs/adr/0009-sources-of-a-stream.md.
"""

import errno
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import DoOutputsTuple, PBegin, TaggedOutput
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from transforms import counters
from transforms.errors import StepError, reason_of
from transforms.layouts import Layout, UnreadableFile
from transforms.layouts.base import RawBatch
from transforms.layouts.decoder_process import read_apart
from transforms.records import REFUSED, Refused
from transforms.sources.known_elements import KnownElements
from transforms.sources.unbounded import UnboundedProvider
from transforms.steps.observe import counted
from transforms.steps.side_outputs import Parting, Refusal
from transforms.time.watermark import Watermark, element_time, newest_plausible_ms

LOG = logging.getLogger("hatstream.folder")

POLL_FILES = 16
PAUSE_S = 1.0
KEPT_NAMES = 10_000
"""Above this many, names of files that are no longer in the folder are forgotten."""

VANISHED: Final = "vanished-file"
_UNFINISHED = (".part", ".tmp")


class FolderError(Exception):
    """The folder cannot be listed."""


class NewFile(NamedTuple):
    """A file of the folder. at_ms: see `_at_ns`, in ms since 1970 UTC."""

    at_ms: int
    name: str


class Look(NamedTuple):
    """One look into a folder. unread: at most the asked-for number, oldest first. names: of all files that were there.

    at_ms: wall clock when the look began. idle: no file lay unread at `at_ms`.
    """

    unread: list[NewFile]
    names: frozenset[str]
    at_ms: int
    idle: bool


def look(folder: Path, read: frozenset[str], most: int = POLL_FILES, *, by_kernel: bool = False) -> Look:
    """Looks for what is new in the folder; by_kernel: see `_at_ns`. Raises FolderError if it cannot be listed."""
    at_ms = time.time_ns() // 1_000_000
    try:
        with os.scandir(folder) as entries:
            files = [files for entry in entries if (files := _found(entry, by_kernel))]
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be listed: {reason_of(error)}") from None
    unread = sorted(file for file in files if file.name not in read)
    return Look(unread[:most], frozenset(file.name for file in files), at_ms, not unread)


def _found(entry: "os.DirEntry[str]", by_kernel: bool) -> NewFile | None:
    if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
        return None
    try:
        return NewFile(_at_ns(entry, by_kernel) // 1_000_000, entry.name) if entry.is_file() else None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # a link that leads nowhere
            return None
        raise


def _at_ns(entry: "os.DirEntry[str]", by_kernel: bool) -> int:
    """Finds when a file was last written, which its producer sets at will; by_kernel: when it came under its name.

    The kernel alone sets the time of a file's last change, renaming included; of a link and its file the later counts.
    """
    if not by_kernel:
        return entry.stat().st_mtime_ns
    return max(entry.stat().st_ctime_ns, entry.stat(follow_symlinks=False).st_ctime_ns)


@dataclass
class ReadGrowing(Parting[PBegin]):
    """A folder -> main: RawBatch; refused: Refused. Each batch's Beam timestamp is the folder's watermark before it.

    The watermark: the newest time of the files that were read, minus the lag; where nothing is new, the wall clock
    minus the lag. The time is that of modification; where lateness follows a report's own times, the kernel's: a file
    that was held up, with its producer's time, would meet a watermark that other files have moved. A file that cannot
    be decoded is one refused row `unreadable-file`, what was read of it before stays.
    """

    folder: Path
    watermark: Watermark
    layout: Layout

    def expand(self, begin: PBegin) -> DoOutputsTuple:
        folders = begin | "folder" >> KnownElements([str(self.folder)])
        paths = folders | "watch" >> beam.ParDo(_WatchFolder(self.watermark)).with_output_types(bytes)
        return paths | "read" >> beam.FlatMap(self._read).with_outputs(REFUSED, main="batches")

    def _read(self, path: bytes) -> Iterator[RawBatch | Refusal]:
        return read_file(path, self.layout)


class NamesRead(NamedTuple):
    """The restriction. closed: of the part that a split left behind, which reads nothing more."""

    names: frozenset[str]
    closed: bool = False


class _Tracker(RestrictionTracker):
    """Claims the set of names that are read after a look."""

    def __init__(self, restriction: NamesRead) -> None:
        self._restriction = restriction

    def current_restriction(self) -> NamesRead:
        return self._restriction

    def try_claim(self, position: frozenset[str]) -> bool:
        if self._restriction.closed:
            return False
        self._restriction = NamesRead(position)
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[NamesRead, NamesRead] | None:
        if fraction_of_remainder != 0 or self._restriction.closed:
            return None
        rest = self._restriction
        self._restriction = NamesRead(rest.names, closed=True)
        return self._restriction, rest

    def check_done(self) -> None:
        if not self._restriction.closed:
            raise ValueError("a folder is never read to its end")

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class _Names(UnboundedProvider):
    def initial_restriction(self, element: str) -> NamesRead:  # noqa: ARG002
        return NamesRead(frozenset())

    def create_tracker(self, restriction: NamesRead) -> _Tracker:
        return _Tracker(restriction)


_NAMES = beam.DoFn.RestrictionParam(_Names())
_PROMISE = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class _WatchFolder(beam.DoFn):
    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def setup(self) -> None:
        self._is_away = False

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: str,
        tracker: Any = _NAMES,
        estimator: Any = _PROMISE,
    ) -> Iterator[Any]:
        read = tracker.current_restriction().names
        seen = self._look(Path(element), read)
        if seen is None:
            tracker.defer_remainder(Duration(seconds=PAUSE_S))
            return
        if seen.unread and not tracker.try_claim(names_after(read, seen)):
            return
        held = estimator.current_watermark()
        promised = self._watermark.first if held is None else held
        for file in seen.unread:
            path = os.fsencode(Path(element) / file.name)  # a name need not be UTF-8, as texts between steps must
            yield TimestampedValue(path, self._late_from(file, promised))
        newest_ms = newest_plausible_ms(np.array([file.at_ms for file in seen.unread], np.int64), seen.at_ms)
        promise = self._watermark.after(promised, newest_ms, seen.at_ms, seen.idle)
        if promise is not None and promise != held:
            estimator.set_watermark(promise)
        tracker.defer_remainder(Duration(seconds=0 if len(seen.unread) >= POLL_FILES else PAUSE_S))

    def _late_from(self, file: NewFile, promised: Timestamp | None) -> Timestamp:
        """Finds the time from which on a file's events are late."""
        time = element_time(promised)
        if not self._watermark.by_own_times:
            return time
        own_us = self._watermark.own_times(np.array([file.at_ms], np.int64))
        if self._watermark.is_behind(promised, own_us)[0]:
            Metrics.counter(counters.NAMESPACE, counters.OVERTAKEN).inc(1)
        return max(time, Timestamp(micros=int(own_us[0])))

    def _look(self, folder: Path, read: frozenset[str]) -> Look | None:
        """Looks into the folder; None while it cannot be listed, which is said once: an outage is not silence."""
        try:
            seen = look(folder, read, by_kernel=self._watermark.by_own_times)
        except FolderError as error:
            if not self._is_away:
                LOG.warning("%s; trying until it can", error)
            self._is_away = True
            return None
        self._is_away = False
        return seen


def names_after(read: frozenset[str], seen: Look) -> frozenset[str]:
    """Adds the names that are read once the look's files are; those that are gone are forgotten when there are many."""
    if len(read) > KEPT_NAMES:
        read &= seen.names
    return read | {file.name for file in seen.unread}


def read_file(encoded: bytes, layout: Layout) -> Iterator[RawBatch | Refusal]:
    """Yields the batches of a file of the folder, and what was refused of it. Raises StepError."""
    path = os.fsdecode(encoded)
    try:
        yield from counted(read_apart(layout, path))
    except UnreadableFile:
        yield _refused_file(counters.UNREADABLE_FILE)
    except FileNotFoundError:
        yield _refused_file(VANISHED)
    except OSError as error:
        raise StepError(f"{path}: {reason_of(error)}") from None


def _refused_file(reason: str) -> Refusal:
    Metrics.counter(counters.NAMESPACE, counters.ROWS).inc(1)
    return TaggedOutput(REFUSED, Refused("read", reason, 1))
