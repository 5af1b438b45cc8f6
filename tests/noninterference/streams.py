"""The stream's road on Beam's own runner, from what a transport took and when, by the stream's own rule of lateness.

The sources are those that `hatstream stream` makes; what they hand over, and what they promise after each poll, is
played to the rest of the road by a TestStream. Polls come at public times of the clock, every few minutes.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from pipelines.account import location
from pipelines.job import Outputs
from pipelines.runs.stream import stream as streaming
from pipelines.specification import Specification, load
from tests.city import DAYS
from tests.hatstream import pipelines
from tests.noninterference import feeds
from tests.noninterference.roads import ByKey, Job, by_library, element
from tests.noninterference.world import Feed, Report, Town
from tests.stream.by_hand import Beats, ByHand, Fed, instant_s, run
from transforms.sources import kafka, kafka_partition, unbounded
from transforms.sources.kafka_partition import PartitionStart, Poll
from transforms.sources.topic import Topic
from transforms.sources.unbounded import Names
from transforms.time.calendar import slots_from

TOPIC = Topic(brokers="nowhere:1", name="positions")


@dataclass(frozen=True)
class Stream:
    """A day's stream. source: "kafka" or "folder". before: days that are released beforehand, of other reports."""

    source: str
    day: str = DAYS[1]
    before: Feed | None = None
    hours: float = 1.5
    poll_s: int = 300

    def __call__(self, town: Town, feed: Feed) -> None:
        if self.before is not None:
            Job(layout="jsonl", days=DAYS[:1] * 2)(town, self.before)
        spec, place = load(town.folder / "spec.toml"), location.find(str(town.folder / "ledger.sqlite"), None)
        day = date.fromisoformat(self.day)
        edges = (int(spec.timetable.midnight(bound).timestamp()) for bound in (day, day + timedelta(days=1)))
        slots = tuple(slots_from(spec.timetable, *edges))
        start_s = slots[0]
        made = streaming.prepare(spec, start_s, Fed(Clock(), None), place, Outputs(town.out, ("csv", "jsonl")))
        fed = (self._kafka if self.source == "kafka" else self._folder)(town, spec, feed, start_s)
        beats = Beats(slots, spec.timetable.slot_s)
        run(replace(made, source=fed, heartbeat=beats))

    def _kafka(self, _town: Town, spec: Specification, feed: Feed, start_s: int) -> "Fed":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kafka_partition, "starts", lambda *_: [PartitionStart(0, 0, 1)])
            patch.setattr(kafka, "check_clock", lambda _: None)
            source = streaming.kafka_source(spec, TOPIC, start_s)
        fn = kafka._ReadPartition(source.topic, source.watermark, source.poll_messages)
        reader = ByHand(fn, kafka._Offsets(), source.starts[0])
        fn._open[0] = Script(list(_polls(by_poll(feed, start_s, self.poll_s, self.hours), start_s)))
        return Fed(
            played(reader, int(self.hours * 3600 / self.poll_s)),
            beam.FlatMap(partial(kafka.decode, layout=source.layout)),
        )

    def _folder(self, town: Town, spec: Specification, feed: Feed, start_s: int) -> "Fed":
        """A file for all that happened in a poll, and one for what was held up: each came at the poll."""
        folder = town.folder / "growing"
        folder.mkdir()
        source = streaming.folder_source(spec, folder, start_s)
        reader = ByHand(unbounded._WatchFolder(source.watermark), Names(), str(source.folder))
        clock = Clock()
        for at_s, reports in by_poll(feed, start_s, self.poll_s, self.hours):
            for name, part in _files(reports, at_s - self.poll_s, at_s):
                _put(part, folder / f"{at_s}-{name}.jsonl", start_s)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(unbounded, "time", SimpleNamespace(time_ns=lambda at_s=at_s: (at_s + 1) * 10**9))
                patch.setattr(unbounded, "os", SimpleNamespace(**{**vars(os), "scandir": scandir}))
                clock = _played(clock, reader)
        return Fed(clock.advance_watermark_to_infinity(), beam.FlatMap(source.read))


def by_poll(feed: Feed, start_s: int, poll_s: int, hours: float) -> Iterator[tuple[int, list[Report]]]:
    """The time of each poll, and the reports that were received since the one before."""
    for number in range(1, int(hours * 3600 / poll_s) + 1):
        at_s = start_s + number * poll_s
        yield at_s, [report for report in feed if at_s - poll_s < _received_s(report, start_s) <= at_s]


@dataclass(frozen=True)
class UnboundedLibrary:
    """An unbounded PCollection of dicts, each taken when its report was received; its watermark is the clock's."""

    before: Feed | None = None

    def __call__(self, town: Town, feed: Feed) -> None:
        if self.before is not None:
            Job(days=DAYS[:1] * 2)(town, self.before)
        by_library(pipelines.streaming(), clock_of(feed), town, start=f"{DAYS[1]}T08:00")


@dataclass(frozen=True)
class UnboundedByKey(ByKey):
    """A statistic by key and hour of an unbounded PCollection."""

    def __call__(self, town: Town, feed: Feed) -> None:
        hourly = beam.WindowInto(FixedWindows(3_600, 1_800))
        given = pipelines.streaming() | clock_of(feed) | hourly
        self.show(town, given, f"{DAYS[1]}T08:00")


def clock_of(feed: Feed) -> Any:
    """A TestStream of the second day's elements, each taken when its report was received."""
    start_s = instant_s(DAYS[1], "08:00")
    clock = Clock().advance_watermark_to(start_s)
    for at_s, reports in by_poll(feed, start_s, 300, 1.5):
        if reports:
            taken = [TimestampedValue(element(report), _received_s(report, start_s)) for report in reports]
            clock = clock.add_elements(taken)
        clock = clock.advance_watermark_to(at_s)
    return clock.advance_watermark_to_infinity()


def played(reader: ByHand, polls: int) -> Clock:
    clock = Clock()
    for _ in range(polls):
        clock = _played(clock, reader)
    return clock.advance_watermark_to_infinity()


def _played(clock: Clock, reader: ByHand) -> Clock:
    """One poll: what it hands over, then what it promises."""
    before = reader.watermark or MIN_TIMESTAMP
    elements = reader.step()
    if elements:
        clock = clock.add_elements(elements)
    if reader.watermark is None or reader.watermark <= before:
        return clock
    return clock.advance_watermark_to(reader.watermark)


@dataclass
class Script:
    """In the place of a partition: polls that are known beforehand."""

    polls: list[Poll]

    def poll(self, _position: int, _most: int) -> Poll:
        return self.polls.pop(0)

    def close(self) -> None:
        """Nothing is open."""


def _polls(polls: Iterable[tuple[int, list[Report]]], start_s: int) -> Iterator[Poll]:
    position = 0
    for at_s, reports in polls:
        position += len(reports)
        payloads = [
            json.dumps(dict(zip(feeds.NAMES, report[:5], strict=True)), default=str).encode() for report in reports
        ]
        times = np.array([int(1_000 * _received_s(report, start_s)) for report in reports], np.int64)
        yield Poll(payloads, times, np.ones(times.size, np.bool_), position, 0, 1_000 * at_s, idle=not reports)


def _received_s(report: Report, start_s: int) -> float:
    """Two seconds after its event, if nothing else is said."""
    if report.received_s is not None:
        return start_s + report.received_s
    return _event_s(report, start_s + 1_798) + 2


def _event_s(report: Report, otherwise_s: float) -> float:
    try:
        return datetime.fromisoformat(str(report.time)).timestamp()
    except ValueError:
        return otherwise_s


def _files(reports: Sequence[Report], from_s: int, at_s: int) -> Iterator[tuple[str, list[Report]]]:
    """What was received in time for a poll, and apart from it what was held up; nothing where there is none."""
    held = [report for report in reports if _event_s(report, at_s) < from_s - 60]
    parts = {"held": held, "new": [report for report in reports if report not in held]}
    return ((name, part) for name, part in parts.items() if part)


def _put(reports: Sequence[Report], path: Path, start_s: int) -> None:
    """As its producer wrote it: the time of the file is that of the newest event, or when that was received at once."""
    feeds.WRITERS["jsonl"][2](reports, path)
    time_s = max(min(_event_s(report, start_s) + 60, _received_s(report, start_s)) for report in reports)
    os.utime(path, (time_s, time_s))


@contextmanager
def scandir(folder: str) -> Iterator[Iterator[Any]]:
    """Files whose kernel's time is the one that begins their names."""
    yield (
        SimpleNamespace(
            name=path.name,
            path=path,
            stat=lambda path=path, **_: SimpleNamespace(
                st_ctime_ns=int(path.stem.split("-")[0]) * 10**9, st_mtime_ns=path.stat().st_mtime_ns
            ),
        )
        for path in Path(folder).iterdir()
    )
