"""Which positions of a timetable are none: not on earth, never filled in, or a world away from its stops."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s
from transforms.places.distance import EARTH_M

NOWHERE = 1.0
"""Degrees around (0, 0) in which a position was never filled in: the nearest land is 500 km away."""
FAR_M, FAR_TIMES = 1e6, 20
"""From the middle of all stops: what is farther, and so many times as far as half of them, is an error."""


class Middle(NamedTuple):
    """The middle of all stops. xyz: in metres from the earth's centre. far_m: farther away is none."""

    xyz: Float64s
    far_m: float

    def holds(self, lat: Float64s, lon: Float64s) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = np.linalg.norm(_xyz(lat, lon) - self.xyz, axis=1) <= self.far_m
        return are_somewhere(lat, lon) & near


def middle_of(lat: Float64s, lon: Float64s) -> Middle:
    """Finds the middle of positions, which few wrong ones do not move."""
    there = are_somewhere(lat, lon)
    if not there.any():
        return Middle(np.zeros(3), np.inf)
    xyz = _xyz(lat[there], lon[there])
    middle: Float64s = np.median(xyz, axis=0)
    half_m = float(np.median(np.linalg.norm(xyz - middle, axis=1)))
    return Middle(middle, max(FAR_M, FAR_TIMES * half_m))


def are_somewhere(lat: Float64s, lon: Float64s) -> NDArray[np.bool_]:
    """Tells which positions are on earth, and not where there is only sea around (0, 0)."""
    somewhere: NDArray[np.bool_] = (
        (np.abs(lat) <= 90) & (np.abs(lon) <= 180) & ((np.abs(lat) > NOWHERE) | (np.abs(lon) > NOWHERE))
    )
    return somewhere


def _xyz(lat: Float64s, lon: Float64s) -> Float64s:
    phi, lam = np.radians(lat), np.radians(lon)
    return EARTH_M * np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
