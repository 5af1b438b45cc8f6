"""GTFS-realtime TripUpdates: delays at next stops, in seconds."""

from fractions import Fraction

from transforms.layouts.base import OwnLayout, Units, with_keys
from transforms.layouts.own.gtfs_realtime import CHOICES, KEYS, GtfsRealtime
from transforms.value import NAME

LAYOUT = OwnLayout(
    GtfsRealtime(Units("s", Fraction(1)), ("id", "timestamp", "delay"), with_keys(0), "trip_update"),
    form="binary",
    choices={**CHOICES, **dict.fromkeys(with_keys(2)[2:4], (*KEYS, "next_stop_id")), NAME: ("delay",)},
    units_of={"delay": "s"},
    has_positions=False,
)
