"""What vehicles' consecutive positions give a period's events, across slots: speeds, and places by heading."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpops.statistics import Column
from dpops.types import Grid, Int64s
from transforms.count.tally import distinct, tally
from transforms.observe.derived_heading import HeadingLimits, derived_headings
from transforms.observe.derived_speed import Positions, SpeedLimits, derived_speeds
from transforms.observe.hexagons import cells_at
from transforms.observe.parse import Rules
from transforms.places.ground import Ground
from transforms.wire import S_US, Events, Tally


class DerivedTallies(NamedTuple):
    """tallies: one of each slot that has events. without: how many rows have no speed, by reason."""

    tallies: list[Tally]
    without: dict[str, int]
    duplicates: int


class Ordered(NamedTuple):
    """All events of a period, or of some of its vehicles, each (vehicle, event time) once, in ascending order of these.

    slot_s: start of the slot of each, in seconds since 1970 UTC.
    """

    events: Events
    slot_s: Int64s
    duplicates: int

    @property
    def positions(self) -> Positions:
        events = self.events
        return Positions(events.vehicle, self.slot_s * S_US + events.offset_us, events.lat_e7, events.lon_e7)

    def by_slot(self) -> dict[int, Events]:
        return {
            slot_s: Events(*(column[self.slot_s == slot_s] for column in self.events))
            for slot_s in np.unique(self.slot_s).tolist()
        }


class WithSpeeds(NamedTuple):
    """ordered: the events that have a speed. without: how many of the others, by reason."""

    ordered: Ordered
    without: dict[str, int]


def derived_tallies(
    slots: Mapping[int, Events], rules: Rules, ground: Ground, columns: Sequence[Column]
) -> DerivedTallies:
    """Tallies events. slots, ground: as of `derived_events`."""
    ordered, without = derived_events(slots, rules, ground)
    tallies = [tally(events, slot_s, None, columns).tally for slot_s, events in ordered.by_slot().items()]
    return DerivedTallies(tallies, without, ordered.duplicates)


def derived_events(slots: Mapping[int, Events], rules: Rules, ground: Ground) -> WithSpeeds:
    """Derives what events lack. slots: as of `in_order`. ground: by which their places were found without a heading."""
    ordered = in_order(slots)
    if rules.turning is not None:
        ordered = with_derived_headings(ordered, rules.turning, ground)
    if rules.derived is not None:
        return with_derived_speeds(ordered, rules.derived, rules.grid)
    return WithSpeeds(ordered, {})


def in_order(slots: Mapping[int, Events]) -> Ordered:
    """Puts events in order: the same for every order, split and merge of the events, and of the vehicles.

    slots: all events of a period, or of some of its vehicles, by the start of their slot in seconds since 1970 UTC.
    """
    by_slot = {slot_s: distinct(events) for slot_s, events in slots.items()}
    if not by_slot:
        nothing = np.zeros(0, np.int64)
        return Ordered(Events(*[nothing] * len(Events._fields)), nothing, 0)
    slot_s = np.concatenate([np.full(events.vehicle.size, start_s) for start_s, (events, _) in by_slot.items()])
    whole = Events(*map(np.concatenate, zip(*(events for events, _ in by_slot.values()), strict=True)))
    order = np.lexsort((slot_s * S_US + whole.offset_us, whole.vehicle))
    events = Events(*(column[order] for column in whole))
    return Ordered(events, slot_s[order], sum(duplicates for _, duplicates in by_slot.values()))


def with_derived_headings(ordered: Ordered, limits: HeadingLimits, ground: Ground) -> Ordered:
    """Finds anew what each event is counted under, by the heading that its vehicle's rows give."""
    events = ordered.events
    assert ground.resolution is not None, "keys have no positions"
    cells = cells_at(events.lat_e7, events.lon_e7, ground.resolution)
    pieces = ground.keys(cells, derived_headings(ordered.positions, limits))
    return ordered._replace(events=events._replace(cell=pieces))


def with_derived_speeds(ordered: Ordered, limits: SpeedLimits, grid: Grid) -> WithSpeeds:
    """Gives each event the speed on the way to it; leaves out those that have none."""
    speeds = derived_speeds(ordered.positions, limits, grid)
    moving = Events(*(column[speeds.rows] for column in ordered.events))._replace(value=speeds.steps)
    return WithSpeeds(ordered._replace(events=moving, slot_s=ordered.slot_s[speeds.rows]), speeds.without)
