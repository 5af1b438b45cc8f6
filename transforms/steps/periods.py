"""The end of a period in a stream: what its vehicles did, brought together at one time, and released stage by stage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue

from transforms import counters
from transforms.errors import StepError
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.units import Unit
from transforms.records import KeyedTally, RecordedSlot, SlotEstimates, SlotShard, TallyBytes
from transforms.releases.base import ReleaseKind, Stopped, release_group
from transforms.releases.slots import SlotFacts
from transforms.steps.lateness import windows
from transforms.steps.metrics import count
from transforms.steps.release import beyond_the_limit, is_over
from transforms.tasks import recorded
from transforms.wire import unpack_tally

STOPPED_HERE = (
    "period {}: far fewer vehicles than the specification declares, as far as their noisy number says. Nothing else of "
    "it is released; the next run that is not unattended releases it, whatever its input holds"
)


@dataclass
class IntoPeriods(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedTally]]):
    """Moves ((slot, 0), packed Tally or heartbeat) to the first slot of its period, in one window for the period.

    The window ends `more_s` after the period.

    Periods have no fixed length (days of 23 and 25 hours, weeks), windows have: all of a period is given one time, its
    end. Left out are periods that began before the stream, `start_s`: it has not seen them whole.
    """

    periods: Mapping[int, SlotFacts]
    slot_s: int
    start_s: int
    more_s: int

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedTally]:
        stamped = tallies | "stamp" >> beam.FlatMap(self._stamped).with_output_types(KeyedTally)
        into = beam.WindowInto(windows(self.slot_s, self.start_s + self.more_s))
        return stamped | "window" >> into

    def _stamped(self, element: KeyedTally) -> Iterator[Any]:
        (slot_s, shard), data = element
        slots = self.periods[slot_s].plan
        if slots[0] >= self.start_s:
            yield TimestampedValue(((slots[0], shard), data), slots[-1] + self.slot_s + self.more_s - 0.001)


@dataclass
class ReleasePeriod(beam.PTransform[PCollection[KeyedTally], PCollection[SlotEstimates]]):
    """((first slot, 0), packed Tally or heartbeat) -> the estimates of the period's slots, once the ledger has it.

    in_stream: whether each slot of the period has a heartbeat, and what the account's limit refuses is left out; else
    one stands for all, and what it refuses is an error.
    """

    account: LedgerAccount
    release: ReleaseKind
    in_stream: bool = False

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[SlotEstimates]:
        grouped = tallies | "group" >> beam.GroupByKey()
        return grouped | "release" >> beam.FlatMap(self._released)

    def _released(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[SlotEstimates]:
        (first_s, _), encoded = group
        parts = list(encoded)
        if self.in_stream and not is_over(parts, len(self.release.slots[first_s].plan)):
            return
        table = unpack_tally(filter(None, parts), self.release.columns)
        done = release_group(self.release, (first_s, 0), lambda: [table], self.account, self._recorded)
        if not isinstance(done, Stopped):
            yield from done
        elif self.in_stream:
            count(counters.stopped(done.period), 1)
        else:
            raise StepError(STOPPED_HERE.format(done.period))

    def _recorded(self, units: Sequence[Unit]) -> Sequence[RecordedSlot]:
        done = recorded(units, self.account, count)
        if not done and not self.in_stream:
            raise beyond_the_limit(self.account, units[0].period)
        return done
