"""GTFS-realtime TripUpdates: a vehicle's delay at its next stop, in seconds, by route, trip, direction or stop.

A row has the time of its update, or of the feed where the update says none: a prediction's own time is no report's.
"""

from fractions import Fraction

from transforms.layouts.base import OwnLayout, Units, with_keys
from transforms.layouts.own.gtfs_realtime import CHOICES, GtfsRealtime
from transforms.value import NAME

LAYOUT = OwnLayout(
    GtfsRealtime(Units("s", Fraction(1)), ("id", "timestamp", "delay"), with_keys(0), "trip_update"),
    form="binary",
    choices={**CHOICES, NAME: ("delay",)},
    units_of={"delay": "s"},
    has_positions=False,
)
