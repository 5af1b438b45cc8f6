"""Steps of a closed range of whole periods: what consecutive positions give, and periods released one after another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms import tasks, wire
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.parse import Rules
from transforms.places.ground import Ground
from transforms.records import (
    KeyedTally,
    KeyedUnit,
    SlotEstimates,
    SlotShard,
)
from transforms.releases.base import ReleaseKind
from transforms.steps.metrics import count, passed
from transforms.steps.shelf import Shelf

PartOfAll = tuple[int, tuple[SlotShard, bytes]]
"""One key; the first slot of a period, a shard of its vehicles, and a part of their tally, or what fetches it."""
_CONSENT_S = -1
"""Stands in the place of a first slot."""


@dataclass(frozen=True)
class Derive:
    """Events of whole periods -> ((first slot, vehicle shard), packed Tally), with what consecutive positions give."""

    rules: Rules
    ground: Ground
    release: ReleaseKind

    def tally(self, shard: int, slots: Mapping[int, Iterable[bytes]]) -> Iterator[KeyedTally]:
        """Tallies what the vehicles of a shard did in a period. slots: packed events of each."""
        for plan_s, table in tasks.derived(slots, self.rules, self.ground, self.release, count):
            passed("counted", plan_s)
            yield (plan_s, shard), wire.pack_tally(table)


@dataclass
class ReleaseInOrder(
    beam.PTransform[tuple[PCollection[KeyedTally], PCollection[KeyedUnit]], PCollection[SlotEstimates]]
):
    """Releases as `ReleasePeriod` does, but all periods of a closed range, and only where there is a consent.

    One worker does it, the oldest period first: each rests on those that were recorded before it. kept: holds the
    tallies meanwhile, in a file; else they are grouped themselves. Shards are read one after another.
    """

    account: LedgerAccount
    release: ReleaseKind
    kept: Shelf | None = None

    def expand(self, both: tuple[PCollection[KeyedTally], PCollection[KeyedUnit]]) -> PCollection[SlotEstimates]:
        tallies, consents = both
        parts = (
            tallies | "tallies" >> beam.Map(self._of_all).with_output_types(PartOfAll),
            consents | "consents" >> beam.Map(_consent_to_all).with_output_types(PartOfAll),
        )
        grouped = parts | "flatten" >> beam.Flatten() | "group" >> beam.GroupByKey()
        return grouped | "release" >> beam.FlatMap(self._released)

    def _of_all(self, tally: KeyedTally) -> PartOfAll:
        key, data = tally
        return 0, (key, data if self.kept is None or not data else self.kept.put(data))

    def _released(self, group: tuple[int, Iterable[tuple[SlotShard, bytes]]]) -> Iterator[SlotEstimates]:
        periods: dict[int, dict[int, list[bytes]]] = {}
        for (first_s, shard), part in group[1]:
            periods.setdefault(first_s, {}).setdefault(shard, []).append(part)
        if not periods.pop(_CONSENT_S, None):
            return
        groups = (((first_s, 0), partial(self._tallies, periods[first_s])) for first_s in sorted(periods))
        yield from tasks.released(groups, self.release, self.account, count)

    def _tallies(self, shards: Mapping[int, Sequence[bytes]]) -> Iterator[wire.Tally]:
        for parts in shards.values():
            packed = filter(None, parts)
            yield wire.unpack_tally(packed if self.kept is None else map(self.kept.get, packed), self.release.columns)


def _consent_to_all(_consent: KeyedUnit) -> PartOfAll:
    return 0, ((_CONSENT_S, 0), b"")
