"""Rows of a few vehicles in order of time: as positions, and as events by slot."""

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


def events_of(some):
    """By slot, as they come."""
    found = {}
    for vehicle, tenths, lat, lon in some:
        found.setdefault(tenths // 10 // SLOT_S * SLOT_S, []).append((vehicle, tenths, lat, lon))
    return {
        slot_s: Events(
            vehicle=np.array([row[0] * 1_000_003 for row in mine], np.int64),
            offset_us=np.array([row[1] * S_US // 10 - slot_s * S_US for row in mine], np.int64),
            lat_e7=np.array([300_000_000 + row[2] * 10_000 for row in mine], np.int64),
            lon_e7=np.array([-977_000_000 + row[3] * 10_000 for row in mine], np.int64),
            cell=np.array([row[2] // 10 for row in mine], np.int64),
            speed=np.zeros(len(mine), np.int64),
        )
        for slot_s, mine in found.items()
    }
