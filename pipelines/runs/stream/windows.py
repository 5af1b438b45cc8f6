"""Unbounded pipeline: slots are windows, counted in panes.

For HATs, and for live slots under secret counts, optionally with whole periods at their end:

    read -> parse -> lateness -> assign -+-> in time -> panes -> slots -> by vehicle -> noise -> record -> rows
                                         +-> panes -> slots -> by vehicle -> periods -> stages -> rows

The lower branch accepts reports longer, so all its windows are later.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from pipelines.build import PANE_S, ObservedOutputs, Source, observe, publish, road
from pipelines.job import Job
from transforms import counters
from transforms.records import KeyedPartial, KeyedTally, PackedEvents, RecordedSlot, SlotEstimates
from transforms.releases.base import ReleaseKind
from transforms.sources.heartbeat import Heartbeat
from transforms.steps.metrics import count
from transforms.steps.observe import (
    BEHIND,
    ByVehicle,
    InPanes,
    InTime,
    IntoPanes,
    IntoSlots,
    LateForPanes,
    RefuseLate,
    windows,
)
from transforms.steps.release import IntoPeriods, Record, ReleasePeriod


@dataclass(frozen=True)
class Later:
    """Release of whole periods, delayed by `more_s` seconds."""

    release: ReleaseKind
    more_s: int


@dataclass(frozen=True)
class Stream:
    """Unbounded pipeline from source to sinks, for any engine.

    A savepoint finds steps by name; one contains `identity`, so that Flink refuses a savepoint of another
    specification, key or number of vehicle shards.
    """

    job: Job
    source: Source
    heartbeat: Heartbeat
    identity: str
    later: Later | None = None

    def build(self, pipeline: beam.Pipeline) -> None:
        """Builds the pipeline."""
        beats = pipeline | f"heartbeat of {self.identity}" >> self.heartbeat
        observed = observed_in(pipeline | "read" >> self.source, self.job, self.later)
        for prefix, estimates in released(observed.events, beats, self.heartbeat.start_s, self.job, self.later):
            publish(estimates, self.job.outputs, prefix)


def observed_in(read: DoOutputsTuple, job: Job, later: Later | None = None, pane_s: int = PANE_S) -> ObservedOutputs:
    """Observes a source's batches; refuses reports that are late for their slot or pane.

    Under secret counts the pane decides, so that only a report's own minute does, and no other vehicle's report.
    """
    length_s = job.slot_s if job.release.keeps_late else pane_s
    return observe(read, job, pane_s, RefuseLate(length_s, later.more_s if later else 0))


def released(
    events: PCollection[PackedEvents],
    beats: PCollection[KeyedTally],
    start_s: int,
    job: Job,
    later: Later | None = None,
    pane_s: int = PANE_S,
) -> Iterator[tuple[str, PCollection[SlotEstimates]]]:
    """Yields estimates of slots and periods, with sinks' prefix.

    later: whole periods' release. pane_s: of a pane; rows after its end wait for that of the slot, or miss it.
    """
    windows = InWindows(beats, start_s, pane_s)
    drawing = "by hexagon" if job.release.keeps_late else "live"  # name of the step: of HATs, or of live slots
    yield "", road(windows.tallies(events, job), job, windows, drawing)
    if later is not None:
        job, windows = replace(job, release=later.release), replace(windows, more_s=later.more_s)
        yield "period: ", road(windows.tallies(events, job), job, windows)


@dataclass(frozen=True)
class InWindows:
    """Runner of an unbounded pipeline; debits are not summed.

    beats: of every slot. start_s, pane_s: see `released`. more_s: delay of counting after a slot's end.
    """

    beats: PCollection[KeyedTally]
    start_s: int
    pane_s: int
    more_s: int = 0

    def tallies(self, events: PCollection[PackedEvents], job: Job) -> PCollection[KeyedTally]:
        """Tallies events by slot, or by whole period."""
        if job.release.draws_in_order:  # whole periods, of slots that wait `more_s` longer
            counted = events | "by vehicle, later" >> _Tallied(self, job)
            beats = self.beats | "beats, later" >> beam.WindowInto(windows(job.slot_s, self.start_s + self.more_s))
            return (counted, beats) | "later with heartbeat" >> beam.Flatten()
        timely = events | "in time" >> InTime(self.pane_s)
        if job.release.keeps_late:  # of HATs: what is late for its pane still counts in its slot
            late = timely[BEHIND] | "late for panes" >> LateForPanes(job.release)
            late = late | "late into slots" >> IntoSlots(job.slot_s, self.start_s)
            both = (self.in_slots(timely.in_time, job), late) | "with late ones" >> beam.Flatten()
            slots = both | "by vehicle" >> ByVehicle(job.release, in_panes=True)
        else:  # of live slots: their period counts it
            _ = timely[BEHIND] | "count late" >> beam.Map(lambda packed: count(counters.LATE_FOR_LIVE, packed.rows))
            slots = timely.in_time | "by vehicle" >> _Tallied(self, job)
        return (slots, self.beats) | "with heartbeat" >> beam.Flatten()

    def in_slots(self, events: PCollection[PackedEvents], job: Job) -> PCollection[KeyedPartial]:
        """Counts events in panes by (slot, vehicle shard)."""
        panes = events | "into panes" >> IntoPanes(self.pane_s, self.start_s, self.more_s)
        partials = panes | "in panes" >> InPanes(job.release)
        return partials | "into slots" >> IntoSlots(job.slot_s, self.start_s + self.more_s)

    def recorded(self, drawn: DoOutputsTuple, job: Job) -> PCollection[RecordedSlot]:
        """Records units as windows close."""
        return drawn.units | "record" >> Record(job.account)

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        """Releases periods in order as their windows close."""
        periods = IntoPeriods(job.release.slots, job.slot_s, self.start_s, self.more_s)
        return tallies | "into periods" >> periods | "period" >> ReleasePeriod(job.account, job.release, in_stream=True)


@dataclass
class _Tallied(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedTally]]):
    """Events -> ((slot, 0), packed Tally), a slot at a time."""

    windows: InWindows
    job: Job

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedTally]:
        return self.windows.in_slots(events, self.job) | "tally" >> ByVehicle(self.job.release, in_panes=True)
