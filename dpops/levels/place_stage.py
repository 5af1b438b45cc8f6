"""A day's last stage: a vehicle-day's vector over places, each with its whole day, with a norm of its own.

Source: docs/streets.md. Beside levels of hours it would get little of its share: most of such a norm is theirs.
"""

from dataclasses import replace
from fractions import Fraction

from dpops.levels.groups import PLACE
from dpops.levels.stages import Stage, alike

BOUND_KMH, ALPHA = Fraction(7), Fraction(17, 20)
EXPONENT = Fraction(1)
"""A place's mean is over reports: with a smaller one it would lean to vehicles that pass fast."""


def with_places(stages: tuple[Stage, ...], share: Fraction) -> tuple[Stage, ...]:
    """A day's stages with one more of its places, which has this part of what all had; these keep the rest."""
    whole = sum((stage.share for stage in stages), Fraction(0))
    coarse = (replace(stage, share=stage.share * (1 - share)) for stage in stages)
    last = replace(
        stages[-1],
        parts=alike(((PLACE, Fraction(1)),)),
        share=share * whole,
        bound_kmh=BOUND_KMH,
        alpha=ALPHA,
        exponent=EXPONENT,
    )
    return (*coarse, last)
