"""A period's events get the speeds that their vehicles' consecutive positions give, across slots."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpops.statistics import Column
from dpops.types import Grid
from transforms.count.tally import distinct, tally
from transforms.observe.derived_speed import Positions, SpeedLimits, derived_speeds
from transforms.observe.parse import Rules
from transforms.wire import S_US, Events, Tally


class WithSpeeds(NamedTuple):
    """slots: the events that have a speed, by the start of their slot. without: how many of the others, by reason."""

    slots: dict[int, Events]
    without: dict[str, int]
    duplicates: int


class DerivedTallies(NamedTuple):
    """tallies: one of each slot that has a speed. without, duplicates: as of `WithSpeeds`."""

    tallies: list[Tally]
    without: dict[str, int]
    duplicates: int


def derived_tallies(slots: Mapping[int, Events], rules: Rules, columns: Sequence[Column]) -> DerivedTallies:
    """slots: as of `with_derived_speeds`. rules: with limits of derived speeds."""
    assert rules.derived is not None
    speeds = with_derived_speeds(slots, rules.derived, rules.grid)
    tallies = [tally(events, slot_s, None, columns).tally for slot_s, events in speeds.slots.items()]
    return DerivedTallies(tallies, speeds.without, speeds.duplicates)


def with_derived_speeds(slots: Mapping[int, Events], limits: SpeedLimits, grid: Grid) -> WithSpeeds:
    """Derives speeds: the same for every order, split and merge of the events, and of the vehicles.

    slots: all events of a period, or of some of its vehicles, by the start of their slot in seconds since 1970 UTC.
    """
    kept = {slot_s: distinct(events) for slot_s, events in slots.items()}
    parts = [(slot_s, events) for slot_s, (events, _) in kept.items()]
    if not parts:
        return WithSpeeds({}, {}, 0)
    slot = np.concatenate([np.full(events.vehicle.size, slot_s) for slot_s, events in parts])
    whole = Events(*map(np.concatenate, zip(*(events for _, events in parts), strict=True)))
    event_us = slot * S_US + whole.offset_us
    order = np.lexsort((event_us, whole.vehicle))
    positions = Positions(*(column[order] for column in (whole.vehicle, event_us, whole.lat_e7, whole.lon_e7)))
    speeds = derived_speeds(positions, limits, grid)
    chosen = order[speeds.rows]
    moving = Events(*(column[chosen] for column in whole))._replace(speed=speeds.steps)
    by_slot = {
        slot_s: Events(*(column[in_slot] for column in moving))
        for slot_s in slots
        if (in_slot := slot[chosen] == slot_s).any()
    }
    return WithSpeeds(by_slot, speeds.without, sum(duplicates for _, duplicates in kept.values()))
