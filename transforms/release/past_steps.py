"""The step that puts model values beside those of recorded slots: from the ledger's entries up to their own."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import apache_beam as beam
from apache_beam.pvalue import PCollection

from dpops.learning.hats import LearnedHats
from transforms.ledger import Ledger
from transforms.ledger.used import LedgerAccount
from transforms.records import RecordedSlot, SlotEstimates
from transforms.release.estimates import estimates_of
from transforms.release.past import Past, with_model


@dataclass
class EstimateWithPast(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """RecordedSlot -> its estimates with model values. statistics: the names of all that the specification asks for.

    A function of the entries up to the slot's own, whenever and wherever it is made.
    """

    account: LedgerAccount
    statistics: tuple[str, ...]
    upper_kmh: Fraction

    def expand(self, slots: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        estimates: PCollection[SlotEstimates] = slots | "learn" >> beam.ParDo(_EstimateWithPast(self))
        return estimates


class _EstimateWithPast(beam.DoFn):
    def __init__(self, of: EstimateWithPast) -> None:
        self._of = of

    def setup(self) -> None:
        self._reader = PastReader(self._of.account.open(), self._of.account.name)

    def process(self, slot: RecordedSlot) -> Iterator[SlotEstimates]:
        yield self._reader.estimates_of(slot, self._of.statistics, self._of.upper_kmh)


class PastReader:
    """Follows a specification's entries, forwards as far as it can, and fits the model once for each of them."""

    def __init__(self, ledger: Ledger, account: str) -> None:
        self._ledger, self._account = ledger, account
        self._past = Past.none()
        self._known: LearnedHats | None = None

    def estimates_of(self, slot: RecordedSlot, statistics: tuple[str, ...], upper_kmh: Fraction) -> SlotEstimates:
        self._go_to(slot.units[0].spec_id, last_entry(slot, self._ledger))
        return with_model(estimates_of(slot.units, statistics), slot.units, self._known, upper_kmh)

    def _go_to(self, spec_id: str, last: int) -> None:
        if last == self._past.sequence:
            return
        start = self._past if self._past.sequence < last else Past.none()
        self._past = start.after(self._ledger.releases(self._account, spec_id, start.sequence, last))
        self._known = self._past.fitted()


def last_entry(slot: RecordedSlot, ledger: Ledger) -> int:
    """The sequence number that a slot's model values rest on: its own, or that of all that was planned together."""
    unit = slot.units[0]
    return ledger.last_of(unit.spec_id, unit.period) if unit.is_of_whole_period else max(slot.sequences)
