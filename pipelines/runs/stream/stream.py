"""Stream: unbounded source, heartbeat, and their pipeline, whose slots are windows, counted in panes.

For HATs, and for live slots under secret counts, optionally with whole periods at their end:

    read -> parse -> lateness -> assign -+-> in time -> panes -> slots -> by vehicle -> noise -> record -> rows
                                         +-> panes -> slots -> by vehicle -> periods -> stages -> rows

The lower branch accepts reports longer, `more_s`, so all its windows are later. A heartbeat is an empty tally of each
slot, sent at its end and timed at its start. A release that draws in order is of whole periods; one that keeps late
reports is of HATs. `start_s`: start of the stream's first slot, in seconds since 1970 UTC; older reports are late.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from pipelines import job as jobs
from pipelines.account.location import AccountLocation, account_of
from pipelines.build import PANE_S, Source, observe, publish, road
from pipelines.engine import EngineError
from pipelines.errors import InputError, UsageError, raise_as
from pipelines.inputs import instant_of
from pipelines.job import Job, Outputs
from pipelines.runs.flink.engine import Flink
from pipelines.runs.stream.health import Say, attend
from pipelines.specification import Specification, SpecificationError
from transforms import counters
from transforms.layouts import message_layout
from transforms.ledger.spending import AccountRefusal
from transforms.observe.parse import FROM_US, TO_US
from transforms.observe.vehicle_ids import Secret
from transforms.public import Summary
from transforms.records import KeyedPartial, KeyedTally, PackedEvents, RecordedSlot, Refused, SlotEstimates
from transforms.releases import KINDS, SlotFacts
from transforms.releases.base import ReleaseKind
from transforms.sources.topic import Topic
from transforms.sources.unbounded import Heartbeat, ReadGrowing, ScriptedHeartbeat
from transforms.steps import observe as steps
from transforms.steps.metrics import count
from transforms.steps.observe import BEHIND, windows
from transforms.steps.release import IntoPeriods, Record, ReleasePeriod
from transforms.time.calendar import CalendarError, StreamCalendar, Timetable, slots_from
from transforms.time.watermark import CLOCK_ERROR_S, Watermark
from transforms.wire import PARTIAL_LAYOUT

if TYPE_CHECKING:
    from transforms.sources.kafka import ReadKafka

CHECKED_DAYS = 3 * 366  # ahead, for clock changes: laws decide them, seldom years before


@dataclass(frozen=True)
class StreamFacts(Mapping[int, SlotFacts]):
    """Lazy mapping of service slots in [from_s, to_s) to their public facts."""

    spec: Specification
    from_s: int
    to_s: int
    _slots_of: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)  # cache

    def __getitem__(self, slot_s: int) -> SlotFacts:
        """Computes a slot's facts."""
        timetable = self.spec.timetable
        period = timetable.period_of(timetable.day_of(slot_s))
        if period not in self._slots_of:
            self._slots_of[period] = self.spec.slots_of_period(slot_s)
        return jobs.facts_of(self.spec, period, slot_s, self._slots_of[period])

    def __iter__(self) -> Iterator[int]:
        return slots_from(self.spec.timetable, self.from_s, self.to_s)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Stream:
    """Unbounded pipeline from source to sinks, for any engine.

    A savepoint finds steps by name; one contains `identity`, so that Flink refuses a savepoint of another
    specification, key or number of vehicle shards. later: release of whole periods, delayed by more_s. pane_s: of a
    pane; rows after its end wait for that of the slot, or miss it.
    """

    job: Job
    source: beam.PTransform[Any, DoOutputsTuple]
    heartbeat: Heartbeat | ScriptedHeartbeat
    identity: str
    later: ReleaseKind | None = None
    more_s: int = 0
    pane_s: int = PANE_S

    def build(self, pipeline: beam.Pipeline) -> None:
        """Builds the pipeline, from reports and slots' ends up to files."""
        _, branches = self.released(pipeline, pipeline)
        for prefix, estimates in branches:
            publish(estimates, self.job.outputs, prefix)

    def released(
        self, origin: beam.Pipeline | PCollection[Any], pipeline: beam.Pipeline
    ) -> tuple[PCollection[Refused], list[tuple[str, PCollection[SlotEstimates]]]]:
        """Returns dead letters, and estimates of slots and of periods with sinks' prefix.

        origin: what the source reads. Reports late for their slot are refused; where counts are secret, those late for
        their pane: their own minute decides, and no other vehicle's report.
        """
        job = self.job
        beats = pipeline | f"heartbeat of {self.identity}" >> self.heartbeat
        length_s = job.slot_s if job.release.keeps_late else self.pane_s  # secret counts keep no late report
        lateness = steps.RefuseLate(length_s, self.more_s)
        events, refused = observe(origin | "read" >> self.source, job, self.pane_s, lateness)
        windows = InWindows(beats, self.heartbeat.start_s, self.pane_s)
        drawing = "by hexagon" if job.release.keeps_late else "live"  # name of the step: of HATs, or of live slots
        # Each is a prefix of labels, and estimates: `road` draws, records and estimates tallies.
        branches = [("", road(windows.tallies(events, job), job, windows, drawing))]
        if self.later is not None:
            job, windows = replace(job, release=self.later), replace(windows, more_s=self.more_s)
            branches.append(("period: ", road(windows.tallies(events, job), job, windows)))
        return refused, branches


@dataclass(frozen=True)
class InWindows:
    """Runner of an unbounded pipeline; debits are not summed."""

    beats: PCollection[KeyedTally]  # heartbeats of every slot
    start_s: int
    pane_s: int
    more_s: int = 0  # delay of counting after a slot's end

    def tallies(self, events: PCollection[PackedEvents], job: Job) -> PCollection[KeyedTally]:
        """Tallies events by slot, and joins the heartbeats."""
        if job.release.draws_in_order:  # whole periods, of slots that wait `more_s` longer
            counted = events | "by vehicle, later" >> _TallyByPanes(self, job)
            # Windows as of `counted`, as Flatten needs them alike. A heartbeat is timed at its slot's start, `more_s`
            # before that slot's window here; `in_order` times both anew, at the end of their slot's period.
            beats = self.beats | "beats, later" >> beam.WindowInto(windows(job.slot_s, self.start_s + self.more_s))
            return (counted, beats) | "later with heartbeat" >> beam.Flatten()
        timely = events | "in time" >> steps.InTime(self.pane_s)
        if job.release.keeps_late:  # HATs: a report that is late for its pane still counts in its slot
            late = timely[BEHIND] | "late for panes" >> steps.LateForPanes(job.release)
            late = late | "late into slots" >> steps.IntoSlots(job.slot_s, self.start_s)
            both = (self.in_slots(timely.in_time, job), late) | "with late ones" >> beam.Flatten()
            slots = both | "by vehicle" >> steps.ByVehicle(job.release, in_panes=True)
        else:  # live slots leave late reports out; the period's release counts them
            _ = timely[BEHIND] | "count late" >> beam.Map(lambda packed: count(counters.LATE_FOR_LIVE, packed.rows))
            slots = timely.in_time | "by vehicle" >> _TallyByPanes(self, job)
        return (slots, self.beats) | "with heartbeat" >> beam.Flatten()

    def in_slots(self, events: PCollection[PackedEvents], job: Job) -> PCollection[KeyedPartial]:
        """Counts events in panes by (slot, vehicle shard)."""
        panes = events | "into panes" >> steps.IntoPanes(self.pane_s, self.start_s, self.more_s)
        partials = panes | "in panes" >> steps.InPanes(job.release)
        return partials | "into slots" >> steps.IntoSlots(job.slot_s, self.start_s + self.more_s)

    def recorded(self, drawn: DoOutputsTuple, job: Job) -> PCollection[RecordedSlot]:
        """Records units as windows close."""
        return drawn.units | "record" >> Record(job.account)

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        """Releases periods in order as their windows close."""
        periods = IntoPeriods(job.release.slots, job.slot_s, self.start_s, self.more_s)
        return tallies | "into periods" >> periods | "period" >> ReleasePeriod(job.account, job.release, in_stream=True)


@dataclass
class _TallyByPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedTally]]):
    """Events, by panes and slots -> ((slot, 0), packed Tally), `more_s` later."""

    windows: InWindows
    job: Job

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedTally]:
        return self.windows.in_slots(events, self.job) | "tally" >> steps.ByVehicle(self.job.release, in_panes=True)


def prepare(
    spec: Specification,
    start_s: int,
    source: Source,
    location: AccountLocation,
    outputs: Outputs,
    vehicle_shards: int = jobs.VEHICLE_SHARDS,  # must equal that of a savepoint
) -> Stream:
    """Builds a stream until the account's end. Raises InputError, AccountRefusal, LedgerError or StepError."""
    location = location.absolute()
    secret = jobs.admitted(spec, location)
    jobs.prepare_outputs(outputs, spec, location)
    outputs = replace(outputs, folder=outputs.folder.absolute())
    return stream_of(spec, (start_s, life_of(spec)[1]), source, location, secret, outputs, vehicle_shards)


def stream_of(
    spec: Specification,
    ends_s: tuple[int, int],
    source: beam.PTransform[Any, DoOutputsTuple],
    location: AccountLocation,
    secret: Secret,
    outputs: Outputs,
    vehicle_shards: int = jobs.VEHICLE_SHARDS,
) -> Stream:
    """Builds a stream, with later periods if any. ends_s: first second, and end."""
    (from_s, _), (start_s, end_s) = life_of(spec), ends_s  # from_s: the account's; from then to start_s all is late
    calendar, facts = StreamCalendar(spec.timetable, start_s, from_s, end_s), StreamFacts(spec, from_s, end_s)
    account = jobs.ledger_account_of(spec, location)
    job = jobs.assemble(spec, calendar, facts, "slot", secret, account, outputs)  # transaction: a slot
    job = replace(jobs.with_digest_form(job, location.ledger), vehicle_shards=vehicle_shards)
    behind_s = _watermark(spec, start_s).behind_s  # how long a slot waits for reports after its end
    heartbeat = Heartbeat(spec.timetable, start_s, end_s, spec.privacy.release_shards, behind_s)
    stream = Stream(job, source, heartbeat, identity_of(spec, secret, vehicle_shards))
    if spec.period_lateness_s is None:
        return stream
    later = KINDS[spec.kind].of(jobs.request_of(spec, job.slots, secret, job.account))
    return replace(stream, later=later, more_s=spec.period_lateness_s - spec.input.allowed_lateness_s)


def identity_of(spec: Specification, secret: Secret, vehicle_shards: int) -> str:
    """Returns the identity that a savepoint must match."""
    return f"{spec.spec_id}-{account_of(spec.account, secret).key_check}-{vehicle_shards}-{PARTIAL_LAYOUT}"


def run(spec: Specification, pipeline: Stream, location: AccountLocation, engine: Flink, stop: Event, say: Say) -> None:
    """Runs a stream until `stop` is set, then cancels it. Raises EngineError on failure."""
    start_s = pipeline.heartbeat.start_s
    job = engine.submit(pipeline.build, f"hatstream-{spec.spec_id}-{time.time_ns()}", stop)
    try:
        say(Summary({"job": job.id, "spec_id": spec.spec_id, "from": spec.timetable.text(start_s)}))
        attend(spec, (start_s, pipeline.heartbeat.end_s), location.reader(), job, stop, say)
    except EngineError:
        raise  # the job has ended, or its cluster does not answer
    except BaseException:
        job.cancel()
        raise
    job.cancel()
    say(Summary({"state": "CANCELED"}))


def kafka_source(spec: Specification, topic: Topic, start_s: int) -> "ReadKafka":
    """Builds a source of all partitions from `start_s`. Raises SpecificationError or InputError."""
    from transforms.sources.kafka import ReadKafka, check_clock  # and Kafka's client with them
    from transforms.sources.kafka_partition import KafkaSourceError, starts

    with raise_as(SpecificationError, ValueError, "input: "):
        layout = message_layout(spec.input.name, spec.input.layout)
    with raise_as(InputError, KafkaSourceError):
        if not spec.counts_are_public:  # then no report may decide by its time whether others are late:
            check_clock(topic)  # it refuses topics whose producers stamp messages, not the broker
        partitions = starts(topic, (start_s - CLOCK_ERROR_S) * 1_000)  # a producer's clock may be that much behind
    return ReadKafka(topic, partitions, _watermark(spec, start_s), layout)


def folder_source(spec: Specification, folder: Path, start_s: int) -> ReadGrowing:
    """Builds a source of files in a growing folder. Raises InputError without one."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    return ReadGrowing(folder.absolute(), _watermark(spec, start_s), spec.input.layout)


def _watermark(spec: Specification, start_s: int) -> Watermark:
    return Watermark(spec.input.allowed_lateness_s, start_s, by_own_times=not spec.counts_are_public)


def first_slot(spec: Specification, text: str | None, now: datetime) -> int:
    """Finds the first slot: at `text`, or after now. Raises UsageError or AccountRefusal."""
    timetable, (from_s, to_s) = spec.timetable, life_of(spec)
    if text is None:
        start_s = next(slots_from(timetable, int(now.timestamp()) + 1, to_s), to_s)
    else:
        start_s = _edge(timetable, text, last=False)
    if not from_s <= start_s < to_s:
        edges = f"{timetable.text(from_s)} to {timetable.text(to_s)}"
        raise AccountRefusal(f"account {spec.account.name!r} lasts from {edges}: no stream starts outside of it")
    return start_s


def end_of(spec: Specification, start_s: int, text: str) -> int:
    """Finds a stream's end; dates are inclusive. Raises UsageError if no slot remains."""
    timetable, (_, life_end_s) = spec.timetable, life_of(spec)
    end_s = min(_edge(timetable, text, last=True), life_end_s)
    if next(slots_from(timetable, start_s, end_s), None) is None:
        raise UsageError(f"no slot of service lies between {timetable.text(start_s)} and the end, {text}")
    return end_s


def _edge(timetable: Timetable, text: str, *, last: bool) -> int:
    """Reads a slot's edge as seconds since 1970. Raises UsageError for other instants."""
    instant = instant_of(text, timetable, last=last)
    with raise_as(UsageError, CalendarError):
        timetable.check_edge(instant)
    return int(instant.timestamp())


def check_endless(spec: Specification, start_s: int) -> None:
    """Refuses specifications that no stream can release. Raises SpecificationError."""
    if key := spec.input.needs_whole_periods:
        raise SpecificationError(f"{key} needs a vehicle's whole day: use `hatstream release`")
    if why := KINDS[spec.kind].why_no_stream(spec.privacy.allocation, spec.levels):
        raise SpecificationError(why)
    with raise_as(SpecificationError, CalendarError):
        spec.slots_of_period(start_s)  # raises where they cannot be listed; some may lie before the stream
    timetable, (_, to_s) = spec.timetable, life_of(spec)
    first = timetable.day_of(start_s)
    for day in (first + timedelta(days=number) for number in range(CHECKED_DAYS)):
        midnight_s = timetable.midnight(day).timestamp()
        if midnight_s >= to_s:
            return
        if (midnight_s - start_s) % timetable.slot_s:  # a stream's windows have one length: clock changes must be slots
            raise SpecificationError(
                f"slot.minutes = {timetable.slot_minutes}: {timetable.zone} changes its clock before {day}, and the "
                "slots of a stream cannot follow; slots of an hour or less can, in most zones"
            )


def life_of(spec: Specification) -> tuple[int, int]:
    """Returns the account's first second and its end, in seconds since 1970."""
    since, until = spec.account.since, spec.account.until
    from_s = FROM_US // 1_000_000 if since is None else int(spec.timetable.midnight(since).timestamp())
    to_s = TO_US // 1_000_000 if until is None else int(spec.timetable.midnight(until).timestamp())
    return from_s, to_s
