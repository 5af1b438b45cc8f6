"""A scheduled job as one bounded pipeline: read in pieces, counted, judged, and only then recorded.

    pieces -> observe -> by vehicle -+-> by hexagon -+-> record -> estimate -> publish
                                     |               |     ^
                          counts,    |               +-> what is asked and spent -> judge
                          unreadable +-----------------------------------------------^

Few steps, for each costs a runner some hundredths of a second. Counts go to the judge by the group-by of events, see
NO_SLOT. Whatever an engine does twice, the ledger keeps what it recorded first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from pipelines.build import PANE_S, HexagonOutputs, beats_of, publish, road
from pipelines.job import Job
from pipelines.runs.beam import judge
from pipelines.runs.beam.judge import Judge, KeyedFact
from pipelines.runs.beam.reading import NO_SLOT, KeyedPart, Observe
from pipelines.runs.input_size import Piece, pieces_of
from pipelines.runs.period_demand import asked_of
from pipelines.runs.spool import Spool
from transforms.records import (
    SEALED,
    EventBytes,
    KeyedPartial,
    KeyedTally,
    KeyedUnit,
    PaneShard,
    RecordedSlot,
    SlotEstimates,
    SlotShard,
)
from transforms.steps.count import ByVehicle, InPanes
from transforms.steps.periods import Derive, ReleaseInOrder
from transforms.steps.release import Record
from transforms.wire import WirePart

COUNTED: Final = "counted"
BEATS: Final = "beats"
PANE_ROWS = 1_000_000
"""Of events in a group: so many are counted at a time."""

CountedFact = TaggedOutput[Literal["counted"], KeyedFact]
Beat = TaggedOutput[Literal["beats"], KeyedTally]
Group = tuple[PaneShard, Iterable[tuple[int, EventBytes]]]


@dataclass(frozen=True)
class Bounded:
    """All that such a job is made of. needed: see `verdict_on`.

    pane_s: length of the panes in which slots are counted: each is a group of its own, and costs a millisecond; where
    it is a slot, slots are counted at once. kept: where all steps run in this process, what holds the events that are
    grouped, in a file; else they are shuffled. spells: whether `kept` takes the spellings of vehicle ids too.
    """

    job: Job
    paths: Sequence[str]
    needed: Sequence[str] | None
    pane_s: int = PANE_S
    kept: Spool | None = None
    spells: bool = False

    def build(self, p: beam.Pipeline) -> None:
        job = self.job
        tallied = self.grouped(p) | "tally" >> beam.ParDo(_Tally(self)).with_outputs(COUNTED, BEATS, main="tallies")
        tallies = tallied.tallies
        if self.in_panes:
            keeps_shard = job.release.in_order
            slots = tallies | "by slot" >> ByVehicle(job.release, in_panes=True, keeps_shard=keeps_shard)
            tallies = (slots, tallied[BEATS]) | "with heartbeat" >> beam.Flatten()
        publish(road(tallies, job, _Judged(self, tallied[COUNTED]), kept=self.kept), job.outputs)

    def grouped(self, p: beam.Pipeline) -> PCollection[Group]:
        """Reads the input, and groups events by what is tallied together; by NO_SLOT the facts that were counted."""
        pieces = p | "pieces" >> ListPieces(pieces_of(self.job.layout, self.paths), is_one=self.kept is not None)
        spelled = self.kept if self.spells else None
        observe = Observe(self.job, self.pane_s, self.keyed, dense=self.kept is None, spelled=spelled)
        return pieces | "observe" >> beam.ParDo(observe) | "group" >> beam.GroupByKey()

    def keyed(self, part: WirePart) -> KeyedPart:
        """Gives packed events the key of what is tallied together: a pane, a slot, or a whole period."""
        data = part.data if self.kept is None else EventBytes(self.kept.put(part.data))
        if self.job.rules.need_whole_periods:
            return ((self.job.release.group(part.slot_s), part.shard), 0), (part.slot_s, data)
        return ((part.slot_s, part.shard), part.pane_s if self.in_panes else 0), (part.slot_s, data)

    def by_slot(self, parts: Iterable[tuple[int, EventBytes]]) -> dict[int, Iterator[bytes]]:
        """Lists packed events by slot, to be read when they are needed."""
        slots: dict[int, list[bytes]] = {}
        for slot_s, data in parts:
            slots.setdefault(slot_s, []).append(data)
        return {slot_s: iter(some) if self.kept is None else map(self.kept.get, some) for slot_s, some in slots.items()}

    @property
    def in_panes(self) -> bool:
        return self.pane_s < self.job.slot_s and not self.job.rules.need_whole_periods


@dataclass
class ListPieces(beam.PTransform[beam.Pipeline, PCollection[Sequence[Piece]]]):
    """The pieces of an input, each for whichever worker is free. is_one: there is one, who has all."""

    pieces: Sequence[Piece]
    is_one: bool

    def expand(self, begin: beam.Pipeline) -> PCollection[Sequence[Piece]]:
        bundles = [self.pieces] if self.is_one or not self.pieces else [[piece] for piece in self.pieces]
        pieces = begin | beam.Impulse() | "list" >> beam.FlatMap(lambda _: bundles).with_output_types(Sequence[Piece])
        return pieces | "spread" >> beam.Reshuffle() if len(bundles) > 1 else pieces


class _Tally(beam.DoFn):
    """Grouped events -> main: their tallies, and a heartbeat of every plan and shard; counted: the facts among them.

    In panes the tallies are partial, and the heartbeats an output of their own.
    """

    def __init__(self, of: Bounded) -> None:
        self._of, job = of, of.job
        fetch = None if of.kept is None else of.kept.get
        self._derive = Derive(job.rules, job.ground, job.release)
        self._in_panes = InPanes(job.release, fetch, may_be_late=False)
        self._by_vehicle = ByVehicle(job.release, fetch=fetch, keeps_shard=job.release.in_order)

    def process(self, group: Group) -> Iterator[KeyedTally | KeyedPartial | CountedFact | Beat]:
        (key, _), parts = group
        if key[0] == NO_SLOT:
            for fact in parts:
                counted: CountedFact = TaggedOutput(COUNTED, fact)
                yield counted
            for beat in beats_of(self._of.job):
                apart: Beat = TaggedOutput(BEATS, beat)
                yield apart if self._of.in_panes else beat
        elif self._of.job.rules.need_whole_periods:
            yield from self._derive.tally(key[1], self._of.by_slot(parts))
        elif self._of.in_panes:
            yield self._in_panes.tally(((key, 0), [data for _, data in parts]))
        else:
            yield from self._by_vehicle.tally((key, (data for _, data in parts)))


@dataclass(frozen=True)
class _Judged:
    """The runner of a bounded job: what is drawn of it is recorded only with a consent. counted: of the input."""

    of: Bounded
    counted: PCollection[KeyedFact]

    def recorded(self, drawn: HexagonOutputs, job: Job) -> PCollection[RecordedSlot]:
        parts = drawn.demand | "by period, all" >> beam.GroupByKey()
        asked = parts | "ask" >> beam.Map(_asked, job.release.shares).with_output_types(KeyedFact)
        facts = (self.counted, asked) | "facts" >> beam.Flatten()
        both = (drawn.sealed, self._consents(facts)) | "with consent" >> beam.Flatten()
        return both | "record" >> Record(job.account, needs_consent=True, kept=self.of.kept)

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        both = tallies, self._consents(self.counted)
        return both | "in order" >> ReleaseInOrder(job.account, job.release, self.of.kept)

    def _consents(self, facts: PCollection[KeyedFact]) -> PCollection[KeyedUnit]:
        of = self.of
        needed = None if of.needed is None else tuple(of.needed)
        keys = of.job.periods if of.job.transaction == "period" else ("",)
        return facts | "judge" >> Judge(of.job.account, len(of.paths), keys, needed)


def pane_length(rows: int | None, slots: int, slot_s: int) -> int:
    """Finds the longest panes, in seconds, that divide a slot and hold about PANE_ROWS rows at most, where these are
    spread evenly over so many slots, or shards of them. rows: None: nobody knows."""
    if rows is None:
        return PANE_S
    parts = max(1, -(-rows // (max(1, slots) * PANE_ROWS)))
    minutes = slot_s // PANE_S
    lengths = (length for length in range(1, minutes + 1) if minutes % length == 0)
    return PANE_S * max(length for length in lengths if length == 1 or length * parts <= minutes)


def _asked(group: tuple[str, Iterable[tuple[SlotShard, bytes]]], shares: tuple[Fraction, ...]) -> KeyedFact:
    period, parts = group
    sealed: list[bytes] = []
    exposures: dict[int, list[bytes]] = {}
    for (slot_s, kind), data in parts:
        (sealed if kind == SEALED else exposures.setdefault(slot_s, [])).append(data)
    return judge.of_asked(period, asked_of(sealed, lambda slot_s: exposures.get(slot_s, []), shares))
