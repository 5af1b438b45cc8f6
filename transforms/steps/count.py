"""Steps from events to tallies by vehicle and cell."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue

from transforms import counters, records, tasks, wire
from transforms.count.tally import admit_late, event_spans, merge_panes, tally_pane
from transforms.failpoints import failpoint
from transforms.records import KeyedEvents, KeyedPartial, KeyedTally, PackedEvents, SlotShard
from transforms.releases.base import ReleaseKind
from transforms.releases.hats.draw import release_shard
from transforms.steps.metrics import count, passed
from transforms.steps.observe import LATE

_LATE_COUNTER = counters.refused("lateness", LATE)


@dataclass
class ByVehicle(beam.PTransform[PCollection[KeyedEvents | KeyedPartial], PCollection[KeyedTally]]):
    """Tallies events by slot and vehicle shard, for release."""

    release: ReleaseKind
    in_panes: bool = False  # the input is partial tallies of panes
    fetch: Callable[[bytes], bytes] | None = None  # loads packed events from grouped references
    in_order: bool = False  # groups are drawn in order: tallies stay by vehicle shard, else by release shard

    def expand(self, events: PCollection[KeyedEvents | KeyedPartial]) -> PCollection[KeyedTally]:
        grouped = events | "group" >> beam.GroupByKey()
        return grouped | "tally" >> beam.FlatMap(self.tally).with_output_types(KeyedTally)

    def tally(self, group: tuple[SlotShard, Iterable[Any]]) -> Iterator[KeyedTally]:
        """Tallies a shard's vehicles, split by release shard."""
        (slot_s, vehicle_shard), encoded = group
        if self.in_panes:
            cap, columns = self.release.cap, self.release.columns
            panes = [wire.unpack_partial(data, () if cap else columns) for data in encoded]  # a cap sums samples later
            partials, refused, duplicates = admit_late(panes, cap, columns)  # refused: late, perhaps a copy
            for name, rows in ((counters.DUPLICATES, duplicates), (_LATE_COUNTER, refused)):
                if rows:  # operators see a counter from its first increment on, even of 0
                    count(name, rows)
            table = tasks.capped(merge_panes(partials, slot_s, cap, columns), count)
        else:
            events = encoded if self.fetch is None else map(self.fetch, encoded)
            table = tasks.tally_slot(slot_s, events, self.release, count)
        passed("counted", slot_s)
        plan_s = self.release.group(slot_s)
        if self.in_order:  # whole periods: every vehicle shard of a period is drawn in one group
            yield (plan_s, vehicle_shard), wire.pack_tally(table)
            return
        shard = release_shard(table.cell, self.release.shards)
        for number in np.unique(shard).tolist():
            yield (plan_s, number), wire.pack_tally(table.take(shard == number))


@dataclass
class InPanes(beam.PTransform[PCollection[records.KeyedPane], PCollection[KeyedPartial]]):
    """Partial tallies of events by ((slot, vehicle shard), pane).

    fetch: loads packed events from grouped references; None: they are grouped themselves. may_be_late: events may
    follow their pane's end, see `admit_late`.
    """

    release: ReleaseKind
    fetch: Callable[[bytes], bytes] | None = None
    may_be_late: bool = True

    def expand(self, events: PCollection[records.KeyedPane]) -> PCollection[KeyedPartial]:
        grouped = events | "group" >> beam.GroupByKey()
        return grouped | "tally the pane" >> beam.Map(self.tally).with_output_types(KeyedPartial)

    def tally(self, group: tuple[records.PaneShard, Iterable[records.EventBytes]]) -> KeyedPartial:
        """Tallies a shard's vehicles in a pane."""
        (slot_shard, _), encoded = group
        events = wire.unpack_events(encoded if self.fetch is None else map(self.fetch, encoded))
        partial, duplicates = tally_pane(events, self.release.cap, self.release.columns)
        count(counters.DUPLICATES, duplicates)
        failpoint("tally")
        if self.may_be_late:
            partial = partial._replace(spans=event_spans(events))
        return slot_shard, wire.pack_partial(partial)


@dataclass
class LateForPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedPartial]]):
    """Late events of closed panes, as partial tallies."""

    release: ReleaseKind

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedPartial]:
        return events | "keep for the slot" >> beam.Map(self._kept).with_output_types(KeyedPartial)

    def _kept(self, packed: PackedEvents) -> TimestampedValue[KeyedPartial]:
        """Wraps events uncounted, timed in their slot, which counts them with its panes."""
        nothing, _ = tally_pane(wire.NO_EVENTS, self.release.cap, self.release.columns)
        late_only = nothing._replace(late=wire.unpack_events([packed.data]))
        slot_s, _ = packed.key
        return TimestampedValue((packed.key, wire.pack_partial(late_only)), slot_s)
