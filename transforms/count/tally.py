"""By vehicle: duplicates dropped, contributions counted and capped, speeds summed per (vehicle, cell)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.statistics import Column
from dpops.types import Int64s
from transforms.count.wire import Events, Tally
from transforms.scatter import scatter


@dataclass(frozen=True)
class Cap:
    """Most cells that a vehicle keeps in a slot, and most samples that it keeps in each of them."""

    max_cells: int
    max_samples: int


class Counted(NamedTuple):
    tally: Tally
    duplicates: int


def tally(events: Events, slot_start_s: int, cap: Cap | None, columns: Sequence[Column]) -> Counted:
    """The tally of one slot and vehicle shard; the same for every order, split and merge of the events.

    columns: what the statistics need of the samples; those that a cap drops add nothing to them.

    An observation is identified by (vehicle, event time). Of several, the smallest position stays, and the speed
    decides only between identical positions, so that no speed decides a place or a count.
    """
    events, duplicates = _distinct(events)
    order = np.lexsort((events.cell, events.vehicle))
    vehicle, cell = events.vehicle[order], events.cell[order]
    first = np.flatnonzero(_changes(vehicle, cell))
    reported = np.diff(first, append=vehicle.size)
    speed, row = events.speed[order], np.repeat(np.arange(first.size), reported)
    if cap is not None:
        keep = _kept(vehicle, cell, events.offset_us[order], slot_start_s, first, cap)
        speed, row = speed[keep], row[keep]
    kept = np.bincount(row, minlength=first.size).astype(np.int64)
    sums = {column.name: column.add_up(speed, row, first.size) for column in columns}
    slot_s = np.full(first.size, slot_start_s, np.int64)
    return Counted(Tally(slot_s, vehicle[first], cell[first], kept, reported - kept, sums=sums), duplicates)


def _distinct(events: Events) -> tuple[Events, int]:
    order = np.lexsort((events.offset_us, events.vehicle))
    vehicle, offset = events.vehicle[order], events.offset_us[order]
    new = _changes(vehicle, offset)
    duplicates = int(vehicle.size - new.sum())
    if duplicates == 0:
        return events, 0
    # Only rows that share their identity need the full order; elsewhere it is already right.
    tied = ~new
    tied[:-1] |= ~new[1:]
    rows = order[tied]
    full = np.lexsort(tuple(column[rows] for column in _identity_last(events)))
    order[tied] = rows[full]
    chosen = order[new]
    return Events(*(column[chosen] for column in events)), duplicates


def _identity_last(events: Events) -> tuple[Int64s, ...]:
    """Sort keys, least important first, as np.lexsort wants them."""
    return events.speed, events.lon_e7, events.lat_e7, events.offset_us, events.vehicle


def _kept(
    vehicle: Int64s, cell: Int64s, offset_us: Int64s, slot_start_s: int, first: Int64s, cap: Cap
) -> NDArray[np.bool_]:
    """Which samples stay: those of lowest keyed rank, by a rule that sees neither speeds nor the order of arrival.

    The rule is keyed through the vehicle's hash, which nobody without the key can tell.
    """
    group = np.repeat(np.arange(first.size), np.diff(first, append=vehicle.size))
    rank = _rank_in_group(group, scatter(vehicle ^ scatter(offset_us ^ scatter(cell))))
    row_vehicle, row_cell = vehicle[first], cell[first]
    vehicle_group = np.cumsum(_changes(row_vehicle, row_vehicle), dtype=np.int64)
    slot_salt = scatter(np.full(first.size, slot_start_s, np.int64))
    cell_rank = _rank_in_group(vehicle_group, scatter(row_vehicle ^ scatter(row_cell ^ slot_salt)))
    return (rank < cap.max_samples) & (cell_rank < cap.max_cells)[group]


def _rank_in_group(group: Int64s, key: Int64s) -> Int64s:
    """Position of each entry among those of its group by key, from 0. group: non-decreasing."""
    order = np.lexsort((key, group))
    start = np.flatnonzero(_changes(group, group))
    rank = np.empty(group.size, np.int64)
    rank[order] = np.arange(group.size) - np.repeat(start, np.diff(start, append=group.size))
    return rank


def _changes(a: Int64s, b: Int64s) -> NDArray[np.bool_]:
    """True where (a, b) differs from the entry before; true at the first."""
    new = np.ones(a.size, np.bool_)
    new[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    return new
