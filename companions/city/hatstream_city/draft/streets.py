"""What is drafted for a map of streets: a file of segments, and headings where a sample has them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hatstream_city.draft.columns import as_array
from hatstream_city.draft.units import units

_HEADINGS = re.compile(r"heading|hdg|bearing|course|cog|azimuth|track|direction|richtung|rumbo|cap")
LEAST_SHARE, LEAST_DEGREES = 0.5, 10
"""Of the rows that have a heading, and of the largest: a direction_id of 0 or 1 is none."""


def find_heading(columns: Mapping[str, Sequence[Any]]) -> str | None:
    """Finds the column that says which way vehicles go, in degrees, for most rows; by its name and its values."""
    named = [name for name in columns if _HEADINGS.fullmatch(re.sub(r"[^a-z]", "", name.split(".")[-1].lower()))]
    return next((name for name in named if _share(columns[name]) >= LEAST_SHARE), None)


def _share(values: Sequence[Any]) -> float:
    array = as_array(values)
    degrees = None if array is None or not len(array) else units().numbers(array)
    if degrees is None or not degrees.valid.any() or not LEAST_DEGREES < degrees.values.max() <= 360:
        return 0.0
    return float((degrees.valid & (degrees.values > 0)).mean())


def said(segments: int, heading: str | None) -> str:
    """Tells in words what was found."""
    if heading is None:
        return f"{segments:,} segments from stop to stop; both directions of a street are one, for want of headings"
    return f"{segments:,} segments from stop to stop, each of one direction, by {heading}"
