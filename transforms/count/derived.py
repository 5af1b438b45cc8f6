"""A period's events get the speeds that their vehicles' consecutive positions give, across slots."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpops.types import Grid
from transforms.count.tally import distinct
from transforms.count.wire import S_US, Events
from transforms.observe.derived_speed import Positions, SpeedLimits, derived_speeds


class WithSpeeds(NamedTuple):
    """slots: the events that have a speed, by the start of their slot. without: how many of the others, by reason."""

    slots: dict[int, Events]
    without: dict[str, int]
    duplicates: int


def with_derived_speeds(slots: Mapping[int, Events], limits: SpeedLimits, grid: Grid) -> WithSpeeds:
    """The same for every order, split and merge of the events, and of the vehicles.

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
    found = derived_speeds(positions, limits, grid)
    chosen = order[found.rows]
    moving = Events(*(column[chosen] for column in whole))._replace(speed=found.steps)
    by_slot = {
        slot_s: Events(*(column[mine] for column in moving))
        for slot_s in slots
        if (mine := slot[chosen] == slot_s).any()
    }
    return WithSpeeds(by_slot, found.without, sum(duplicates for _, duplicates in kept.values()))
