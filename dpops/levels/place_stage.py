"""Last stage of a day: vectors over places' days.

Source: docs/released.md. In one norm with levels of hours, these would take most of it.
"""

from dataclasses import replace
from fractions import Fraction

from dpops.levels.stages import PLACE, Stage, alike, with_last

BOUND_KMH, ALPHA = Fraction(7), Fraction(17, 20)
EXPONENT = Fraction(1)
"""A place's mean is over reports: with a smaller one it would lean to vehicles that pass fast."""


def with_places(stages: tuple[Stage, ...], share: Fraction) -> tuple[Stage, ...]:
    """Adds a stage of places, at a share."""
    parts = alike(((PLACE, Fraction(1)),))
    last = replace(stages[-1], parts=parts, alpha=ALPHA, classes=(), least_norm=0)
    return with_last(stages, replace(last, bound_kmh=BOUND_KMH, exponent=EXPONENT), share)
