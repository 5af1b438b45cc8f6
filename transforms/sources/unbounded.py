"""Unending restrictions, never divided; a growing folder and heartbeats as sources.

A restriction is what a source has still to read, or has read; a tracker claims it. `defer_remainder` lets the engine go
on later, from a checkpoint. A promise is a source's watermark, which the estimator holds; a rule moves it.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.pvalue import DoOutputsTuple, PBegin, PCollection
from apache_beam.testing.test_stream import ElementEvent, TestStream, WatermarkEvent
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from dpops.types import Int64s
from transforms import counters
from transforms.atomic_files import is_skipped
from transforms.errors import StepError, reason_of
from transforms.layouts.base import Layout, RawBatch, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.records import REFUSED, KeyedTally, TallyBytes
from transforms.steps.metrics import Parting, Refusal, count
from transforms.steps.observe import counted, refused_file, windows
from transforms.time.calendar import Timetable, slots_from
from transforms.time.watermark import Watermark, element_time, newest_plausible_ms


@dataclass
class KnownElements(beam.PTransform[PBegin, PCollection[Any]]):
    """Emits fixed elements from a step of constant name.

    Beam's `Create` names a step by its source's line number: a savepoint would not fit a new Beam.
    """

    elements: Sequence[Any]

    def expand(self, begin: PBegin) -> PCollection[Any]:
        return begin | "impulse" >> beam.Impulse() | "each" >> beam.FlatMap(lambda _: self.elements)


NO_END = 2**62  # of a restriction of offsets: beyond any
PAUSE_S = 1.0  # between calls that had little to do: whole seconds for Flink, where each costs a timer and a state
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
    """Computes the time, us, before which each message's events are late; counts overtaken ones."""
    promised = promised_by(estimator, rule)
    watermark_us = np.full(received_ms.size, element_time(promised).micros, np.int64)  # MIN_TIMESTAMP if none
    if not rule.by_own_times:
        return watermark_us
    own_us = rule.own_watermarks(received_ms)
    if behind := int(np.count_nonzero(rule.is_behind(promised, own_us))):  # the source's watermark has passed theirs
        count(counters.OVERTAKEN, behind)
    return np.maximum(own_us, watermark_us)


LOG = logging.getLogger("hatstream.folder")
POLL_FILES, KEPT_NAMES = 16, 10_000  # above so many names, those of files that are gone are forgotten


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
        """Yields batches and refusals of a path in bytes. Raises StepError."""
        try:
            yield from counted(read_apart(self.layout, os.fsdecode(path)))  # with dead letters of refused rows
        except (UnreadableFile, FileNotFoundError) as error:
            is_there = isinstance(error, UnreadableFile)
            yield from refused_file(counters.UNREADABLE_FILE if is_there else counters.VANISHED_FILE)
        except OSError as error:
            raise StepError(f"{os.fsdecode(path)}: {reason_of(error)}") from None


def _at_ms(entry: "os.DirEntry[str]", *, by_kernel: bool) -> int | None:
    """Reads when a file came, by its modification or by_kernel change time; None: skipped."""
    if not is_skipped(entry.name) and not entry.name.endswith((".part", ".tmp")):
        with suppress(FileNotFoundError):
            if Path(entry.path).is_file():  # no link that leads nowhere; of a link and its file the later change counts
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
        read_names, now_ms, rule = tracker.current_restriction().names, time.time_ns() // 10**6, self.watermark
        try:
            with os.scandir(element) as entries:
                listing = {entry.name: entry for entry in entries}
            # Where files' own times decide lateness, they are the kernel's: producers cannot set change times.
            new_names = listing.keys() - read_names
            arrived_ms = {name: _at_ms(listing[name], by_kernel=rule.by_own_times) for name in new_names}
        except OSError as error:  # an outage is not silence: nothing is promised
            if not self.is_away:
                LOG.warning("the folder %s cannot be listed: %s; trying until it can", element, reason_of(error))
            self.is_away = True
            tracker.defer_remainder(Duration(seconds=PAUSE_S))
            return
        self.is_away = False
        # None: a name to skip, such as x.part, or no file.
        unread = sorted((at_ms, name) for name, at_ms in arrived_ms.items() if at_ms is not None)
        # Names of files that are gone are forgotten once there are many.
        names = read_names.intersection(listing) if len(read_names) > KEPT_NAMES else read_names
        new = unread[:POLL_FILES]
        if new and not tracker.try_claim(names.union(name for _, name in new)):
            return
        times_ms = np.array([at_ms for at_ms, _ in new], np.int64)
        # Stamped with the watermark that decides which of the file's events are late.
        for (_, name), late_us in zip(new, late_from(rule, estimator, times_ms).tolist(), strict=True):
            yield TimestampedValue(os.fsencode(Path(element) / name), Timestamp(micros=late_us))
        move(estimator, rule, newest_plausible_ms(times_ms, now_ms), now_ms, idle=not unread)
        tracker.defer_remainder(Duration(seconds=0 if len(new) >= POLL_FILES else PAUSE_S))


MOST_SLOTS = 1_000  # of a call: a stream that begins in the past has many to catch up with


@dataclass
class Heartbeat(beam.PTransform[PBegin, PCollection[KeyedTally]]):
    """Empty tallies of service slots, once these are over.

    It holds the watermark until a slot is over, so no window fires early even if sources end. Windows fired by a drain
    have no heartbeat and are not sealed. The engine's checkpoints hold the next slot. It runs slightly ahead of the
    wall clock: the sources' watermarks decide when a slot is closed. lag_s: allowed lateness.
    """

    timetable: Timetable
    start_s: int
    end_s: int
    shards: int
    lag_s: int = 0

    def expand(self, begin: PBegin) -> PCollection[KeyedTally]:
        life = begin | "life" >> KnownElements([(self.start_s, self.end_s)]).with_output_types(tuple[int, int])
        beat = beam.ParDo(_Beat(self.timetable, self.shards, self.lag_s)).with_output_types(KeyedTally)
        return life | "beat" >> beat | "window" >> beam.WindowInto(windows(self.timetable.slot_s, self.start_s))


class _Slots(UnboundedProvider):
    """The restriction: the time from the next slot on."""

    def initial_restriction(self, element: tuple[int, int]) -> OffsetRange:
        return OffsetRange(*element)


_SLOTS = beam.DoFn.RestrictionParam(_Slots())


class _Beat(beam.DoFn):
    """DoFn that beats for slots; its restriction begins with the next one."""

    def __init__(self, timetable: Timetable, shards: int, lag_s: int = 0) -> None:
        self._timetable, self._shards = timetable, shards
        self._wait_s = timetable.slot_s + max(0, lag_s - int(PAUSE_S))  # a call comes up to PAUSE_S later

    @beam.DoFn.unbounded_per_element()
    def process(self, element: tuple[int, int], tracker: Any = _SLOTS, estimator: Any = PROMISE) -> Iterator[Any]:
        """Yields beats of slots that are over, then waits at the next."""
        _, end_s = element  # the stream's start and end
        until_s = int(time.time()) - self._wait_s + 1  # slots that start before are over, with their lateness
        slots, next_s = due(self._timetable, tracker.current_restriction().start, end_s, until_s)
        for slot_s in slots:
            if not tracker.try_claim(slot_s):
                return
            yield from _beats(slot_s, self._shards)
        if next_s == end_s:
            tracker.try_claim(end_s)  # so that nothing remains
            return
        if estimator.current_watermark() != Timestamp(next_s):
            estimator.set_watermark(Timestamp(next_s))
        tracker.defer_remainder(Duration(seconds=PAUSE_S if len(slots) < MOST_SLOTS else 0))


def due(timetable: Timetable, position_s: int, end_s: int, until_s: int) -> tuple[list[int], int]:
    """Lists up to MOST_SLOTS slots before until_s, and the next one's start or end_s."""
    slots = list(islice(slots_from(timetable, position_s, end_s), MOST_SLOTS + 1))
    now = [slot_s for slot_s in slots[:MOST_SLOTS] if slot_s < until_s]
    return now, slots[len(now)] if len(now) < len(slots) else end_s


def script_of(elements: PCollection[Any]) -> TestStream | None:
    """Finds the `TestStream` that elements come from, whose script times heartbeats."""
    waiting, seen = [elements], set[int]()
    while waiting:
        producer = getattr(waiting.pop(), "producer", None)
        if producer is None or id(producer) in seen:
            continue
        seen.add(id(producer))
        if isinstance(producer.transform, TestStream):
            return producer.transform
        waiting.extend(producer.inputs)
    return None


@dataclass
class ScriptedHeartbeat(beam.PTransform[PBegin, PCollection[KeyedTally]]):
    """Heartbeats of slots that a TestStream's watermarks, or elements and the clock, end."""

    script: TestStream
    timetable: Timetable
    start_s: int
    end_s: int
    shards: int
    now_s: int

    def expand(self, begin: PBegin) -> PCollection[KeyedTally]:
        slots = begin | "slots" >> KnownElements(list(self.slots())).with_output_types(int)
        beats = slots | "beat" >> beam.FlatMap(_beats, self.shards).with_output_types(KeyedTally)
        return beats | "window" >> beam.WindowInto(windows(self.timetable.slot_s, self.start_s))

    def slots(self) -> Iterator[int]:
        """Yields slots over by the script's watermarks, or reached and over at `now_s`."""
        slot_s = self.timetable.slot_s
        watermarks = [event.new_watermark for event in self.script._events if isinstance(event, WatermarkEvent)]
        # MAX_TIMESTAMP is the end of the script, and promises no slot.
        promised_s = max((int(time) for time in watermarks if time < MAX_TIMESTAMP), default=0)
        added = [event for event in self.script._events if isinstance(event, ElementEvent)]
        times = (element.timestamp for event in added for element in event.timestamped_values)
        reached_s = max(map(int, times), default=0)
        last_s = max(promised_s - slot_s, min(reached_s, self.now_s - slot_s))  # start of the last slot that is over
        return slots_from(self.timetable, self.start_s, min(self.end_s, last_s + 1))


def _beats(slot_s: int, shards: int) -> Iterator[Any]:
    for shard in range(shards):
        yield TimestampedValue(((slot_s, shard), TallyBytes(b"")), slot_s)
