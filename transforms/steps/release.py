"""Steps from tallies to drawn units and estimates, of slots and whole periods.

A group is what is drawn together, by (first slot's start, shard). Its encoded tallies hold heartbeats, empty bytes that
say that a slot is over. A transaction is recorded in the ledger at once: a range of dates, a period or a slot. A store
has bytes, in place of the shuffle, by a key. Consent: the judge of the whole input lets it be released.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam import coders
from apache_beam.coders.typecoders import registry
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from transforms import counters, records, tasks, wire
from transforms.errors import StepError
from transforms.ledger.recording import LedgerAccount, decoded, record_units
from transforms.recorded.units import Transaction, Unit, encode
from transforms.records import KeyedTally, KeyedUnit, RecordedSlot, SlotEstimates, SlotShard, TallyBytes
from transforms.releases import SlotFacts
from transforms.releases.base import History, MustStop, ReleaseKind, release_group
from transforms.steps.metrics import Demanded, Parting, Store, count, passed
from transforms.steps.observe import windows

DRAW_BYTES = 1 << 20  # of packed tallies: a range's groups are collected up to so many, and drawn together


@dataclass
class ByHexagon(Parting[PCollection[KeyedTally]]):
    """Units drawn from tallies, keyed by transaction, and vehicles' spending as demand."""

    release: ReleaseKind
    transaction: Transaction
    account: LedgerAccount
    store: Store | None = None  # holds units until they are recorded

    def expand(self, tallies: PCollection[KeyedTally]) -> DoOutputsTuple:
        grouped = tallies | "group" >> beam.GroupByKey()
        draw = beam.ParDo(Draw(self)).with_outputs(records.DEMAND, main="units")
        return grouped | "seal" >> draw.with_output_types(KeyedUnit)


class Draw(beam.DoFn):
    """Draws units from grouped tallies, with demands: their spending and vehicles' exposures.

    A range is drawn several groups at a time: joint planning of HATs costs less. _groups, _bytes: groups collected so
    far, and their size. _step: the transform, with its transaction, release and store.
    """

    def __init__(self, step: ByHexagon) -> None:
        self._step = step

    def start_bundle(self) -> None:
        self._groups, self._bytes = dict[SlotShard, list[TallyBytes]](), 0

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedUnit | Demanded]:
        """Draws a complete group; a range's groups wait for one another up to DRAW_BYTES."""
        slot_shard, tallies = group
        encoded = list(tallies)
        if not is_over(encoded):
            return
        self._groups[slot_shard] = encoded
        self._bytes += sum(map(len, encoded))
        if self._step.transaction != "range" or self._bytes >= DRAW_BYTES:
            yield from self._drawn()

    def finish_bundle(self) -> Iterator[Any]:
        """Draws a range's last groups; a bundle's end must give elements their window."""
        for drawn in self._drawn():
            if isinstance(drawn, TaggedOutput):
                demand = WindowedValue(drawn.value, MIN_TIMESTAMP, (GlobalWindow(),))
                yield TaggedOutput(records.DEMAND, demand)
            else:
                yield WindowedValue(drawn, MIN_TIMESTAMP, (GlobalWindow(),))

    def _drawn(self) -> Iterator[KeyedUnit | Demanded]:
        """Draws the groups collected so far; yields demands, and units by transaction."""
        groups, transaction, store = self._groups, self._step.transaction, self._step.store
        self.start_bundle()  # groups that come next are collected anew
        if not groups:
            return
        tally_bytes = {slot_shard: filter(None, encoded) for slot_shard, encoded in groups.items()}  # no heartbeats
        for unit, exposure in tasks.draw_units(tally_bytes, self._step.release, History(self._step.account)):
            passed("drawn", unit.slot_s)
            spending: records.UnitSpending = str(unit.per_hat), unit.key, str(unit.debit)  # claims as text
            demand = (unit.slot_s, records.SPENDING), msgspec.json.encode(spending)
            yield TaggedOutput(records.DEMAND, (unit.period, demand))
            if exposure is not None:
                demand = (unit.slot_s, records.EXPOSURE), wire.pack_exposure(exposure)
                yield TaggedOutput(records.DEMAND, (unit.period, demand))
            text = encode(unit)
            transaction_name = {"range": "", "period": unit.period, "slot": str(unit.slot_s)}[transaction]
            yield transaction_name, records.UnitBytes(text if store is None else store.put(text))


def is_over(encoded: Sequence[TallyBytes], slots: int = 1) -> bool:
    """Checks for all slots' heartbeats, and counts where a drain ended a slot without."""
    if encoded.count(TallyBytes(b"")) >= slots:
        return True
    count(counters.NOT_OVER)
    return False


@dataclass
class Record(beam.PTransform[PCollection[KeyedUnit], PCollection[RecordedSlot]]):
    """Recorded slots of encoded units, one transaction a key."""

    account: LedgerAccount
    needs_rows: bool = False  # a key without data is an error, since its input is wrong
    may_lose: bool = True  # skips what the account's limit refuses, else an error
    needs_consent: bool = False  # records a key only with CONSENT among its units
    store: Store | None = None

    def expand(self, units: PCollection[KeyedUnit]) -> PCollection[RecordedSlot]:
        grouped = units | "group" >> beam.GroupByKey()
        return of_type(grouped | "record" >> beam.FlatMap(self.record), RecordedSlot)

    def record(self, group: tuple[str, Iterable[records.UnitBytes]]) -> Iterator[RecordedSlot]:
        """Records a key's units; yields slots. Raises StepError."""
        _, encoded_units = group
        encoded = list(encoded_units)
        if self.needs_consent and records.CONSENT not in encoded:
            return
        units = decoded(self.store.get(unit) if self.store else unit for unit in encoded if unit != records.CONSENT)
        if self.needs_rows and not any(hat.plan is not None for unit in units for hat in unit.released):
            raise StepError(f"the input has no row of {units[0].period}: nothing was recorded or spent")
        for period, together in groupby(units, key=lambda unit: unit.period):
            slots = record_units(list(together), self.account, count)  # `count`: new and lost units, as metrics
            if not slots and not self.may_lose:
                raise beyond_the_limit(self.account, period)
            yield from slots
            passed("recorded", period)


def beyond_the_limit(account: LedgerAccount, period: str) -> StepError:
    """Creates the error of an account's refused debit."""
    return StepError(f"account {account.name!r} refuses {period}: its limit would be exceeded")


@dataclass
class Estimate(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """Estimates of recorded slots, from entries up to theirs."""

    release: ReleaseKind
    account: LedgerAccount
    name: str = "learn"  # of the step, as in savepoints

    def expand(self, slots: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        estimate = beam.FlatMap(self.release.estimates, History(self.account))
        return of_type(slots | self.name >> estimate, SlotEstimates)


@dataclass
class IntoPeriods(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedTally]]):
    """Tallies and heartbeats, rekeyed to their period's window.

    Periods have no fixed length (days of 23 and 25 hours), windows have: elements of a period get its end as their
    time, and so are in its last slot's window. more_s: delay of both. Periods that began before the stream, at
    `start_s`, are dropped as incomplete.
    """

    periods: Mapping[int, SlotFacts]
    slot_s: int
    start_s: int
    more_s: int

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedTally]:
        stamped = tallies | "stamp" >> beam.FlatMap(self._stamped).with_output_types(KeyedTally)
        return stamped | "window" >> beam.WindowInto(windows(self.slot_s, self.start_s + self.more_s))

    def _stamped(self, element: KeyedTally) -> Iterator[Any]:
        """Keys a tally by its period, timed at its end; drops periods before `start_s`."""
        (slot_s, shard), data = element
        slots = self.periods[slot_s].joint_slots_s  # starts of the period's slots
        if slots[0] >= self.start_s:
            end_s = slots[-1] + self.slot_s + self.more_s
            yield TimestampedValue(((slots[0], shard), data), end_s - 0.001)  # Beam's clock counts milliseconds


@dataclass
class ReleasePeriod(beam.PTransform[PCollection[KeyedTally], PCollection[SlotEstimates]]):
    """A period's tallies to its slots' estimates, once recorded."""

    account: LedgerAccount
    release: ReleaseKind
    in_stream: bool = False  # expects a heartbeat per slot, and skips what the limit refuses, else an error

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[SlotEstimates]:
        return tallies | "group" >> beam.GroupByKey() | "release" >> beam.FlatMap(self._released)

    def _released(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[SlotEstimates]:
        """Releases a period once all of its tallies are there. Raises StepError where stopped."""
        (first_s, _), encoded = group  # a period has one release shard, 0
        tallies = list(encoded)
        if self.in_stream and not is_over(tallies, len(self.release.slots[first_s].joint_slots_s)):
            return
        table = wire.unpack_tally(filter(None, tallies), self.release.columns)  # without heartbeats
        try:  # stage by stage: each reads the tallies, and `_recorded` records it before the next is drawn
            yield from release_group(self.release, (first_s, 0), lambda: [table], self.account, self._recorded)
        except MustStop as stop:
            if not self.in_stream:
                raise StepError(
                    f"period {stop}: far fewer vehicles than the specification declares, as far as their noisy number "
                    "says. Nothing else of it is released; the next run that is not unattended releases it, whatever "
                    "its input holds"
                ) from None
            count(f"{counters.STOPPED}{stop}", 1)

    def _recorded(self, units: Sequence[Unit]) -> Sequence[records.RecordedSlot]:
        """Records units. Raises StepError where the account refuses them, but for a stream."""
        slots = record_units(units, self.account, count)
        if not slots and not self.in_stream:
            raise beyond_the_limit(self.account, units[0].period)
        return slots


PartOfAll = tuple[int, tuple[SlotShard, bytes]]
"""One key; the first slot of a period, a shard of its vehicles, and a part of their tally, or what fetches it."""
_CONSENT_S = -1  # consent travels as a tally of this first slot


_TalliesAndConsents = tuple[PCollection[KeyedTally], PCollection[KeyedUnit]]


@dataclass
class ReleaseInOrder(beam.PTransform[_TalliesAndConsents, PCollection[SlotEstimates]]):
    """Releases a closed range's periods in order, given consent; each rests on earlier ones."""

    account: LedgerAccount
    release: ReleaseKind
    store: Store | None = None  # holds tallies

    def expand(self, both: _TalliesAndConsents) -> PCollection[SlotEstimates]:
        tallies, consents = both  # all get the key 0, so that one worker has them; a consent carries no tally
        parts = (
            tallies | "tallies" >> beam.Map(self._of_all).with_output_types(PartOfAll),
            consents | "consents" >> beam.Map(lambda _: (0, ((_CONSENT_S, 0), b""))).with_output_types(PartOfAll),
        )
        grouped = parts | "flatten" >> beam.Flatten() | "group" >> beam.GroupByKey()
        return grouped | "release" >> beam.FlatMap(self._released)

    def _of_all(self, tally: KeyedTally) -> PartOfAll:
        slot_shard, data = tally
        return 0, (slot_shard, data if self.store is None or not data else self.store.put(data))

    def _released(self, group: tuple[int, Iterable[tuple[SlotShard, bytes]]]) -> Iterator[SlotEstimates]:
        """Releases periods in order, if there is consent."""
        periods: dict[int, dict[int, list[bytes]]] = {}  # tallies by period's first slot, then vehicle shard
        _, tallies = group
        for (first_s, shard), data in tallies:
            periods.setdefault(first_s, {}).setdefault(shard, []).append(data)
        if not periods.pop(_CONSENT_S, None):  # consent comes as a tally of this start
            return
        # Release shard 0: a period has no others.
        groups = (((first_s, 0), partial(self._tallies, periods[first_s])) for first_s in sorted(periods))
        yield from tasks.released(groups, self.release, self.account, count)

    def _tallies(self, shards: Mapping[int, Sequence[bytes]]) -> Iterator[wire.Tally]:
        """Yields a period's tallies, one for each vehicle shard."""
        for encoded in shards.values():
            packed = filter(None, encoded)  # without heartbeats
            yield wire.unpack_tally(packed if self.store is None else map(self.store.get, packed), self.release.columns)


class UnsizedCoder(coders.Coder):
    """Coder that pickles without measuring sizes, which is slow."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, encoded: bytes) -> Any:
        return pickle.loads(encoded)

    def estimate_size(self, value: Any) -> int:  # noqa: ARG002 - Beam's interface
        return 0

    def is_deterministic(self) -> bool:
        return False


def of_type(elements: PCollection[Any], kind: type) -> PCollection[Any]:
    """Sets elements' type, and `UnsizedCoder` for it; pipelines would infer neither."""
    registry.register_coder(kind, UnsizedCoder)
    elements.element_type = kind
    return elements
