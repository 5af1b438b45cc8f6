"""Measures distances of positions, and finds their cells."""

from itertools import repeat
from typing import NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
EARTH_M = 6_371_000.0
NOWHERE = 1.0  # degrees around (0, 0) in which a position was never filled in: the nearest land is 500 km away
FAR_M, FAR_TIMES = 1e6, 20
"""From the middle of all stops: what is farther, and so many times as far as half of them, is an error."""


def distance_m(lat1: Floats, lon1: Floats, lat2: Floats, lon2: Floats) -> Floats:
    """Measures great-circle distances in metres between positions in degrees, by haversines."""
    phi1, lambda1, phi2, lambda2 = (np.radians(column) for column in (lat1, lon1, lat2, lon2))
    haversine = np.sin((phi2 - phi1) / 2) ** 2
    haversine += np.cos(phi1) * np.cos(phi2) * np.sin((lambda2 - lambda1) / 2) ** 2
    metres: Floats = 2 * EARTH_M * np.arcsin(np.sqrt(np.clip(haversine, 0, 1)))  # clipped: rounding may exceed 1
    return metres


def cells_at(lat: Floats, lon: Floats, resolution: int) -> Int64s:
    """Finds H3 cells of degrees, which a release rounds to 1e-7."""
    rounded = (np.rint(degrees * 1e7) / 1e7 for degrees in (lat, lon))
    cells = map(h3_int.latlng_to_cell, *(degrees.tolist() for degrees in rounded), repeat(resolution))
    return np.fromiter(cells, np.int64, lat.size)


class Middle(NamedTuple):
    """Centre of all stops, (3,) metres from the earth's; far_m: radius of plausible positions."""

    xyz: Floats
    far_m: float

    def holds(self, lat: Floats, lon: Floats) -> NDArray[np.bool_]:
        """Marks positions within far_m of the middle."""
        near: NDArray[np.bool_] = np.linalg.norm(_xyz(lat, lon) - self.xyz, axis=1) <= self.far_m
        return are_somewhere(lat, lon) & near


def middle_of(lat: Floats, lon: Floats) -> Middle:
    """Finds the middle of positions by medians, which a few wrong ones hardly move."""
    valid = are_somewhere(lat, lon)
    if not valid.any():
        return Middle(np.zeros(3), far_m=np.inf)  # nothing is too far from it
    xyz = _xyz(lat[valid], lon[valid])
    middle: Floats = np.median(xyz, axis=0)
    half_m = float(np.median(np.linalg.norm(xyz - middle, axis=1)))  # half of the positions are nearer
    return Middle(middle, far_m=max(FAR_M, FAR_TIMES * half_m))


def are_somewhere(lat: Floats, lon: Floats) -> NDArray[np.bool_]:
    """Marks positions on earth and away from (0, 0)."""
    on_earth = (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
    return np.asarray(on_earth & ((np.abs(lat) > NOWHERE) | (np.abs(lon) > NOWHERE)))


def _xyz(lat: Floats, lon: Floats) -> Floats:
    """Converts degrees to metres from the earth's centre, (positions, 3)."""
    phi, lam = np.radians(lat), np.radians(lon)
    return EARTH_M * np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
