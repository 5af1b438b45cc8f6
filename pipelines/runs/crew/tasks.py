"""A scheduled job's road up to the ledger as tasks that any process can do: files to events, to tallies, to releases.

They call the pure functions that the steps of a stream call, and know neither Beam nor one another: which process
does which, and in which order, changes no result.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from dpops.types import Int64s
from pipelines.runs.crew.spool import ByteRange, Shelf
from transforms import counters, tasks, wire
from transforms.failpoints import failpoint
from transforms.layouts.base import WHOLE, Layout, RawBatch, Share, UnreadableFile
from transforms.observe import hexagons
from transforms.observe.events import locate
from transforms.observe.parse import Rules, parse
from transforms.observe.vehicle_ids import spellings
from transforms.places.ground import Ground
from transforms.recorded.codec import encode
from transforms.records import SlotShard
from transforms.releases.base import NOTHING, ReleaseKind
from transforms.releases.hats.policy import release_shard

SEALED, EXPOSED = 0, 1
SPELLINGS = (-1, 0)
"""Where hashes of ids lie among events, which are of slots."""

Told = Callable[[int], None]
"""Called with rows that were read."""


@dataclass(frozen=True)
class Road:
    """What a process must know beforehand. skips_unreadable: see `Job`. spells: whether ids are looked at too."""

    layout: Layout
    rules: Rules
    ground: Ground
    release: ReleaseKind
    skips_unreadable: bool = False
    spells: bool = False


class Entry(NamedTuple):
    """Bytes that were put on the shelf. key: (slot, part of it) of events, (plan, shard) of tallies; or see `Draw`."""

    key: tuple[int, int]
    place: ByteRange
    rows: int


class Done(NamedTuple):
    """counts: the counters of the road."""

    entries: list[Entry]
    counts: "Counter[str]"

    def add(self, name: str, number: int) -> None:
        self.counts[name] += number


class Task(Protocol):
    """A piece of work, which travels to the process that does it."""

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:
        """Raises StepError."""
        ...


@dataclass(frozen=True)
class Observe:
    """A file, or a share of it -> accepted events by slot; what is refused is counted.

    Where the road spells: the file's ids in several forms, hashed, by SPELLINGS.
    """

    path: str
    share: Share = WHOLE

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:
        done, ids = Done([], Counter()), []
        try:
            for batch in tasks.read(road.layout, self.path, self.share):
                done.counts[counters.ROWS] += batch.rows
                failpoint("read")
                for part in _events(batch, road, done.counts):
                    done.entries.append(Entry((part.slot_s, 0), shelf.append(part.data), part.rows))
                if road.spells:
                    ids.append(
                        spellings(batch.table.column("vehicle"), road.rules.vehicle_form, road.rules.vehicle_key)
                    )
                told(batch.rows)
        except UnreadableFile as error:
            if not road.skips_unreadable:
                raise
            done.counts.update(unreadable(error))
        if ids:
            once = np.unique(np.concatenate(ids), axis=0)
            done.entries.append(Entry(SPELLINGS, shelf.append(once.tobytes()), len(once)))
        return done


@dataclass(frozen=True)
class Divide:
    """Events of a slot that is too large to be counted at once -> the same by parts of its vehicles."""

    slot_s: int
    parts: int
    places: Sequence[ByteRange]

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:  # noqa: ARG002 - the interface of tasks
        done = Done([], Counter())
        events = wire.unpack_events(map(shelf.read, self.places))
        part = events.vehicle % self.parts  # keyed hashes are spread evenly
        order = np.argsort(part, kind="stable")
        cuts = np.searchsorted(part[order], np.arange(self.parts + 1)).tolist()
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if start < stop:
                events_of_part = wire.Events(*(column[order[start:stop]] for column in events))
                done.entries.append(
                    Entry(
                        (self.slot_s, number), shelf.append(wire.pack_events(events_of_part, wire.FAST)), stop - start
                    )
                )
        return done


@dataclass(frozen=True)
class Count:
    """Events of a slot, or of a part of its vehicles -> their tallies, by (plan, shard).

    by_vehicle: whether shards are of vehicles, not of cells.
    """

    slot_s: int
    places: Sequence[ByteRange]
    shards: int
    by_vehicle: bool

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:  # noqa: ARG002 - the interface of tasks
        done = Done([], Counter())
        table = tasks.tallied(self.slot_s, map(shelf.read, self.places), road.release, done.add)
        shard = table.vehicle % self.shards if self.by_vehicle else release_shard(table.cell, self.shards)
        done.entries.extend(_shelved(table, shard, road.release.group(self.slot_s), shelf))
        return done


@dataclass(frozen=True)
class CountDerived:
    """Events of a period, or of a part of its vehicles, whose rows before decide -> tallies by (plan, shard).

    places: of each slot, by its start.
    """

    places: Mapping[int, Sequence[ByteRange]]
    shards: int

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:  # noqa: ARG002 - the interface of tasks
        done = Done([], Counter())
        slots = {slot_s: map(shelf.read, places) for slot_s, places in self.places.items()}
        for plan_s, table in tasks.derived(slots, road.rules, road.ground, road.release, done.add):
            done.entries.extend(_shelved(table, table.vehicle % self.shards, plan_s, shelf))
        return done


@dataclass(frozen=True)
class Draw:
    """Tallies of plans and release shards -> their slots, sealed, by (slot, SEALED); exposures by (slot, EXPOSED).

    places: of the tallies by (plan, shard).
    """

    places: Mapping[SlotShard, Sequence[ByteRange]]

    def perform(self, road: Road, shelf: Shelf, told: Told) -> Done:  # noqa: ARG002 - the interface of tasks
        done = Done([], Counter())
        packed = {group: map(shelf.read, places) for group, places in self.places.items()}
        for unit, exposure in tasks.drawn(packed, road.release, NOTHING):
            done.entries.append(Entry((unit.slot_s, SEALED), shelf.append(encode(unit)), 1))
            if exposure is not None:
                place = shelf.append(wire.pack_exposure(exposure))
                done.entries.append(Entry((unit.slot_s, EXPOSED), place, exposure.vehicle.size))
        return done


def unreadable(error: Exception) -> "Counter[str]":
    """Counts a file that is left out: one dead letter, and its name with the reason."""
    letter = counters.refused("read", counters.UNREADABLE_FILE)
    return Counter({counters.ROWS: 1, letter: 1, f"{counters.LEFT_OUT}{error}": 1})


def _shelved(table: wire.Tally, shard: Int64s, plan_s: int, shelf: Shelf) -> Iterator[Entry]:
    """Puts the tally's rows of each shard on the shelf. shard: int64 (rows,)."""
    for number, part in tasks.parted(table, shard):
        yield Entry((plan_s, number), shelf.append(wire.pack_tally(part, wire.FAST)), part.cell.size)


def _events(batch: RawBatch, road: Road, counts: "Counter[str]") -> Iterable[wire.WirePart]:
    observations, refused = parse(batch.table, road.rules)
    failpoint("parse")
    located = locate(observations, road.ground)
    failpoint("assign")
    for stage, reasons in (
        ("read", batch.refused),
        ("parse", refused),
        ("assign", {hexagons.OUTSIDE_REGION: located.outside}),
    ):
        counts.update({counters.refused(stage, reason): rows for reason, rows in reasons.items() if rows})
    return wire.split(located.observations, located.cell, 1, packing=wire.FAST)
