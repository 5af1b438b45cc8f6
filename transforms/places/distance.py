"""How far positions on the earth lie from each other."""

import numpy as np

from dpops.types import Float64s

EARTH_M = 6_371_000.0


def distance_m(lat1: Float64s, lon1: Float64s, lat2: Float64s, lon2: Float64s) -> Float64s:
    """Measures great-circle distances by the haversine formula; positions in degrees."""
    a, b, c, d = (np.radians(column) for column in (lat1, lon1, lat2, lon2))
    half = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    metres: Float64s = 2 * EARTH_M * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
    return metres
