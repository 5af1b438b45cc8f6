"""Stream: unbounded source, heartbeat, and the pipeline of `windows.py`."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from pipelines import job as jobs
from pipelines import outputs as output_folder
from pipelines.account.location import AccountLocation, account_of
from pipelines.build import Source
from pipelines.engine import EngineError
from pipelines.errors import InputError, UsageError, raise_as
from pipelines.inputs import instant_of
from pipelines.runs.flink.engine import Flink
from pipelines.runs.stream.health import Say, attend
from pipelines.runs.stream.windows import Later, Stream
from pipelines.specification import Specification, SpecificationError
from transforms.layouts import message_layout
from transforms.ledger.spending import AccountRefusal
from transforms.observe.parse import FROM_US, TO_US
from transforms.observe.vehicle_ids import Secret
from transforms.public import Summary
from transforms.releases import KINDS, SlotFacts
from transforms.sources.heartbeat import Heartbeat
from transforms.sources.topic import Topic
from transforms.sources.unbounded import ReadGrowing
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
        """Computes a slot's facts; joint slots are those that are planned with it."""
        timetable = self.spec.timetable
        period = timetable.period_of(timetable.day_of(slot_s))
        if period not in self._slots_of:
            self._slots_of[period] = self.spec.slots_of_period(slot_s)
        slots = self._slots_of[period]
        joint_slots_s = self.spec.privacy.allocation.planned_with(slot_s, slots)
        return jobs.facts_of(self.spec, period, slot_s, joint_slots_s, plan_count=len(slots))  # a plan a slot

    def __iter__(self) -> Iterator[int]:
        return slots_from(self.spec.timetable, self.from_s, self.to_s)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def prepare(
    spec: Specification,
    start_s: int,
    source: Source,
    location: AccountLocation,
    outputs: jobs.Outputs,
    vehicle_shards: int = jobs.VEHICLE_SHARDS,
) -> Stream:
    """Builds a stream from `start_s` on. Raises InputError, AccountRefusal, LedgerError or StepError.

    vehicle_shards: must equal that of a savepoint.
    """
    location = location.absolute()
    secret = jobs.admitted(spec, location)
    output_folder.prepare(outputs, spec, location)
    outputs = replace(outputs, folder=outputs.folder.absolute())
    _, end_s = life = life_of(spec)
    job = replace(endless(spec, start_s, life, location, secret, outputs), vehicle_shards=vehicle_shards)
    behind_s = _watermark(spec, start_s).behind_s  # that a slot waits for reports after its end
    heartbeat = Heartbeat(spec.timetable, start_s, end_s, spec.privacy.release_shards, behind_s)
    return Stream(job, source, heartbeat, identity_of(spec, secret, vehicle_shards), later_of(spec, job, secret))


def endless(
    spec: Specification,
    start_s: int,
    life: tuple[int, int],
    location: AccountLocation,
    secret: Secret,
    outputs: jobs.Outputs,
) -> jobs.Job:
    """Builds a stream's job. life: first second, and the one after the last."""
    calendar, facts = StreamCalendar(spec.timetable, start_s, *life), StreamFacts(spec, *life)
    account = jobs.ledger_account_of(spec, location)
    job = jobs.assemble(spec, calendar, facts, "slot", secret, account, outputs, in_slots=True)  # transaction: a slot
    return jobs.with_digest_form(job, location.ledger)  # digests as its older ones: plain or keyed


def identity_of(spec: Specification, secret: Secret, vehicle_shards: int) -> str:
    """Returns the identity that a savepoint must match."""
    return f"{spec.spec_id}-{account_of(spec.account, secret).key_check}-{vehicle_shards}-{PARTIAL_LAYOUT}"


def later_of(spec: Specification, job: jobs.Job, secret: Secret) -> Later | None:
    """Returns the release of whole periods after their end, if any."""
    if spec.period_lateness_s is None:
        return None
    release = KINDS[spec.kind].of(jobs.request_of(spec, job.slots, secret, job.account))
    return Later(release, more_s=spec.period_lateness_s - spec.input.allowed_lateness_s)  # beyond that of events


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
        if not spec.counts_are_public:  # then no report may decide by its time whether others are late
            check_clock(topic)
        partitions = starts(topic, (start_s - CLOCK_ERROR_S) * 1_000)  # a producer's clock may be that much behind
    return ReadKafka(topic, partitions, _watermark(spec, start_s), layout)


def folder_source(spec: Specification, folder: Path, start_s: int) -> ReadGrowing:
    """Builds a source of files in a growing folder. Raises InputError without one.

    start_s: the stream's first slot, in seconds since 1970 UTC; older reports are ignored.
    """
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
    """Refuses specifications unfit for endless release by slots. Raises SpecificationError.

    Windows of a stream have one length, so clock changes must be whole numbers of slots.
    """
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
        if (midnight_s - start_s) % timetable.slot_s:
            raise SpecificationError(
                f"slot.minutes = {timetable.slot_minutes}: {timetable.zone} changes its clock before {day}, and the "
                "slots of a stream cannot follow; slots of an hour or less can, in most zones"
            )


def life_of(spec: Specification) -> tuple[int, int]:
    """Returns the account's life in seconds since 1970."""
    since, until = spec.account.since, spec.account.until
    from_s = FROM_US // 1_000_000 if since is None else int(spec.timetable.midnight(since).timestamp())
    to_s = TO_US // 1_000_000 if until is None else int(spec.timetable.midnight(until).timestamp())
    return from_s, to_s
