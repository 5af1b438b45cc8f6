"""Scheduled job as one bounded pipeline, judged before recording.

    pieces -> observe -> by vehicle -+-> by hexagon -+-> record -> estimate -> publish
                                     |               |     ^
                          counts,    |               +-> what is asked and spent -> judge
                          unreadable +-----------------------------------------------^

Steps are few, as each costs a runner some 10 ms. Counts reach the judge through the group-by of events, by NO_SLOT.
If an engine retries a step, the ledger keeps its first record. A fact tells the judge counters, or a period's debits; a
consent among units lets the ledger record them. `needed`: periods that must have rows. A release that draws in order is
of whole periods, each of which rests on what was recorded before, and its debits are known without the input. Rules
that need whole periods derive values from a vehicle's consecutive rows.
"""

import itertools
import os
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import apache_beam as beam
import msgspec
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput

from dpops.accountant import Accountant
from pipelines.build import PANE_S, beats_of, publish, road
from pipelines.engine import BoundedEngine, EngineError, Finished
from pipelines.errors import Report
from pipelines.job import Job
from pipelines.outcome import Outcome, count_in
from pipelines.runs.beam import judge
from pipelines.runs.beam.judge import VERDICT, KeyedFact, Needed, decode_verdict
from pipelines.runs.beam.reading import NO_SLOT, KeyedPart, Observe, Piece, estimate_rows, pieces_of
from transforms import counters, records, tasks, wire
from transforms.errors import StepError, reason_of
from transforms.releases.base import History
from transforms.steps.metrics import Phase, count, passed, report_to
from transforms.steps.observe import ByVehicle, InPanes
from transforms.steps.release import Record, ReleaseInOrder

COUNTED: Final = "counted"
BEATS: Final = "beats"
PANE_ROWS = 1_000_000  # events in a pane, about: it is counted at once in memory
PART_ROWS = 1_000_000  # events in a vehicle shard of a whole period, likewise
READ = "observations read"  # phase of progress
UNSIZED_SHARDS = 8  # vehicle shards of a period if nobody knows how many rows it has

CountedFact = TaggedOutput[Literal["counted"], KeyedFact]
Beat = TaggedOutput[Literal["beats"], records.KeyedTally]
Group = tuple[records.PaneShard, Iterable[tuple[int, records.EventBytes]]]
"""Key: (slot's or period's start, vehicle shard), and pane's start or 0. Values: slot's start and packed events."""

_OPEN: "weakref.WeakValueDictionary[int, Spool]" = weakref.WeakValueDictionary()  # this process's spools, by number
_SPOOL_NUMBERS = itertools.count()


class Spool:
    """Byte strings in one temporary file, for all threads of this process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="hatstream-")  # noqa: SIM115 - see __exit__
        self._file_name = f"a temporary file in {tempfile.gettempdir()}"  # for errors
        self._lock = threading.Lock()
        self._end = 0
        self._number = next(_SPOOL_NUMBERS)
        _OPEN[self._number] = self  # by which unpickled steps of the pipeline find it: see __reduce__

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def put(self, data: bytes) -> bytes:
        """Appends data; returns a reference. Raises StepError on a full disk."""
        with self._lock:
            try:
                written = os.pwrite(self._file.fileno(), data, self._end)
            except OSError as error:
                raise StepError(f"{self._file_name}: {reason_of(error)}") from None
            if written != len(data):
                raise StepError(f"{self._file_name}: no space is left: free some, or set TMPDIR")
            self._end += written
            return msgspec.msgpack.encode((self._end - written, written))

    def get(self, put: bytes) -> bytes:
        """Reads the data of a reference returned by `put`."""
        start, size = msgspec.msgpack.decode(put, type=tuple[int, int])
        return os.pread(self._file.fileno(), size, start)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a spool as its number in this process."""
        return _find, (self._number,)


def _find(number: int) -> Spool:
    """Finds an open spool of this process, in place of unpickling one."""
    try:
        return _OPEN[number]
    except KeyError:
        raise RuntimeError("a spool lives and ends with its process") from None


@dataclass(frozen=True)
class Bounded:
    """Pipeline of a bounded job. spool: of grouped events, in a single process."""

    job: Job
    paths: Sequence[str]
    needed: Needed
    pane_s: int = PANE_S
    spool: Spool | None = None

    def build(self, p: beam.Pipeline) -> None:
        """Builds the pipeline of the job.

        Locally one worker has all pieces, otherwise each goes to any free worker. Without files an empty bundle reports
        that there are no rows.
        """
        job, pieces = self.job, pieces_of(self.job.layout, self.paths)
        bundles = [pieces] if self.spool is not None or not pieces else [[piece] for piece in pieces]
        listed = p | beam.Impulse() | "pieces" >> beam.FlatMap(lambda _: bundles).with_output_types(Sequence[Piece])
        if len(bundles) > 1:
            listed = listed | "spread" >> beam.Reshuffle()
        # Groups are by slot (or period), vehicle shard and pane.
        groups = listed | "observe" >> beam.ParDo(Observe(self)) | "group" >> beam.GroupByKey()
        tallied = groups | "tally" >> beam.ParDo(_Tally(self)).with_outputs(COUNTED, BEATS, main="tallies")
        tallies = tallied.tallies
        if self.in_panes:  # parts of slots are merged here; heartbeats, whole tallies of empty slots, join them
            slots = tallies | "by slot" >> ByVehicle(job.release, in_panes=True, in_order=job.release.draws_in_order)
            tallies = (slots, tallied[BEATS]) | "with heartbeat" >> beam.Flatten()
        # `road` draws tallies, records them once the judge consents to the counted facts, and estimates.
        publish(road(tallies, job, _Judged(self, tallied[COUNTED]), store=self.spool), job.outputs)

    def keyed(self, events: records.PackedEvents) -> KeyedPart:
        """Keys packed events by what is tallied together: slot or period, shard and pane."""
        data = events.data if self.spool is None else records.EventBytes(self.spool.put(events.data))
        slot_s, shard = events.key
        if self.job.rules.need_whole_periods:
            return ((self.job.release.group(slot_s), shard), 0), (slot_s, data)  # 0: no panes
        return (events.key, events.pane_s if self.in_panes else 0), (slot_s, data)  # 0: no panes

    def by_slot(self, events: Iterable[tuple[int, records.EventBytes]]) -> dict[int, Iterator[bytes]]:
        """Groups packed events by slot. events: start, and events or their spool's reference."""
        packed_by_slot: dict[int, list[bytes]] = {}
        for slot_s, data in events:
            packed_by_slot.setdefault(slot_s, []).append(data)
        read = iter if self.spool is None else partial(map, self.spool.get)
        return {slot_s: read(packed) for slot_s, packed in packed_by_slot.items()}

    @property
    def in_panes(self) -> bool:
        """Whether slots are counted in panes."""
        return self.pane_s < self.job.slot_s and not self.job.rules.need_whole_periods


class _Tally(beam.DoFn):
    """DoFn from grouped events to tallies. Outputs: counted, facts; beats, heartbeats of panes' slots."""

    def __init__(self, bounded: Bounded) -> None:
        self._bounded, job = bounded, bounded.job
        fetch = None if bounded.spool is None else bounded.spool.get  # groups hold references to events in the spool
        self._in_panes = InPanes(job.release, fetch, may_be_late=False)  # no row of bounded input is late
        # In order, one worker releases whole periods, each of which it tallies by vehicle shard.
        self._by_vehicle = ByVehicle(job.release, fetch=fetch, in_order=job.release.draws_in_order)

    def process(self, group: Group) -> Iterator[records.KeyedTally | records.KeyedPartial | CountedFact | Beat]:
        """Tallies a group's events. Under NO_SLOT passes facts on, and makes heartbeats once."""
        # Keyed by start of the slot or period, vehicle shard and pane; each event with the start of its slot.
        (((start_s, shard), _pane_s), facts_or_events), job = group, self._bounded.job
        if start_s == NO_SLOT:
            for fact in facts_or_events:
                counted: CountedFact = TaggedOutput(COUNTED, fact)
                yield counted
            for beat in beats_of(job):
                tagged: Beat = TaggedOutput(BEATS, beat)
                yield tagged if self._bounded.in_panes else beat  # without panes beats join the main output, tallies
        elif job.rules.need_whole_periods:
            slots = self._bounded.by_slot(facts_or_events)
            for first_s, table in tasks.derived(slots, job.rules, job.ground, job.release, count):
                passed("counted", first_s)  # for the progress bar
                yield (first_s, shard), wire.pack_tally(table)
        elif self._bounded.in_panes:
            yield self._in_panes.tally((((start_s, shard), 0), [data for _, data in facts_or_events]))  # 0: unused pane
        else:
            yield from self._by_vehicle.tally(((start_s, shard), (data for _, data in facts_or_events)))


@dataclass(frozen=True)
class _Judged:
    """Runner that records units once the judge consents. counted: facts of the input."""

    bounded: Bounded
    counted: PCollection[KeyedFact]

    def recorded(self, drawn: DoOutputsTuple, job: Job) -> PCollection[records.RecordedSlot]:
        """Asks the judge for drawn units' debits, and records once it consents."""
        # `demand_fact` takes each statistic's share of a HAT's epsilon, to turn vehicles' HATs into spending.
        demand = beam.Map(judge.demand_fact, job.release.shares).with_output_types(KeyedFact)
        requests = drawn[records.DEMAND] | "by period, all" >> beam.GroupByKey() | "ask" >> demand  # debits by period
        facts = (self.counted, requests) | "facts" >> beam.Flatten()
        units = (drawn.units, self._consents(facts)) | "with consent" >> beam.Flatten()  # a consent is an empty unit
        return units | "record" >> Record(job.account, needs_consent=True, store=self.bounded.spool)

    def in_order(self, tallies: PCollection[records.KeyedTally], job: Job) -> PCollection[records.SlotEstimates]:
        both = tallies, self._consents(self.counted)
        return both | "in order" >> ReleaseInOrder(job.account, job.release, self.bounded.spool)

    def _consents(self, facts: PCollection[KeyedFact]) -> PCollection[records.KeyedUnit]:
        """Makes consents by transaction once the judge agrees to all facts."""
        job, needed = self.bounded.job, self.bounded.needed
        periods = job.periods if job.transaction == "period" else ("",)  # "": one consent for the whole job
        consents = beam.FlatMap(judge.consents, job.account, len(self.bounded.paths), periods, needed)
        return facts | "all facts" >> beam.GroupByKey() | "judge" >> consents.with_output_types(records.KeyedUnit)


def pane_length(rows: int | None, slots: int, slot_s: int) -> int:
    """Finds a pane's length, s, that divides a slot and holds about PANE_ROWS."""
    if rows is None:  # their number is unknown
        return PANE_S
    panes = max(1, -(-rows // (max(1, slots) * PANE_ROWS)))  # that a slot of average size needs, rounded up
    most_panes = slot_s // PANE_S  # panes of a slot, the shortest of which are PANE_S long
    lengths = (length for length in range(1, most_panes + 1) if most_panes % length == 0)  # as multiples of PANE_S
    return PANE_S * max(length for length in lengths if length == 1 or length * panes <= most_panes)


def run(job: Job, paths: Sequence[str], needed: Needed, engine: BoundedEngine, progress: Report) -> Outcome:
    """Releases a job's slots, unless the account refuses known debits. Raises StepError or EngineError."""
    requested = debits_of_job(job)
    if requested.periods_refused:
        return requested
    slots_before = _recorded_slots(job)
    outcome = outcome_of(finished_job(job, paths, needed, engine, progress))
    outcome.debits |= requested.debits
    progress(READ, outcome.rows, outcome.rows)
    # New units by the ledger, as a retried step counts none as new; unless another run recorded some (units_changed).
    if outcome.units_changed == 0:
        outcome.new = dict(Counter(job.slots[slot_s].period for slot_s, _ in _recorded_slots(job) - slots_before))
    if outcome.units_lost_to_the_limit and job.release.draws_in_order:  # another process spent the budget meanwhile
        outcome.periods_refused = debits_of_job(job).periods_refused
    elif outcome.units_lost_to_the_limit:  # debits rested on counts that are gone: periods that lack slots were refused
        recorded = {slot_s for slot_s, _ in _recorded_slots(job)}
        lacking = {facts.period for slot_s, facts in job.slots.items() if slot_s not in recorded}
        outcome.periods_refused = [period for period in outcome.debits if period in lacking]
    return outcome


def finished_job(job: Job, paths: Sequence[str], needed: Needed, engine: BoundedEngine, progress: Report) -> Finished:
    """Runs the job to its end, in this process or on the engine's workers."""
    name, rows = f"hatstream-release-{job.account.spec_name}-{time.time_ns()}", estimate_rows(paths)
    if engine.is_here:
        with Spool() as spool, report_steps(job, rows, progress):
            build = bounded_here(job, paths, rows, needed, spool).build
            return engine.run(build, name, lambda _: None)  # `report_steps` reports more than counters would
    shards = 2 * engine.parallelism  # so that a worker that is done early takes another
    pane_s = pane_length(rows, shards * len(job.slots), job.slot_s)
    bounded = Bounded(replace(job, vehicle_shards=shards), paths, needed, pane_s)
    return engine.run(bounded.build, name, lambda counts: progress(READ, counts.get(counters.ROWS, 0), rows))


def bounded_here(job: Job, paths: Sequence[str], rows: int | None, needed: Needed, spool: Spool) -> Bounded:
    """Builds the job for this process; vehicle shards bound the memory of periods."""
    shards = 1
    if job.release.draws_in_order:  # it tallies whole periods at once, each vehicle shard by itself
        shards = UNSIZED_SHARDS if rows is None else max(1, rows // (PART_ROWS * max(1, len(job.periods))))
    pane_s = pane_length(rows, shards * len(job.slots), job.slot_s)
    # "range": all periods are recorded in one transaction, or none.
    return Bounded(replace(job, vehicle_shards=shards, transaction="range"), paths, needed, pane_s, spool)


@contextmanager
def report_steps(job: Job, input_rows: int | None, progress: Report) -> Iterator[None]:
    """Reports progress of the local steps within the block. input_rows: if known."""
    slots, periods = len(job.slots), len(job.periods)
    phases: Mapping[Phase, tuple[str, int]] = {  # title, and number of items
        "counted": ("days counted", periods) if job.rules.need_whole_periods else ("slots counted", slots),
        "drawn": ("slots released", slots),
        "recorded": ("periods recorded and published", periods),
    }
    rows, finished = 0, dict[str, set[int | str]]()  # finished items by title

    def listen(phase: Phase, item: int | str) -> None:
        """Notes an item: a number of rows read, else a slot or period done."""
        nonlocal rows
        if phase == "read":
            rows += int(item)
            progress(READ, rows, input_rows)
            return
        title, total = phases[phase]
        if not finished:
            progress(READ, rows, rows)  # a first later step: all is read
        elif title not in finished:  # completes the phase before, in which slots without events have no step
            former = next(reversed(finished))
            progress(former, dict(phases.values())[former], dict(phases.values())[former])
        finished.setdefault(title, set()).add(item)
        progress(title, len(finished[title]), total)

    with report_to(listen):
        yield


def outcome_of(finished: Finished) -> Outcome:
    """Returns the judge's outcome, with counts of later steps. Raises EngineError or StepError."""
    verdicts = finished.texts.get(VERDICT, frozenset())
    if not verdicts:
        raise EngineError("the job came to no verdict: do its workers run the same version?")
    verdict = decode_verdict(next(iter(verdicts)))  # there is one, but for a retried step
    if verdict.read_error:
        raise StepError(verdict.read_error)
    outcome = verdict.outcome
    judged = {counters.ROWS, *(counters.REFUSED + reason for reason in outcome.refused)}  # counters in the verdict
    count_in(outcome, {name: count for name, count in finished.counts.items() if name not in judged})
    return outcome


def _recorded_slots(job: Job) -> set[tuple[int, int]]:
    account, from_s, to_s = job.account, min(job.slots, default=0), max(job.slots, default=0) + 1
    return account.open().recorded_slots(account.name, job.release.spec_id, from_s, to_s)


def debits_of_job(job: Job) -> Outcome:
    """Returns input-independent debits by period, and the periods that the account refuses."""
    wanted = job.release.claims(History(job.account))
    if wanted is None:  # debits depend on the input
        return Outcome()
    return Outcome(
        debits={period: Accountant().compose(debit.claim for debit in debits) for period, debits in wanted.items()},
        periods_refused=job.account.open().excess(job.account.name, job.account.limit, wanted),
    )
