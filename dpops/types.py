"""Shared types: arrays, grid, public counts; conversions of rationals."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Per = Literal["hat", "period"]  # unit of a budget
Scope = Literal["slot", "period"]  # extent of a plan


class CountsKnown(NamedTuple):
    """Public counts of a HAT, the input of plans.

    Where counts are secret, plans see public facts alone (`dpops.levels.BoundsOnly`). counts: int64 (users,), samples
    kept per user, each >= 1, in canonical order. reported: samples that the HAT's true value is over; more than
    counts.sum() where a cap dropped some.

    >>> CountsKnown.all_of(np.array([5, 3, 1])).reported
    9
    """

    counts: Int64s
    reported: int

    @classmethod
    def all_of(cls, counts: Int64s) -> "CountsKnown":
        """Makes the counts of a HAT without dropped samples."""
        return cls(counts, int(counts.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Public integer grid 0, 1, .., upper_steps.

    >>> Grid(step=Fraction(1, 100), upper_steps=6_500).upper
    Fraction(65, 1)
    """

    step: Fraction
    upper_steps: int
    upper: Fraction = field(init=False, repr=False, compare=False)
    """The upper bound U, in units."""

    def __post_init__(self) -> None:
        if self.step <= 0 or self.upper_steps < 1:
            raise ValueError(f"a grid needs step > 0 and at least one step, got {self.step} and {self.upper_steps}")
        object.__setattr__(self, "upper", self.step * self.upper_steps)


@lru_cache(maxsize=4096)
def fraction(text: str) -> Fraction:
    """Reads a rational number, cached: plans share a few."""
    return Fraction(text)
