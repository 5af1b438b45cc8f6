"""The step that puts model values beside those of recorded slots: from the ledger's entries up to their own."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms.ledger.ledger_account import LedgerAccount
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases.hats.past_reader import PastReader
from transforms.releases.state_file import StateFile


@dataclass
class EstimateWithPast(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """RecordedSlot -> its estimates with model values.

    spec_id, statistics: of the specification, the latter the names of all that it asks for.

    A function of the entries up to the slot's own, whenever and wherever it is made.
    """

    account: LedgerAccount
    spec_id: str
    statistics: tuple[str, ...]
    upper_kmh: Fraction

    def expand(self, slots: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        estimates: PCollection[SlotEstimates] = slots | "learn" >> beam.ParDo(_EstimateWithPast(self))
        return estimates


class _EstimateWithPast(beam.DoFn):
    def __init__(self, of: EstimateWithPast) -> None:
        self._of = of

    def setup(self) -> None:
        of = self._of
        file = StateFile.beside(of.account.head, of.spec_id, of.account.signature)
        self._reader = PastReader(of.account.open(), of.account.name, of.spec_id, file)

    def process(self, slot: RecordedSlot) -> Iterator[SlotEstimates]:
        yield self._reader.estimates_of(slot, self._of.statistics, self._of.upper_kmh)

    def finish_bundle(self) -> None:
        self._reader.keep()
