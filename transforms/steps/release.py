"""The steps from tallies to sealed units, to what the ledger returned, to estimates."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput

from transforms import counters, tasks, wire
from transforms.errors import StepError
from transforms.ledger.ledger_account import LedgerAccount
from transforms.ledger.recording import decoded
from transforms.recorded.codec import encode
from transforms.recorded.units import Transaction
from transforms.records import (
    CONSENT,
    EXPOSURE,
    KeyedTally,
    KeyedUnit,
    RecordedSlot,
    SlotEstimates,
    SlotShard,
    TallyBytes,
    UnitBytes,
)
from transforms.releases.base import Before, ReleaseKind
from transforms.steps.metrics import count
from transforms.steps.side_outputs import Exposed, Parting


@dataclass
class ByHexagon(Parting[PCollection[KeyedTally]]):
    """Tallies and heartbeats of ((plan, release shard), packed Tally or b"") -> main: (key, encoded Unit);
    exposure: (slot, packed Exposure). The key says what is recorded together."""

    release: ReleaseKind
    transaction: Transaction
    account: LedgerAccount

    def expand(self, tallies: PCollection[KeyedTally]) -> DoOutputsTuple:
        grouped = tallies | "group" >> beam.GroupByKey()
        return grouped | "seal" >> beam.FlatMap(self.seal).with_outputs(EXPOSURE, main="sealed").with_output_types(
            KeyedUnit
        )

    def seal(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedUnit | Exposed]:
        """Yields the units that are drawn of a shard, and what each vehicle spends in them."""
        key, encoded = group
        parts = list(encoded)
        if not is_over(parts):
            return
        for unit, exposure in tasks.drawn({key: filter(None, parts)}, self.release, Before(self.account)):
            if exposure is not None:
                yield TaggedOutput(EXPOSURE, (unit.slot_s, wire.pack_exposure(exposure)))
            yield (
                unit.period if self.transaction == "period" else str(unit.slot_s),
                UnitBytes(encode(unit)),
            )


def is_over(parts: Sequence[TallyBytes], slots: int = 1) -> bool:
    """Says whether the beats of all slots are among the parts of a tally; else the source was ended or drained before
    they were over, and what it gave of them is no release. That is counted."""
    if parts.count(TallyBytes(b"")) >= slots:
        return True
    count(counters.NOT_OVER)
    return False


@dataclass
class Record(beam.PTransform[PCollection[KeyedUnit], PCollection[RecordedSlot]]):
    """(key, encoded Unit) -> RecordedSlot, as the ledger returned it. One transaction a key.

    needs_rows: a key of which no HAT has data, which a wrong input makes, is an error and is not recorded.
    may_lose: what the account's limit refuses is counted and left out; else it is an error.
    needs_consent: a key is recorded only if CONSENT is among its units.
    """

    account: LedgerAccount
    needs_rows: bool = False
    may_lose: bool = True
    needs_consent: bool = False

    def expand(self, units: PCollection[KeyedUnit]) -> PCollection[RecordedSlot]:
        grouped = units | "group" >> beam.GroupByKey()
        return grouped | "record" >> beam.FlatMap(self.record)

    def record(self, group: tuple[str, Iterable[UnitBytes]]) -> Iterator[RecordedSlot]:
        """Yields what the ledger returns for the units of a key. Raises StepError."""
        encoded = list(group[1])
        if self.needs_consent and CONSENT not in encoded:
            return
        units = decoded(unit for unit in encoded if unit != CONSENT)
        if self.needs_rows and not any(read.unit.has_data for read in units):
            raise StepError(
                f"of the input no row is of {units[0].unit.period}: nothing was recorded and nothing was spent"
            )
        done = tasks.recorded(units, self.account, count)
        if not done and not self.may_lose:
            raise beyond_the_limit(self.account, units[0].unit.period)
        yield from done


def beyond_the_limit(account: LedgerAccount, period: str) -> StepError:
    """Makes the error that a step raises where the account's limit refuses what may not be left out."""
    return StepError(f"account {account.name!r} refuses {period}: its limit would be exceeded")


@dataclass
class Estimate(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """RecordedSlot -> its estimates: a function of the entries up to its own, whenever and wherever it is made.

    name: of the step inside, by which a savepoint finds it.
    """

    release: ReleaseKind
    account: LedgerAccount
    name: str = "learn"

    def expand(self, slots: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        return slots | self.name >> beam.ParDo(_Estimate(self))


class _Estimate(beam.DoFn):
    def __init__(self, estimate: Estimate) -> None:
        self._release, self._account = estimate.release, estimate.account

    def setup(self) -> None:
        self._estimator = self._release.estimator(self._account)

    def process(self, slot: RecordedSlot) -> Iterator[SlotEstimates]:
        yield from self._estimator.of(slot)

    def finish_bundle(self) -> None:
        self._estimator.keep()
