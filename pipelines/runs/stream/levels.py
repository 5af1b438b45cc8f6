"""The road of a stream under secret counts: coarse live slots while a period lasts, and the whole period at its end.

    read -> parse -> lateness -> assign -+-> in time -> panes -> slots -> by vehicle -> vectors, noise -> record -> rows
                                         +-> panes -> slots -> by vehicle -> periods -> stages -> rows

The lower branch is there where the stream itself ends periods. It takes reports longer, so all its windows lie later.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from pipelines.build import PANE_S, Source, observe, sinks_of
from pipelines.job import Job
from transforms import counters
from transforms.records import KeyedTally, PackedEvents, SlotEstimates
from transforms.releases.base import Release
from transforms.sources.heartbeat import Heartbeat
from transforms.steps.count import ByVehicle, InPanes
from transforms.steps.lateness import BEHIND, InTime, IntoPanes, IntoSlots, RefuseLate
from transforms.steps.metrics import count
from transforms.steps.periods import IntoPeriods, ReleasePeriod
from transforms.steps.release import ByHexagon, Estimate, Record


@dataclass(frozen=True)
class LevelsStream:
    """policy: of the whole periods that the stream ends `more_s` after their slots; None: a scheduled job does."""

    periods: Release | None
    more_s: int


def stream(
    p: beam.Pipeline, source: Source, heartbeat: Heartbeat, job: Job, levels: LevelsStream, identity: str
) -> None:
    """The whole road, without an end. identity: as of `pipelines.build.stream`."""
    beats = p | f"heartbeat of {identity}" >> heartbeat
    for of, estimates in released(p | "read" >> source, beats, heartbeat.start_s, job, levels):
        for name, sink in sinks_of(job.outputs).items():
            _ = estimates | f"{of}{name}" >> sink


def released(
    read: DoOutputsTuple, beats: PCollection[KeyedTally], start_s: int, job: Job, levels: LevelsStream
) -> Iterator[tuple[str, PCollection[SlotEstimates]]]:
    """Estimates of live slots, and of whole periods where the stream ends them; each with what its sinks are named by.

    read: main: RawBatch; refused: Refused. start_s: of the first slot.
    """
    # Under secret counts a report's own minute decides, without what its vehicle sent else.
    events = observe(read, job, PANE_S, RefuseLate(PANE_S, levels.more_s))  # PackedEvents
    timely = events | "in time" >> InTime(PANE_S)
    _ = timely[BEHIND] | "count late" >> beam.Map(_count_late)
    slots = timely.in_time | "by vehicle" >> _Tallied(job, start_s, 0)  # (slot, 0), Tally
    both = (slots, beats) | "with heartbeat" >> beam.Flatten()
    drawn = both | "live" >> ByHexagon(job.release, job.transaction, job.account)  # slot, Unit
    recorded = drawn.sealed | "record" >> Record(job.account)
    yield "", recorded | "publish/estimate" >> Estimate(job.release, job.account)
    if levels.periods is None:
        return
    whole = events | "by vehicle, later" >> _Tallied(job, start_s, levels.more_s)
    all_ = (whole, beats) | "later with heartbeat" >> beam.Flatten()
    into = IntoPeriods(levels.periods.slots, job.slot_s, start_s, levels.more_s)
    release = ReleasePeriod(job.account, levels.periods, in_stream=True)
    yield "period: ", all_ | "into periods" >> into | "period" >> release


@dataclass
class _Tallied(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedTally]]):
    """Events -> ((slot, 0), packed Tally), a slot at a time; `more_s` later than the slot ends."""

    job: Job
    start_s: int
    more_s: int

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedTally]:
        panes = events | "into panes" >> IntoPanes(PANE_S, self.start_s, self.more_s)
        partials = panes | "in panes" >> InPanes(self.job.release.cap, self.job.release.columns)
        in_slots = partials | "into slots" >> IntoSlots(self.job.slot_s, self.start_s + self.more_s)
        return in_slots | "tally" >> ByVehicle(self.job.release, in_panes=True)


def _count_late(packed: PackedEvents) -> None:
    count(counters.LATE_FOR_LIVE, packed.rows)
