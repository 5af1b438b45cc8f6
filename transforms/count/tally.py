"""Tallies per vehicle and cell, deduplicated and capped.

A pair is a vehicle and a cell. `factorize` codes a column by its distinct values, `changes` marks entries unlike the
one before, and `scatter` hashes integers. A pane's candidates are the samples that its slot's cap may let stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpops.statistics import Column
from dpops.types import Int64s
from transforms.observe.derived_speed import Positions, derived_headings, derived_speeds
from transforms.observe.parse import Rules
from transforms.order import DistinctValues, changes, factorize, packed_keys, pairs, rank_in_group, scatter
from transforms.places.ground import MOST_KEYS, Ground
from transforms.places.hexagons import cells_at
from transforms.records import BY_KEY
from transforms.wire import NO_EVENTS, NO_SAMPLES, S_US, Events, EventSpans, Partial, Samples, Tally


@dataclass(frozen=True)
class ContributionBound:
    """Contribution bound of a vehicle's cells and samples."""

    max_cells: int
    max_samples: int


def tally(events: Events, slot_s: int, cap: ContributionBound | None, columns: Sequence[Column]) -> tuple[Tally, int]:
    """Tallies one slot and vehicle shard, and counts dropped duplicates.

    Neither the order nor the split of events matters. An observation is identified by (vehicle, event time), and by its
    public key if it has one. Of several, the one with the smallest position stays, then with the smallest cell, then
    with the smallest value: so no value decides a cell or a count. slot_s: the slot's start. cap: None where all
    samples count. columns: the sums of values to make.
    """
    partial, duplicates = tally_pane(events, cap, columns)
    return merge_panes([partial], slot_s, cap, columns), duplicates


def tally_pane(events: Events, cap: ContributionBound | None, columns: Sequence[Column]) -> tuple[Partial, int]:
    """Tallies a pane by pair, and counts duplicates; panes share no event time."""
    vehicle = factorize(events.vehicle)
    is_first, duplicates = _distinct(events, vehicle)
    if duplicates:
        events, vehicle = events.take(is_first), vehicle._replace(code=vehicle.code[is_first])
    cell = factorize(events.cell)
    pair, row = pairs(vehicle, cell)  # pair: vehicle's code * number of cells + cell's code; row: each event's pair
    of_vehicle, of_cell = np.divmod(pair, max(1, cell.values.size))  # each pair's codes; 1: without events
    rows = vehicle.values[of_vehicle], cell.values[of_cell], np.bincount(row, minlength=pair.size).astype(np.int64)
    if cap is None:
        sums = {column.name: column.add_up(events.value, row, pair.size) for column in columns}
        return Partial(*rows, sums, NO_SAMPLES), duplicates
    return Partial(*rows, {}, _candidates(events, row, cap)), duplicates  # sums once panes are merged and capped


def merge_panes(
    partials: Sequence[Partial], slot_start_s: int, cap: ContributionBound | None, columns: Sequence[Column]
) -> Tally:
    """Merges a slot's panes of a vehicle shard into a tally; applies the cap."""
    rows = _added_up(partials)
    sums, samples = rows.sums, rows.reported
    if cap is not None:
        # The samples of lowest rank stay, in a vehicle's cells of lowest rank. Ranks are keyed hashes, random for each
        # slot: no value and no order of arrival decides. Candidates are sorted as `rows`, each of which has some.
        candidates = rows.samples
        row = np.cumsum(changes(candidates.vehicle, candidates.cell), dtype=np.int64) - 1  # each one's pair in `rows`
        vehicle_group = np.cumsum(changes(rows.vehicle), dtype=np.int64)
        slot_salt = scatter(np.full(rows.vehicle.size, slot_start_s, np.int64))
        cell_rank = rank_in_group(vehicle_group, scatter(rows.vehicle ^ scatter(rows.cell ^ slot_salt)))
        stays = (rank_in_group(row, candidates.rank) < cap.max_samples) & (cell_rank < cap.max_cells)[row]
        row = row[stays]
        sums = {column.name: column.add_up(candidates.value[stays], row, rows.vehicle.size) for column in columns}
        samples = np.bincount(row, minlength=rows.vehicle.size).astype(np.int64)
    slot_s = np.full(rows.vehicle.size, slot_start_s, np.int64)
    return Tally(slot_s, rows.vehicle, rows.cell, kept=samples, dropped=rows.reported - samples, sums=sums)


def event_spans(events: Events) -> EventSpans:
    """Computes each vehicle's first and last `offset_us`, (vehicles,), in order of vehicles."""
    order = np.argsort(events.vehicle)
    vehicle, offset_us = events.vehicle[order], events.offset_us[order]
    first = np.flatnonzero(changes(vehicle))
    return EventSpans(np.minimum.reduceat(offset_us, first), np.maximum.reduceat(offset_us, first))


def admit_late(
    partials: Sequence[Partial], cap: ContributionBound | None, columns: Sequence[Column]
) -> tuple[list[Partial], int, int]:
    """Adds late events that repeat no counted event; counts the refused, and duplicates.

    Panes remember a vehicle's first and last event time, its span; late events inside one may be copies: refused.
    """
    late = Events(*map(np.concatenate, zip(*(partial.late for partial in partials), strict=True)))
    if not late.vehicle.size:
        return list(partials), 0, 0
    # A vehicle's spans do not overlap, as panes do not: an event can lie only in the last span that begins before it.
    span_vehicle = np.concatenate([np.unique(partial.vehicle) for partial in partials])  # of each span
    first_us, last_us = (np.concatenate(ends) for ends in zip(*(partial.spans for partial in partials), strict=True))
    # Keys that sort by (vehicle, time): of spans' first events, then of late events.
    keys = packed_keys(np.concatenate([span_vehicle, late.vehicle]), np.concatenate([first_us, late.offset_us]))
    order = np.argsort(keys[: span_vehicle.size])
    latest = np.searchsorted(keys[order], keys[span_vehicle.size :], side="right") - 1  # each event's span, in `order`
    may_be_copy = np.zeros(late.vehicle.size, np.bool_)
    rows = np.flatnonzero(latest >= 0)  # others are before all spans
    span = order[latest[rows]]
    may_be_copy[rows] = (span_vehicle[span] == late.vehicle[rows]) & (late.offset_us[rows] <= last_us[span])
    partial, duplicates = tally_pane(late.take(~may_be_copy), cap, columns)
    return [*partials, partial], int(may_be_copy.sum()), duplicates


def _added_up(partials: Sequence[Partial]) -> Partial:
    """Adds up panes' entries by pair, and sorts their samples by pair."""
    if len(partials) == 1:
        return partials[0]
    entries = ((partial.vehicle, partial.cell, partial.reported) for partial in partials)
    vehicle, cell, reported = map(np.concatenate, zip(*entries, strict=True))
    order = np.argsort(packed_keys(vehicle, cell))
    vehicle, cell = vehicle[order], cell[order]
    first = np.flatnonzero(changes(vehicle, cell))  # each pair's first entry: one pair may be in several panes

    def added(columns: Iterable[Int64s]) -> Int64s:
        column = np.concatenate(list(columns))[order]
        return np.add.reduceat(column, first) if first.size else column

    sums = {name: added(partial.sums[name] for partial in partials) for name in partials[0].sums}
    samples = Samples(*map(np.concatenate, zip(*(partial.samples for partial in partials), strict=True)))
    sample_order = np.argsort(packed_keys(samples.vehicle, samples.cell))
    samples = Samples(*(column[sample_order] for column in samples))
    return Partial(vehicle[first], cell[first], added([reported]), sums, samples)  # late events are in a pane by now


def distinct(events: Events) -> tuple[Events, int]:
    """Drops and counts duplicates of (vehicle, event time)."""
    stays, duplicates = _distinct(events, factorize(events.vehicle))
    return (events.take(stays), duplicates) if duplicates else (events, 0)


def _distinct(events: Events, vehicle: DistinctValues) -> tuple[NDArray[np.bool_], int]:
    """Marks one event per identity, (vehicle, time) and any key; counts the others."""
    time = events.offset_us  # since the start of the slot, which all events share
    if (events.lat_e7[:1] == BY_KEY).any():  # all events have a public key in place of a position, or none has
        time = time * MOST_KEYS + events.lon_e7  # time and key in one integer: lon_e7 holds the key's number then
    identity = packed_keys(vehicle, time)
    ordered = np.sort(identity)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return np.ones(identity.size, np.bool_), 0
    is_shared = pc.is_in(pa.array(identity), pa.array(np.unique(repeated))).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_shared)  # only events that share their identity need the full order
    # Sorts by identity, the last key of lexsort; the others choose among equal ones, so that arrival does not.
    columns = (events.value, events.cell, events.lon_e7, events.lat_e7, identity)
    rows = rows[np.lexsort([column[rows] for column in columns])]
    stays = ~is_shared
    stays[rows[changes(identity[rows])]] = True
    return stays, repeated.size


def _candidates(events: Events, row: Int64s, cap: ContributionBound) -> Samples:
    """Picks each pair's lowest-ranked samples for the cap; row: each event's pair."""
    order = np.argsort(row, kind="stable")
    vehicle, offset_us, _lat, _lon, cell, value = (column[order] for column in events)
    # The vehicle is a keyed hash: a random rank that nobody without the key can compute.
    rank = scatter(vehicle ^ scatter(offset_us ^ scatter(cell)))
    lowest = rank_in_group(row[order], rank) < cap.max_samples
    return Samples(vehicle[lowest], cell[lowest], rank[lowest], value[lowest])


class Ordered(NamedTuple):
    """Distinct events of a period, by (vehicle, time)."""

    events: Events
    slot_s: Int64s  # start of each event's slot, in seconds since 1970 UTC
    duplicates: int

    @property
    def positions(self) -> Positions:
        """Positions with absolute event times."""
        events = self.events
        return Positions(events.vehicle, self.slot_s * S_US + events.offset_us, events.lat_e7, events.lon_e7)

    def by_slot(self) -> dict[int, Events]:
        """Splits the events by start of slot."""
        return {slot_s: self.events.take(self.slot_s == slot_s) for slot_s in np.unique(self.slot_s).tolist()}


def derived_events(slots: Mapping[int, Events], rules: Rules, ground: Ground) -> tuple[Ordered, dict[str, int]]:
    """Derives a period's speeds and headings; counts rows without speed by reason."""
    events_by_slot, slots_s, duplicates = [NO_EVENTS], [np.zeros(0, np.int64)], 0
    for start_s, slot_events in slots.items():
        events, copies = distinct(slot_events)
        events_by_slot.append(events)
        slots_s.append(np.full(events.vehicle.size, start_s))
        duplicates += copies
    joined, slot_s = Events(*map(np.concatenate, zip(*events_by_slot, strict=True))), np.concatenate(slots_s)
    order = np.lexsort((slot_s * S_US + joined.offset_us, joined.vehicle))  # by vehicle, then time
    ordered = Ordered(joined.take(order), slot_s[order], duplicates)
    if rules.turning is not None:  # a report's place depends on its heading, which is derived by these limits
        assert ground.resolution is not None, "keys have no positions"
        events = ordered.events
        cells = cells_at(events.lat_e7, events.lon_e7, ground.resolution)
        headings = derived_headings(ordered.positions, rules.turning)  # `keys` finds a cell's place by heading
        ordered = ordered._replace(events=events._replace(cell=ground.keys(cells, headings)))
    if rules.derived is None:  # rows have speeds of their own
        return ordered, {}
    rows, speeds, refusals = derived_speeds(ordered.positions, rules.derived, rules.grid)
    moving = ordered.events.take(rows)._replace(value=speeds)
    return ordered._replace(events=moving, slot_s=ordered.slot_s[rows]), refusals
