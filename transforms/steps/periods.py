"""Whole periods, gathered and then released in order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue

from transforms import counters, records, tasks, wire
from transforms.errors import StepError
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.units import Unit
from transforms.records import KeyedTally, KeyedUnit, SlotEstimates, SlotShard, TallyBytes
from transforms.releases import SlotFacts
from transforms.releases.base import ReleaseKind, Stopped, release_group
from transforms.steps.metrics import Store, count
from transforms.steps.observe import windows
from transforms.steps.release import beyond_the_limit, is_over
from transforms.tasks import recorded
from transforms.wire import unpack_tally

STOPPED_HERE = (
    "period {}: far fewer vehicles than the specification declares, as far as their noisy number says. Nothing else of "
    "it is released; the next run that is not unattended releases it, whatever its input holds"
)


@dataclass
class IntoPeriods(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedTally]]):
    """Tallies and heartbeats, rekeyed to their period's window.

    Periods have no fixed length (days of 23 and 25 hours), windows have: all elements of a period get its end as their
    time, and so are in its last slot's window. `more_s`: delay of times and windows. Periods that began before
    `start_s`, the stream's start, are dropped as incomplete.
    """

    periods: Mapping[int, SlotFacts]
    slot_s: int
    start_s: int
    more_s: int

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedTally]:
        stamped = tallies | "stamp" >> beam.FlatMap(self._stamped).with_output_types(KeyedTally)
        return stamped | "window" >> beam.WindowInto(windows(self.slot_s, self.start_s + self.more_s))

    def _stamped(self, element: KeyedTally) -> Iterator[Any]:
        """Keys a slot's tally by its period, timed at its end; drops earlier ones."""
        (slot_s, shard), data = element
        slots = self.periods[slot_s].joint_slots_s
        if slots[0] >= self.start_s:
            end_s = slots[-1] + self.slot_s + self.more_s
            yield TimestampedValue(((slots[0], shard), data), end_s - 0.001)  # Beam's clock counts milliseconds


@dataclass
class ReleasePeriod(beam.PTransform[PCollection[KeyedTally], PCollection[SlotEstimates]]):
    """A period's tallies to its slots' estimates, once recorded.

    in_stream: expects a heartbeat per slot, and skips what the account's limit refuses; otherwise one heartbeat a
    period, and refusal is an error.
    """

    account: LedgerAccount
    release: ReleaseKind
    in_stream: bool = False

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[SlotEstimates]:
        return tallies | "group" >> beam.GroupByKey() | "release" >> beam.FlatMap(self._released)

    def _released(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[SlotEstimates]:
        """Releases a period once all of its tallies are there."""
        (first_s, _), encoded = group  # a period has one release shard, 0
        tallies = list(encoded)
        if self.in_stream and not is_over(tallies, len(self.release.slots[first_s].joint_slots_s)):
            return
        table = unpack_tally(filter(None, tallies), self.release.columns)  # heartbeats are empty bytes
        estimates = release_group(self.release, (first_s, 0), lambda: [table], self.account, self._recorded)
        if not isinstance(estimates, Stopped):
            yield from estimates
        elif self.in_stream:
            count(counters.STOPPED + estimates.period, 1)
        else:
            raise StepError(STOPPED_HERE.format(estimates.period))

    def _recorded(self, units: Sequence[Unit]) -> Sequence[records.RecordedSlot]:
        """Records units. Raises StepError where the account refuses them, but for a stream."""
        slots = recorded(units, self.account, count)
        if not slots and not self.in_stream:
            raise beyond_the_limit(self.account, units[0].period)
        return slots


PartOfAll = tuple[int, tuple[SlotShard, bytes]]
"""One key; the first slot of a period, a shard of its vehicles, and a part of their tally, or what fetches it."""
_CONSENT_S = -1  # the judge's consent to release the whole input travels as a tally of this first slot


_TalliesAndConsents = tuple[PCollection[KeyedTally], PCollection[KeyedUnit]]


@dataclass
class ReleaseInOrder(beam.PTransform[_TalliesAndConsents, PCollection[SlotEstimates]]):
    """Releases a closed range's periods like `ReleasePeriod`, given consent.

    One worker does so, oldest period first, since each rests on earlier ones. store: holds their tallies, in place of
    the shuffle.
    """

    account: LedgerAccount
    release: ReleaseKind
    store: Store | None = None

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
        if not periods.pop(_CONSENT_S, None):
            return
        # Release shard 0: a period has no others.
        groups = (((first_s, 0), partial(self._tallies, periods[first_s])) for first_s in sorted(periods))
        yield from tasks.released(groups, self.release, self.account, count)

    def _tallies(self, shards: Mapping[int, Sequence[bytes]]) -> Iterator[wire.Tally]:
        """Unpacks a period's tallies, a vehicle shard at a time."""
        for encoded in shards.values():
            packed = filter(None, encoded)  # heartbeats are empty
            yield wire.unpack_tally(packed if self.store is None else map(self.store.get, packed), self.release.columns)
