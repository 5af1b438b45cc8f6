"""Steps of a closed range of whole periods: speeds derived from positions, and periods released one after another."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from transforms import counters, wire
from transforms.count.derived import derived_tallies
from transforms.failpoints import failpoint
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.parse import Rules
from transforms.records import (
    EventBytes,
    KeyedTally,
    KeyedUnit,
    PackedEvents,
    SlotEstimates,
    SlotShard,
    TallyBytes,
)
from transforms.releases.base import Release, Stopped
from transforms.releases.periods.stages import COLUMNS
from transforms.releases.slots import SlotFacts
from transforms.steps.periods import count_stopped, released

KeyedSlot = tuple[SlotShard, tuple[int, EventBytes]]
"""By the first slot of a period and vehicle shard: a slot, and packed Events of it."""
PartOfAll = tuple[int, tuple[int, TallyBytes]]
"""One key; the first slot of a period and a part of its tally."""
_CONSENT_S = -1
"""Stands in the place of a first slot."""


@dataclass
class DeriveSpeeds(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedTally]]):
    """Events of whole periods -> ((first slot, 0), packed Tally), with the speeds that consecutive positions give."""

    rules: Rules
    slots: Mapping[int, SlotFacts]

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedTally]:
        keyed = events | "by period" >> beam.Map(_by_period, self.slots).with_output_types(KeyedSlot)
        grouped = keyed | "group" >> beam.GroupByKey()
        tallies: PCollection[KeyedTally] = grouped | "tally" >> beam.ParDo(_DeriveSpeeds(self.rules)).with_output_types(
            KeyedTally
        )
        return tallies


class _DeriveSpeeds(beam.DoFn):
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def process(self, group: tuple[SlotShard, Iterable[tuple[int, EventBytes]]]) -> Iterator[KeyedTally]:
        (first_s, _), parts = group
        of_slots: dict[int, list[EventBytes]] = {}
        for slot_s, data in parts:
            of_slots.setdefault(slot_s, []).append(data)
        slots = {slot_s: wire.unpack_events(of_slots[slot_s]) for slot_s in sorted(of_slots)}
        found = derived_tallies(slots, self._rules, COLUMNS)
        Metrics.counter(counters.NAMESPACE, counters.DUPLICATES).inc(found.duplicates)
        for reason, rows in found.without.items():
            Metrics.counter(counters.NAMESPACE, counters.refused("derive", reason)).inc(rows)
        failpoint("tally")
        yield from (((first_s, 0), wire.pack_tally(table)) for table in found.tallies)


def _by_period(packed: PackedEvents, slots: Mapping[int, SlotFacts]) -> KeyedSlot:
    slot_s, shard = packed.key
    return (slots[slot_s].plan[0], shard), (slot_s, packed.data)


@dataclass
class ReleaseInOrder(
    beam.PTransform[tuple[PCollection[KeyedTally], PCollection[KeyedUnit]], PCollection[SlotEstimates]]
):
    """As `ReleasePeriod`, of all periods of a closed range, and only where there is a consent.

    One worker does it, the oldest period first: each rests on those that were recorded before it.
    """

    account: LedgerAccount
    release: Release

    def expand(self, both: tuple[PCollection[KeyedTally], PCollection[KeyedUnit]]) -> PCollection[SlotEstimates]:
        tallies, consents = both
        parts = (
            tallies | "tallies" >> beam.Map(_of_all).with_output_types(PartOfAll),
            consents | "consents" >> beam.Map(_consent_to_all).with_output_types(PartOfAll),
        )
        grouped = parts | "flatten" >> beam.Flatten() | "group" >> beam.GroupByKey()
        estimates: PCollection[SlotEstimates] = grouped | "release" >> beam.ParDo(_ReleaseInOrder(self))
        return estimates


class _ReleaseInOrder(beam.DoFn):
    def __init__(self, of: ReleaseInOrder) -> None:
        self._account, self._release = of.account, of.release

    def process(self, group: tuple[int, Iterable[tuple[int, TallyBytes]]]) -> Iterator[SlotEstimates]:
        periods: dict[int, list[TallyBytes]] = {}
        for first_s, part in group[1]:
            periods.setdefault(first_s, []).append(part)
        if not periods.pop(_CONSENT_S, None):
            return
        try:
            for first_s in sorted(periods):
                yield from released(first_s, periods[first_s], self._account, self._release)
        except Stopped as stopped:
            count_stopped(stopped)


def _of_all(tally: KeyedTally) -> PartOfAll:
    (first_s, _), data = tally
    return 0, (first_s, data)


def _consent_to_all(_consent: KeyedUnit) -> PartOfAll:
    return 0, (_CONSENT_S, TallyBytes(b""))
