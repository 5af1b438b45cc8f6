"""The step of a live slot: what its vehicles did, their vectors added up, and noise."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import PCollection

from dpops.noise import Noise
from transforms import wire
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.codec import encode
from transforms.records import KeyedTally, KeyedUnit, SlotShard, TallyBytes, UnitBytes
from transforms.releases.base import Before
from transforms.releases.live.release import LiveRelease
from transforms.steps.release import is_over


@dataclass
class ReleaseLive(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedUnit]]):
    """((slot, 0), packed Tally or the heartbeat's b"") -> (slot, encoded Unit).

    Whether a slot is released, and around what, follows from recorded entries alone: none before the first whole
    period, and none of a period that is released already.
    """

    account: LedgerAccount
    release: LiveRelease

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedUnit]:
        grouped = tallies | "group" >> beam.GroupByKey()
        released: PCollection[KeyedUnit] = grouped | "noise" >> beam.ParDo(_ReleaseLive(self)).with_output_types(
            KeyedUnit
        )
        return released


class _ReleaseLive(beam.DoFn):
    def __init__(self, of: ReleaseLive) -> None:
        self._account, self._release = of.account, of.release

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedUnit]:
        key, encoded = group
        parts = list(encoded)
        if not is_over(parts):
            return
        table = wire.unpack_tally((part for part in parts if part), self._release.columns)
        for unit, _ in self._release.draw(key, lambda: [table], Before(self._account), Noise()):
            yield str(unit.slot_s), UnitBytes(encode(unit))
