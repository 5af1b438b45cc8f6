"""Measures distances of positions, and finds their cells."""

from itertools import repeat

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
    """Finds H3 cells of degrees, which a release rounds to 1e-7; 0 for NaN."""
    lon = np.where(np.abs(lon) > 180, lon - 360 * np.sign(lon), lon)  # of lines across the antimeridian
    fits = ~np.isnan(lat) & ~np.isnan(lon)
    rounded = (np.rint(degrees[fits] * 1e7) / 1e7 for degrees in (lat, lon))
    cells = np.zeros(lat.size, np.int64)
    cells[fits] = [*map(h3_int.latlng_to_cell, *(degrees.tolist() for degrees in rounded), repeat(resolution))]
    return cells


def are_plausible(lat: Floats, lon: Floats, stop_lat: Floats, stop_lon: Floats) -> NDArray[np.bool_]:
    """Marks positions on earth, not around (0, 0), nor far from all stops."""
    has_position = _are_somewhere(stop_lat, stop_lon)
    if not has_position.any():  # nothing is too far
        return _are_somewhere(lat, lon)
    stops = _xyz(stop_lat[has_position], stop_lon[has_position])
    middle = np.median(stops, axis=0)  # which a few wrong ones hardly move
    half_m = float(np.median(np.linalg.norm(stops - middle, axis=1)))  # half of the stops are nearer
    far_m = np.linalg.norm(_xyz(lat, lon) - middle, axis=1)
    return np.asarray(_are_somewhere(lat, lon) & (far_m <= max(FAR_M, FAR_TIMES * half_m)))


def _are_somewhere(lat: Floats, lon: Floats) -> NDArray[np.bool_]:
    """Marks positions on earth and away from (0, 0)."""
    on_earth = (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
    return np.asarray(on_earth & ((np.abs(lat) > NOWHERE) | (np.abs(lon) > NOWHERE)))


def _xyz(lat: Floats, lon: Floats) -> Floats:
    """Converts degrees to metres from the earth's centre, (positions, 3)."""
    phi, lam = np.radians(lat), np.radians(lon)
    return EARTH_M * np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
