"""A scheduled job as one bounded pipeline on an engine: read in pieces, counted, judged, and only then recorded.

    pieces -> read -> parse -> assign -> panes -> by vehicle -> by hexagon -+-> record -> estimate -> publish
                         |                                                  |      ^
                         +--- counts, unreadable files ---> judge <--- what is asked and spent
                                                              +---- consent -------+

Counts go to the judge by the group-by of events, see NO_SLOT. Whatever an engine does twice, the ledger keeps what it
recorded first.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import apache_beam as beam
import msgspec
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from pipelines.build import PANE_S, HexagonOutputs, beats_of, observe, publish, road
from pipelines.job import Job
from pipelines.runs.beam import judge
from pipelines.runs.beam.judge import Judge, KeyedFact
from pipelines.runs.crew.crew import pieces_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.crew.tasks import EXPOSED, SEALED, unreadable
from pipelines.runs.period_demand import asked_of
from transforms import counters, tasks
from transforms.errors import StepError
from transforms.layouts.base import Layout, RawBatch, Share, UnreadableFile
from transforms.recorded.codec import Spending
from transforms.records import (
    REFUSED,
    EventBytes,
    ExposureBytes,
    KeyedPartial,
    KeyedTally,
    KeyedUnit,
    PackedEvents,
    PaneShard,
    RecordedSlot,
    Refused,
    SlotEstimates,
    SlotShard,
)
from transforms.steps.count import ByVehicle, InPanes
from transforms.steps.observe import counted
from transforms.steps.range import Derive, ReleaseInOrder
from transforms.steps.release import Record
from transforms.steps.side_outputs import Parting, Refusal

UNREADABLE: Final = "unreadable"
COUNTED: Final = "counted"
NO_SLOT: Final = -1
"""Stands in the place of a slot where facts go to the verdict by the group-by of events: a second output of the step
that reads would have Flink write and read all of the first one once more."""
PANE_ROWS = 500_000
"""Of events in a group: so many are counted at a time."""

Piece = tuple[bytes, int, int]
"""A file as the file system names it, and the number of one of so many shares of it."""
Unread = TaggedOutput[Literal["unreadable"], tuple[str, int]]
CountedFact = TaggedOutput[Literal["counted"], tuple[int, bytes]]
KeyedPart = tuple[PaneShard, tuple[int, EventBytes]]
"""A slot and packed `Events` of it, by what is tallied together; or by NO_SLOT a `KeyedFact`."""
Group = tuple[PaneShard, Iterable[tuple[int, EventBytes]]]
KeyedDemand = tuple[str, tuple[SlotShard, bytes]]
"""By period: (slot, SEALED or EXPOSED) and the encoded Spending or Exposure."""


@dataclass(frozen=True)
class Bounded:
    """All that such a job is made of. needed: see `verdict_on`.

    pane_s: length of the panes in which slots are counted: each is a group of its own, and costs a millisecond; where
    it is a slot, slots are counted at once. kept: where all steps run in this process, what holds the events that are
    grouped, in a file; else they are shuffled.
    """

    job: Job
    paths: Sequence[str]
    needed: Sequence[str] | None
    pane_s: int = PANE_S
    kept: Spool | None = None

    def build(self, p: beam.Pipeline) -> None:
        job = self.job
        begin = p | "begin" >> beam.Impulse()  # one for all that is known beforehand: each is a stage of its own
        named = [(os.fsencode(piece.path), *piece.share) for piece in pieces_of(job.layout, self.paths)]
        pieces = begin | "pieces" >> Known(named)
        read = pieces | "read" >> ReadPieces(job.layout, skips_unreadable=job.skips_unreadable)  # RawBatch
        observed = observe(read, job, self.pane_s, dense=self.kept is None)
        counted = _counted(read, observed.refused, observed.events, job)
        keyed = observed.events | "by vehicle" >> beam.Map(self.keyed).with_output_types(KeyedPart)
        grouped = (keyed, counted) | "with counts" >> beam.Flatten() | "group" >> beam.GroupByKey()
        apart = grouped | "apart" >> beam.FlatMap(_apart).with_outputs(COUNTED, main="groups")
        publish(road(observed.events, job, _OnEngine(self, begin, apart.groups, apart[COUNTED])), job.outputs)

    def keyed(self, packed: PackedEvents) -> KeyedPart:
        """Gives packed events the key of what is tallied together: a pane, a slot, or a whole period."""
        slot_s, shard = packed.key
        data = packed.data if self.kept is None else EventBytes(self.kept.put(packed.data))
        if self.job.rules.need_whole_periods:
            return ((self.job.release.group(slot_s), shard), 0), (slot_s, data)
        return (packed.key, packed.pane_s if self.in_panes else 0), (slot_s, data)

    @property
    def in_panes(self) -> bool:
        return self.pane_s < self.job.slot_s


@dataclass
class Known(beam.PTransform[PCollection[bytes], PCollection[Piece]]):
    """An impulse -> the pieces of an input, each to whichever worker is free."""

    pieces: Sequence[Piece]

    def expand(self, begin: PCollection[bytes]) -> PCollection[Piece]:
        pieces = begin | "list" >> beam.FlatMap(lambda _: self.pieces).with_output_types(Piece)
        return pieces | "spread" >> beam.Reshuffle() if len(self.pieces) > 1 else pieces


@dataclass(frozen=True)
class _OnEngine:
    """The runner of a bounded job: what is drawn of it is recorded only with a consent. begin: an impulse. groups:
    events of `KeyedPart`, grouped. counted: see `_counted`."""

    of: Bounded
    begin: PCollection[bytes]
    groups: PCollection[Group]
    counted: PCollection[KeyedFact]

    def tallies(self, events: PCollection[PackedEvents], job: Job) -> PCollection[KeyedTally]:  # noqa: ARG002 - grouped
        fetch = None if self.of.kept is None else self.of.kept.get
        if job.rules.need_whole_periods:
            derive = Derive(job.rules, job.ground, job.release)
            slots = self.groups | "tally" >> beam.FlatMap(_derived, derive, fetch).with_output_types(KeyedTally)
        elif self.of.in_panes:
            in_panes = InPanes(job.release, fetch, may_be_late=False)
            panes = self.groups | "tally panes" >> beam.Map(_in_pane, in_panes).with_output_types(KeyedPartial)
            slots = panes | "by slot" >> ByVehicle(job.release, in_panes=True)
        else:
            by_vehicle = ByVehicle(job.release, fetch=fetch)
            slots = self.groups | "tally" >> beam.FlatMap(_in_slot, by_vehicle).with_output_types(KeyedTally)
        beats = self.begin | "heartbeat" >> beam.FlatMap(lambda _: beats_of(job)).with_output_types(KeyedTally)
        return (slots, beats) | "with heartbeat" >> beam.Flatten()

    def recorded(self, drawn: HexagonOutputs, job: Job) -> PCollection[RecordedSlot]:
        both = (drawn.sealed, self._consents(_demand(drawn, job))) | "with consent" >> beam.Flatten()
        return both | "record" >> Record(job.account, needs_consent=True)

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        create = beam.Create([judge.of_counts({})], reshuffle=False).with_output_types(KeyedFact)
        consents = self._consents(tallies.pipeline | "a fact" >> create)
        return (tallies, consents) | "in order" >> ReleaseInOrder(job.account, job.release)

    def _consents(self, asked: PCollection[KeyedFact]) -> PCollection[KeyedUnit]:
        facts, of = (self.counted, asked) | "facts" >> beam.Flatten(), self.of
        needed = None if of.needed is None else tuple(of.needed)
        return facts | "judge" >> Judge(of.job.account, len(of.paths), of.job.periods, needed)


def _demand(drawn: HexagonOutputs, job: Job) -> PCollection[KeyedFact]:
    """Adds up what drawn units ask of the account, and what vehicles spend in them, a fact a period."""
    spending = drawn.sealed | "what units spend" >> beam.Map(_spending).with_output_types(KeyedDemand)
    exposures = drawn.exposure | "by period" >> beam.Map(_exposed, job).with_output_types(KeyedDemand)
    parts = (spending, exposures) | "of periods" >> beam.Flatten() | "by period, all" >> beam.GroupByKey()
    asked: PCollection[KeyedFact] = parts | "ask" >> beam.Map(_asked, job.release.shares).with_output_types(KeyedFact)
    return asked


def pane_length(rows: int | None, slots: int, slot_s: int) -> int:
    """Finds the longest panes, in seconds, that divide a slot and hold about PANE_ROWS rows at most, where these are
    spread evenly over so many slots, or shards of them. rows: None: nobody knows."""
    if rows is None:
        return PANE_S
    parts = max(1, -(-rows // (max(1, slots) * PANE_ROWS)))
    minutes = slot_s // PANE_S
    lengths = (length for length in range(1, minutes + 1) if minutes % length == 0)
    return PANE_S * max(length for length in lengths if length == 1 or length * parts <= minutes)


@dataclass
class ReadPieces(Parting[PCollection[Piece]]):
    """Shares of files -> main: RawBatch; refused: Refused; unreadable: a count, whose name says why a file is not."""

    layout: Layout
    skips_unreadable: bool

    def expand(self, pieces: PCollection[Piece]) -> DoOutputsTuple:
        fn = beam.ParDo(_ReadPieces(self.layout, skips_unreadable=self.skips_unreadable))
        read: DoOutputsTuple = pieces | "read pieces" >> fn.with_outputs(REFUSED, UNREADABLE, main="batches")
        return read


class _ReadPieces(beam.DoFn):
    """A file that cannot be read is told, not raised: what an engine would try again and again is the verdict's."""

    def __init__(self, layout: Layout, *, skips_unreadable: bool) -> None:
        self._layout, self._skips = layout, skips_unreadable

    def process(self, piece: Piece) -> Iterator[RawBatch | Refusal | Unread]:
        path, *share = piece
        try:
            yield from counted(tasks.read(self._layout, os.fsdecode(path), Share(*share)))
        except (UnreadableFile, StepError) as error:
            is_left_out = self._skips and isinstance(error, UnreadableFile)
            counts = unreadable(error) if is_left_out else {f"{judge.UNREADABLE}{error}": 1}
            for named in counts.items():
                unread: Unread = TaggedOutput(UNREADABLE, named)
                yield unread


def _counted(
    read: DoOutputsTuple, refused: PCollection[Refused], events: PCollection[PackedEvents], job: Job
) -> PCollection[KeyedPart]:
    """Counts what the verdict must know of the input, a bundle at a time, as facts in the place of events: see
    NO_SLOT."""
    named = (
        read.batches | "rows" >> beam.Map(lambda batch: (counters.ROWS, batch.rows)),
        read[UNREADABLE],
        refused
        | "refused" >> beam.Map(lambda refusal: (counters.refused(refusal.stage, refusal.reason), refusal.rows)),
        events | "observed" >> beam.Map(_of_period, job),
    )
    flat = named | "counts" >> beam.Flatten()
    facts: PCollection[KeyedPart] = flat | "add up" >> beam.ParDo(_AddUp()).with_output_types(KeyedPart)
    return facts


class _AddUp(beam.DoFn):
    """(name, number) -> one fact of a bundle, by NO_SLOT."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def start_bundle(self) -> None:
        self._counts = Counter[str]()

    def process(self, named: tuple[str, int]) -> None:
        self._counts[named[0]] += named[1]

    def finish_bundle(self) -> Iterator[Any]:
        if self._counts:
            fact = ((NO_SLOT, 0), 0), judge.of_counts(self._counts)
            yield WindowedValue(fact, MIN_TIMESTAMP, (GlobalWindow(),))


def _of_period(packed: PackedEvents, job: Job) -> tuple[str, int]:
    return judge.OF_PERIOD + job.slots[packed.key[0]].period, packed.rows


def _apart(group: Group) -> Iterator[Group | CountedFact]:
    """Parts groups of events from the facts that came with them."""
    ((slot_s, _), _), parts = group
    if slot_s != NO_SLOT:
        yield group
        return
    for fact in parts:
        counted: CountedFact = TaggedOutput(COUNTED, fact)
        yield counted


def _in_slot(group: Group, by_vehicle: ByVehicle) -> Iterator[KeyedTally]:
    (key, _), parts = group
    return by_vehicle.tally((key, (data for _, data in parts)))


def _in_pane(group: Group, in_panes: InPanes) -> KeyedPartial:
    """Counts a pane, a part of the key: in a bounded pipeline nothing waits for a watermark, and nothing is late."""
    key, parts = group
    return in_panes.tally((key, [data for _, data in parts]))


def _derived(group: Group, derive: Derive, fetch: Callable[[bytes], bytes] | None) -> Iterator[KeyedTally]:
    _, parts = group
    return derive.tally((slot_s, data if fetch is None else EventBytes(fetch(data))) for slot_s, data in parts)


def _spending(unit: KeyedUnit) -> KeyedDemand:
    period, data = unit
    spending = msgspec.json.decode(data, type=Spending)
    return period, ((spending.slot_s, SEALED), msgspec.json.encode(spending))


def _exposed(exposure: tuple[int, ExposureBytes], job: Job) -> KeyedDemand:
    slot_s, data = exposure
    return job.slots[slot_s].period, ((slot_s, EXPOSED), data)


def _asked(group: tuple[str, Iterable[tuple[SlotShard, bytes]]], shares: tuple[Fraction, ...]) -> KeyedFact:
    period, parts = group
    sealed: list[bytes] = []
    exposures: dict[int, list[bytes]] = {}
    for (slot_s, kind), data in parts:
        (sealed if kind == SEALED else exposures.setdefault(slot_s, [])).append(data)
    return judge.of_asked(period, asked_of(sealed, lambda slot_s: exposures.get(slot_s, []), shares))
