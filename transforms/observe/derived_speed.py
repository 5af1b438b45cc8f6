"""Speeds and headings derived from a vehicle's consecutive positions.

Exact and local: integers, and floats with + - * / and square roots alone, which round alike at any place in an array.
So what a vehicle's rows give depends on its own rows, not on other vehicles, shards or batches. Rows are sorted by
vehicle and time; `changes` marks each vehicle's first one.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s, Grid, Int64s
from transforms.order import changes
from transforms.places.ground import SECTORS
from transforms.records import NO_HEADING

METRES_PER_E7 = math.pi / 180 * 6_371_008.8 * 1e-7
"""Of a degree's ten-millionth on a great circle; the mean radius of the Earth."""
_TURN_E7 = 3_600_000_000  # 360 degrees
_COS_STEP_E7 = 100_000  # 0.01 degrees: a distance is off by 0.02 % at most
_COS_BITS = 30  # cosines are integers times 2**-30, so that products are exact
_COSINE: Int64s = np.array([round(math.cos(math.radians(i / 100)) * (1 << _COS_BITS)) for i in range(9_001)], np.int64)

FIRST, GAP, TOO_FAST = "first-of-day", "gap", "too-fast"
"""Why a row has no speed: nothing precedes it, not soon enough, or not near enough."""


@dataclass(frozen=True)
class SpeedLimits:
    """Public limits of derived speeds."""

    max_gap_s: int  # between two positions
    max_kmh: Fraction  # above it a position is an error


class Positions(NamedTuple):
    """Distinct positions by vehicle and time, int64 (rows,) each."""

    vehicle: Int64s
    event_us: Int64s
    lat_e7: Int64s
    lon_e7: Int64s


def derived_speeds(positions: Positions, limits: SpeedLimits, grid: Grid) -> tuple[Int64s, Int64s, dict[str, int]]:
    """Derives speeds since the predecessor, clamped to the grid.

    Returns indices of rows with a speed, their speeds in steps of the grid, and numbers of other rows by reason.
    """
    is_near, is_first = follows(positions, limits.max_gap_s), changes(positions.vehicle)  # near: after a short gap
    rows = np.flatnonzero(is_near)
    east, north = displacement(positions, rows)
    gap_us = positions.event_us[rows] - positions.event_us[rows - 1]
    kmh = np.sqrt(east * east + north * north) * METRES_PER_E7 / gap_us * 3_600_000.0  # from metres a microsecond
    slow = kmh <= float(limits.max_kmh)  # faster is a wrong position; up to it, speeds above the grid count as its end
    steps = np.rint(np.minimum(kmh[slow] / float(grid.step), grid.upper_steps)).astype(np.int64)
    refused = {FIRST: int(is_first.sum()), GAP: int((~is_first & ~is_near).sum()), TOO_FAST: int((~slow).sum())}
    return rows[slow], steps, {reason: number for reason, number in refused.items() if number}


def follows(positions: Positions, max_gap_s: int) -> NDArray[np.bool_]:
    """Marks rows within `max_gap_s` of the vehicle's previous row."""
    gap_us = np.diff(positions.event_us, prepend=positions.event_us[:1])
    return ~changes(positions.vehicle) & (gap_us <= max_gap_s * 1_000_000)


def displacement(positions: Positions, rows: Int64s) -> tuple[Float64s, Float64s]:
    """Measures displacements since the previous row, east and north, in great-circle 1e-7 degrees."""
    lat, lon = positions.lat_e7, positions.lon_e7
    cosine_index = np.abs(lat[rows] + lat[rows - 1]) // (2 * _COS_STEP_E7)  # of the mean latitude, in _COSINE
    east = lon[rows] - lon[rows - 1]
    east = np.where(np.abs(east) > _TURN_E7 // 2, east - np.sign(east) * _TURN_E7, east)  # across the antimeridian
    east = (east * _COSINE[cosine_index]) >> _COS_BITS  # a degree of longitude shrinks by the cosine, in fixed point
    return east.astype(np.float64), (lat[rows] - lat[rows - 1]).astype(np.float64)


_EDGES = [math.radians(360 / SECTORS * (number + 0.5)) for number in range(SECTORS // 2)]
"""Bearings at which the eastern half's sectors end."""


@dataclass(frozen=True)
class HeadingLimits:
    """Public limits of derived headings."""

    max_gap_s: int  # between two positions
    min_m: int  # below it a displacement may be an error


def derived_headings(positions: Positions, limits: HeadingLimits) -> Int64s:
    """Derives headings, middles of sectors in degrees, or NO_HEADING.

    A row has the heading of its displacement; where that is short, the previous row's, if no gap lies between.
    """
    is_near = follows(positions, limits.max_gap_s)  # at most so long after the vehicle's previous row
    rows = np.flatnonzero(is_near)
    east, north = displacement(positions, rows)
    is_far = np.sqrt(east * east + north * north) * METRES_PER_E7 >= limits.min_m
    heading = np.full(is_near.size, NO_HEADING, np.int64)
    heading[rows[is_far]] = sectors(east[is_far], north[is_far]) * 360 // SECTORS
    has_own = ~is_near
    has_own[rows[is_far]] = True
    # Each row takes the heading of the last row at or before it that has one of its own, or a gap before it.
    return heading[np.maximum.accumulate(np.where(has_own, np.arange(is_near.size), 0))] if is_near.size else heading


def sectors(east: Float64s, north: Float64s) -> Int64s:
    """Computes each direction's sector by products, which all machines round alike.

    Directions to the west are turned by half a circle; the sector, clockwise from north, is then the number of _EDGES,
    bearings at which the eastern half's sectors end, up to this one.
    """
    is_west = (east < 0) | ((east == 0) & (north < 0))
    sign = np.where(is_west, -1.0, 1.0)
    number = sum((sign * east * math.cos(edge) >= sign * north * math.sin(edge)).astype(np.int64) for edge in _EDGES)
    return np.asarray((number + is_west * (SECTORS // 2)) % SECTORS, np.int64)
