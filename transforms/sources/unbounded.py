"""Unending restrictions, never divided, and a growing folder as their source."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.pvalue import DoOutputsTuple, PBegin, PCollection
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from dpops.types import Int64s
from transforms import counters
from transforms.atomic_files import is_skipped
from transforms.errors import StepError, reason_of
from transforms.layouts.base import Layout, RawBatch, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.records import REFUSED
from transforms.steps.metrics import Parting, Refusal, count
from transforms.steps.observe import counted, refused_file
from transforms.time.watermark import Watermark, element_time, newest_plausible_ms


@dataclass
class KnownElements(beam.PTransform[PBegin, PCollection[Any]]):
    """Emits fixed elements from a step of constant name.

    Beam's `Create` names a step by its source's line number: a savepoint would not fit a new Beam.
    """

    elements: Sequence[Any]

    def expand(self, begin: PBegin) -> PCollection[Any]:
        return begin | "impulse" >> beam.Impulse() | "each" >> beam.FlatMap(self._each)

    def _each(self, _: bytes) -> Sequence[Any]:
        return self.elements


NO_END = 2**62  # of a restriction of offsets: beyond any
PROMISE = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class _Unending(RestrictionTracker):
    """Tracker of what never ends: no progress can be told."""

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class UnboundedTracker(_Unending, OffsetRestrictionTracker):
    """Tracker of positions, which only splits off all that is left."""

    def try_split(self, fraction_of_remainder: float) -> tuple[OffsetRange, OffsetRange] | None:
        return super().try_split(0) if fraction_of_remainder == 0 else None  # 0: a checkpoint, or a drain


class UnboundedProvider(RestrictionProvider):
    """Provider of unending restrictions, which end on drain."""

    def create_tracker(self, restriction: Any) -> Any:
        return UnboundedTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> int:  # noqa: ARG002
        return 1

    def truncate(self, element: Any, restriction: Any) -> None:
        """Leaves nothing to be read after a drain."""


class NamesRead(NamedTuple):
    """Restriction of names already read."""

    names: frozenset[str]
    closed: bool = False  # primary of a split, which reads nothing more


class NamesTracker(_Unending):
    """Tracker of a folder's names, which claims the set of all names read."""

    def __init__(self, restriction: NamesRead) -> None:
        self._restriction = restriction

    def current_restriction(self) -> NamesRead:
        return self._restriction

    def try_claim(self, position: frozenset[str]) -> bool:
        if not self._restriction.closed:
            self._restriction = NamesRead(position)
        return not self._restriction.closed

    def try_split(self, fraction_of_remainder: float) -> tuple[NamesRead, NamesRead] | None:
        """Splits at checkpoints alone: the primary is closed, the remainder reads on."""
        if fraction_of_remainder != 0 or self._restriction.closed:
            return None
        remainder, self._restriction = self._restriction, self._restriction._replace(closed=True)
        return self._restriction, remainder

    def check_done(self) -> None:
        if not self._restriction.closed:
            raise ValueError("a folder is never read to its end")


class Names(UnboundedProvider):
    """Tracks the names that were read."""

    def initial_restriction(self, element: str) -> NamesRead:  # noqa: ARG002
        return NamesRead(frozenset())

    def create_tracker(self, restriction: NamesRead) -> NamesTracker:
        return NamesTracker(restriction)


NAMES = beam.DoFn.RestrictionParam(Names())


def promised_by(estimator: Any, rule: Watermark) -> Timestamp | None:
    """Returns a source's watermark, or the rule's first one."""
    return estimator.current_watermark() or rule.first


def move(estimator: Any, rule: Watermark, newest_ms: int | None, now_ms: int, *, idle: bool) -> None:
    """Moves a source's watermark by its rule. newest_ms: of its messages; idle: none waits."""
    promise = rule.after(promised_by(estimator, rule), newest_ms, now_ms, idle)
    if promise is not None and promise != estimator.current_watermark():
        estimator.set_watermark(promise)


def late_from(rule: Watermark, estimator: Any, received_ms: Int64s) -> Int64s:
    """Computes the watermark, us, by which each message's events are late; counts overtaken ones."""
    promised = promised_by(estimator, rule)
    watermark_us = np.full(received_ms.size, element_time(promised).micros, np.int64)
    if not rule.by_own_times:
        return watermark_us
    own_us = rule.own_times(received_ms)
    if behind := int(np.count_nonzero(rule.is_behind(promised, own_us))):
        count(counters.OVERTAKEN, behind)
    return np.maximum(own_us, watermark_us)


LOG = logging.getLogger("hatstream.folder")
POLL_FILES, PAUSE_S, KEPT_NAMES = 16, 1.0, 10_000  # above so many names, those of files that are gone are forgotten


@dataclass
class ReadGrowing(Parting[PBegin]):
    """Batches of a folder's new files, and refusals (docs/adr/0009-sources-of-a-stream.md).

    Rename files into place, from a name with a leading dot or with suffix .part or .tmp.
    """

    folder: Path
    watermark: Watermark
    layout: Layout

    def expand(self, begin: PBegin) -> DoOutputsTuple:
        folders = begin | "folder" >> KnownElements([str(self.folder)])
        paths = folders | "watch" >> beam.ParDo(_WatchFolder(self.watermark)).with_output_types(bytes)
        return paths | "read" >> beam.FlatMap(self.read).with_outputs(REFUSED, main="batches")

    def read(self, path: bytes) -> Iterator[RawBatch | Refusal]:
        """Yields batches and refusals of a path in bytes."""
        try:
            yield from counted(read_apart(self.layout, os.fsdecode(path)))
        except (UnreadableFile, FileNotFoundError) as error:
            is_there = isinstance(error, UnreadableFile)
            yield from refused_file(counters.UNREADABLE_FILE if is_there else counters.VANISHED_FILE)
        except OSError as error:
            raise StepError(f"{os.fsdecode(path)}: {reason_of(error)}") from None


def _at_ms(entry: "os.DirEntry[str]", *, by_kernel: bool) -> int | None:
    """Reads a file's modification time, or by_kernel its change time, which producers cannot set."""
    if not is_skipped(entry.name) and not entry.name.endswith((".part", ".tmp")):
        with suppress(FileNotFoundError):
            if Path(entry.path).is_file():  # a link that leads nowhere is none; of a link and its file the later counts
                came_ns = max(entry.stat().st_ctime_ns, entry.stat(follow_symlinks=False).st_ctime_ns)
                return (came_ns if by_kernel else entry.stat().st_mtime_ns) // 10**6
    return None


@dataclass
class _WatchFolder(beam.DoFn):
    """DoFn that watches a folder; restriction: names read; is_away: it cannot be listed."""

    watermark: Watermark
    is_away: bool = False

    @beam.DoFn.unbounded_per_element()
    def process(self, element: str, tracker: Any = NAMES, estimator: Any = PROMISE) -> Iterator[Any]:
        """Lists the folder once: yields new files, moves the watermark, resumes later."""
        read, now_ms, rule = tracker.current_restriction().names, time.time_ns() // 10**6, self.watermark
        try:
            with os.scandir(element) as entries:
                there = {entry.name: entry for entry in entries}
            # Where times of arrival decide lateness, they are the kernel's, which producers cannot set.
            arrived_ms = {name: _at_ms(there[name], by_kernel=rule.by_own_times) for name in there.keys() - read}
        except OSError as error:  # an outage is not silence: nothing is promised
            if not self.is_away:
                LOG.warning("the folder %s cannot be listed: %s; trying until it can", element, reason_of(error))
            self.is_away = True
            tracker.defer_remainder(Duration(seconds=PAUSE_S))
            return
        self.is_away = False
        unread = sorted((at_ms, name) for name, at_ms in arrived_ms.items() if at_ms is not None)
        # Names of files that are gone are forgotten once there are many.
        new, names = unread[:POLL_FILES], read.intersection(there) if len(read) > KEPT_NAMES else read
        if new and not tracker.try_claim(names.union(name for _, name in new)):
            return
        times_ms = np.array([at_ms for at_ms, _ in new], np.int64)
        # Stamped with the watermark that decides which of the file's events are late.
        for (_, name), late_us in zip(new, late_from(rule, estimator, times_ms).tolist(), strict=True):
            yield TimestampedValue(os.fsencode(Path(element) / name), Timestamp(micros=late_us))
        move(estimator, rule, newest_plausible_ms(times_ms, now_ms), now_ms, idle=not unread)
        tracker.defer_remainder(Duration(seconds=0 if len(new) >= POLL_FILES else PAUSE_S))
