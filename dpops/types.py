"""Array types and the public grid that all packages share."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The public integer grid of a bounded quantity: values are 0, 1, .., upper_steps, each worth `step` units."""

    step: Fraction
    upper_steps: int
    upper: Fraction = field(init=False, repr=False, compare=False)
    """The upper bound U, in units."""

    def __post_init__(self) -> None:
        if self.step <= 0 or self.upper_steps < 1:
            raise ValueError(f"a grid needs step > 0 and at least one step, got {self.step} and {self.upper_steps}")
        object.__setattr__(self, "upper", self.step * self.upper_steps)
