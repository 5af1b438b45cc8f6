"""Shapes on both sides of the antimeridian: neighbours on the ground, and so side by side on a page."""

from collections.abc import Iterable

import numpy as np

from hatstream_publish.pages.places import DrawnShape, Float64s

Box = tuple[float, float, float, float]
"""West, south, east, north in degrees; west is greater than east across the antimeridian (RFC 7946, 5.2)."""


def middle_of(lons: Float64s) -> float:
    """Finds the longitude opposite to the widest gap around the globe, from -180 to 180; 0 for none."""
    if not lons.size:
        return 0.0
    around = np.unique(lons % 360)
    gaps = np.diff(around, append=around[0] + 360)
    widest = gaps.argmax()
    return float((around[widest] + gaps[widest] / 2) % 360 - 180)


def turns(lons: Float64s, middle: float) -> Float64s:
    """Finds what to add to each longitude, a multiple of 360, so that it is at most half a turn from the middle."""
    return 360 * np.rint((middle - lons) / 360)


def box_of(shapes: Iterable[DrawnShape]) -> Box:
    """Finds the box that holds all shapes; nothing but zeros for none."""
    positions = [position for shape in shapes for part in shape.parts for position in part]
    lons, lats = np.array(positions or [(0.0, 0.0)], np.float64).T
    lons = lons + turns(lons, middle_of(lons))
    west, east = float(lons.min()), float(lons.max())
    west, east = west + 360 if west < -180 else west, east - 360 if east > 180 else east
    return west, float(lats.min()), east, float(lats.max())
