"""Rows of a few vehicles in order of time, as positions and as events, and what must hold of all that is derived."""

import numpy as np
from hypothesis import strategies as st

from transforms.observe.derived_speed import Positions
from transforms.wire import S_US, Events

SLOT_S = 3_600


def positions(*rows):
    """rows: (vehicle, seconds, latitude, longitude)."""
    columns = [(vehicle, round(s * S_US), round(lat * 1e7), round(lon * 1e7)) for vehicle, s, lat, lon in rows]
    return Positions(*np.array(columns, np.int64).T)


rows = st.lists(
    st.tuples(
        st.integers(1, 6),  # vehicle
        st.integers(0, 3 * SLOT_S * 10 - 1),  # tenths of a second, over three slots
        st.integers(0, 40),  # of 0.001 degrees
        st.integers(0, 40),
    ),
    max_size=60,
)


def id_of(vehicle):
    """The id that `events_of` gives a vehicle of `rows`."""
    return vehicle * 1_000_003


def events_of(some):
    """By slot, as they come."""
    slots = {}
    for vehicle, tenths, lat, lon in some:
        slots.setdefault(tenths // 10 // SLOT_S * SLOT_S, []).append((vehicle, tenths, lat, lon))
    return {
        slot_s: Events(
            vehicle=np.array([id_of(row[0]) for row in events], np.int64),
            offset_us=np.array([row[1] * S_US // 10 - slot_s * S_US for row in events], np.int64),
            lat_e7=np.array([300_000_000 + row[2] * 10_000 for row in events], np.int64),
            lon_e7=np.array([-977_000_000 + row[3] * 10_000 for row in events], np.int64),
            cell=np.array([row[2] // 10 for row in events], np.int64),
            value=np.zeros(len(events), np.int64),
        )
        for slot_s, events in slots.items()
    }


def in_one_order(ordered):
    """Every event as a tuple, its slot first."""
    return sorted(
        (slot_s, *map(int, row)) for slot_s, events in ordered.by_slot().items() for row in zip(*events, strict=True)
    )


def check_any_order_and_parting(told, some, random, parts):
    """told: gives the derived events of some rows, in one order."""
    whole = told(some)
    shuffled = random.sample(some, len(some))
    assert told(shuffled) == whole
    apart = [told([row for row in shuffled if row[0] % parts == part]) for part in range(parts)]
    assert sorted(row for part in apart for row in part) == whole


def check_without_each_vehicle(told, some):
    """told: as above. The other vehicles' events do not change."""
    whole = told(some)
    for gone in {row[0] for row in some}:
        left = told([row for row in some if row[0] != gone])
        assert left == [row for row in whole if row[1] != id_of(gone)]
