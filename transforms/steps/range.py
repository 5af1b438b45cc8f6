"""Steps of a closed range of whole periods: what consecutive positions give, and periods released one after another."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms import tasks, wire
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.parse import Rules
from transforms.places.ground import Ground
from transforms.records import (
    EventBytes,
    KeyedTally,
    KeyedUnit,
    SlotEstimates,
    TallyBytes,
)
from transforms.releases.base import ReleaseKind, Tallies
from transforms.steps.metrics import count

PartOfAll = tuple[int, tuple[int, TallyBytes]]
"""One key; the first slot of a period and a part of its tally."""
_CONSENT_S = -1
"""Stands in the place of a first slot."""


@dataclass(frozen=True)
class Derive:
    """Events of whole periods -> ((first slot, 0), packed Tally), with what consecutive positions give."""

    rules: Rules
    ground: Ground
    release: ReleaseKind

    def tally(self, parts: Iterable[tuple[int, EventBytes]]) -> Iterator[KeyedTally]:
        """Tallies what the vehicles of a shard did in a period. parts: each with its slot."""
        of_slots: dict[int, list[EventBytes]] = {}
        for slot_s, data in parts:
            of_slots.setdefault(slot_s, []).append(data)
        for plan_s, table in tasks.derived(of_slots, self.rules, self.ground, self.release, count):
            yield (plan_s, 0), wire.pack_tally(table)


@dataclass
class ReleaseInOrder(
    beam.PTransform[tuple[PCollection[KeyedTally], PCollection[KeyedUnit]], PCollection[SlotEstimates]]
):
    """Releases as `ReleasePeriod` does, but all periods of a closed range, and only where there is a consent.

    One worker does it, the oldest period first: each rests on those that were recorded before it.
    """

    account: LedgerAccount
    release: ReleaseKind

    def expand(self, both: tuple[PCollection[KeyedTally], PCollection[KeyedUnit]]) -> PCollection[SlotEstimates]:
        tallies, consents = both
        parts = (
            tallies | "tallies" >> beam.Map(_of_all).with_output_types(PartOfAll),
            consents | "consents" >> beam.Map(_consent_to_all).with_output_types(PartOfAll),
        )
        grouped = parts | "flatten" >> beam.Flatten() | "group" >> beam.GroupByKey()
        return grouped | "release" >> beam.FlatMap(self._released)

    def _released(self, group: tuple[int, Iterable[tuple[int, TallyBytes]]]) -> Iterator[SlotEstimates]:
        periods: dict[int, list[TallyBytes]] = {}
        for first_s, part in group[1]:
            periods.setdefault(first_s, []).append(part)
        if not periods.pop(_CONSENT_S, None):
            return
        groups = (((first_s, 0), self._tallies(periods[first_s])) for first_s in sorted(periods))
        yield from tasks.released(groups, self.release, self.account, count)

    def _tallies(self, parts: Sequence[TallyBytes]) -> Tallies:
        table = wire.unpack_tally(filter(None, parts), self.release.columns)
        return lambda: [table]


def _of_all(tally: KeyedTally) -> PartOfAll:
    (first_s, _), data = tally
    return 0, (first_s, data)


def _consent_to_all(_consent: KeyedUnit) -> PartOfAll:
    return 0, (_CONSENT_S, TallyBytes(b""))
