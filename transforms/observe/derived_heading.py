"""Headings of feeds that have none: from a vehicle's consecutive positions, within public limits.

Exact, as speeds that are derived: what a vehicle's rows give depends on its own rows alone, bit for bit.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpops.types import Float64s, Int64s
from transforms.observe.derived_speed import METRES_PER_E7, Positions, displacement, follows
from transforms.places.ground import SECTORS
from transforms.records import NO_HEADING

_EDGES = [math.radians(360 / SECTORS * (number + 0.5)) for number in range(SECTORS // 2)]


@dataclass(frozen=True)
class HeadingLimits:
    """Public. max_gap_s: between two positions, at most. min_m: what is nearer may be an error of a position."""

    max_gap_s: int
    min_m: int


def derived_headings(positions: Positions, limits: HeadingLimits) -> Int64s:
    """Finds which way the vehicle of each row goes, whole degrees in the middle of a sector, or NO_HEADING.

    It is the way from the vehicle's row before where that is far enough; else the vehicle still looks where it went
    before. Nothing is known before it went anywhere, nor again after a gap.
    """
    near = follows(positions, limits.max_gap_s)
    rows = np.flatnonzero(near)
    east, north = displacement(positions, rows)
    far = np.sqrt(east * east + north * north) * METRES_PER_E7 >= limits.min_m
    heading = np.full(near.size, NO_HEADING, np.int64)
    heading[rows[far]] = sectors(east[far], north[far]) * 360 // SECTORS
    decides = ~near
    decides[rows[far]] = True
    return heading[np.maximum.accumulate(np.where(decides, np.arange(near.size), 0))] if near.size else heading


def sectors(east: Float64s, north: Float64s) -> Int64s:
    """Finds each direction's sector, see `ground.sector_of`: by products alone, which round alike everywhere."""
    turned = (east < 0) | ((east == 0) & (north < 0))
    sign = np.where(turned, -1.0, 1.0)
    passed = sum((sign * east * math.cos(edge) >= sign * north * math.sin(edge)).astype(np.int64) for edge in _EDGES)
    return np.asarray((passed + turned * (SECTORS // 2)) % SECTORS, np.int64)
