"""A stage: the public plan of one look at a vehicle-day, fixed before the look."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpops.levels.groups import Level
from dpops.types import Int64s

Kind = Literal["gaussian", "laplace"]

UNIT = 1 << 20
"""M: what the norm of a vehicle-day's whole integer vector may be, in steps."""

CENTRE_STEP_KMH = Fraction(1, 100)
FIRST_CENTRE = 2_000
"""Where nothing is known: 20 km/h, in steps of CENTRE_STEP_KMH."""

EXPONENT = Fraction(3, 4)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How a vehicle-day becomes integers, and what noise their sums get. All of it is public.

    kind: the norm and the noise: Gaussian (Euclidean) or Laplace (sum of absolute values).
    share: of what a vehicle-day may spend; the shares of a release's stages add up to at most 1.
    spread: the variance of the discrete Gaussian, or the scale of the discrete Laplace, in (squared) steps of the
    integers: the same for every query and every stage of a release.
    bound_kmh: B, what the norm of a vehicle-day's weighted residual speeds is clipped to.
    alpha: the part of the share that the speeds get; the weights have the rest.
    centres: int64 (cells, slots), in CENTRE_STEP_KMH. step_kmh: of the speeds' grid.
    exponent: of the number of reports in a HAT, as a multiple of 1/4.
    counts_public: weights are then exact and unscaled, and the speeds have the whole share at twice the bound.
    """

    kind: Kind
    levels: tuple[Level, ...]
    share: Fraction
    spread: Fraction
    bound_kmh: Fraction
    alpha: Fraction
    centres: Int64s = field(repr=False)
    step_kmh: Fraction
    exponent: Fraction = EXPONENT
    counts_public: bool = False

    def __post_init__(self) -> None:
        for shares in ([level.speed_share for level in self.levels], [level.weight_share for level in self.levels]):
            if sum(shares) != 1 or min(shares) < 0:
                raise ValueError(f"the shares of the levels must add up to 1, they are {[str(s) for s in shares]}")
        if not 0 < self.share <= 1 or not 0 < self.alpha < 1:
            raise ValueError("a stage's share must be in (0, 1], and alpha in (0, 1)")
        if self.bound_kmh <= 0 or self.spread <= 0 or self.step_kmh <= 0:
            raise ValueError("the bound, the spread of the noise and the speed step must be above 0")
        if (4 * self.exponent).denominator != 1 or not 0 <= self.exponent <= 1:
            raise ValueError(f"the exponent must be 0, 1/4, 1/2, 3/4 or 1, it is {self.exponent}")
        shape = self.centres.shape
        if any(shape != (len(level.cell_group), len(level.slot_group)) for level in self.levels):
            raise ValueError("centres and levels are not about the same HATs")

    @property
    def groups(self) -> int:
        """Of all levels together: the release has so many weights and so many speeds."""
        return sum(level.size for level in self.levels)

    @property
    def noise_sd(self) -> float:
        """Of every query, in steps (of a discrete Laplace that of the continuous one, which it is just below)."""
        return float(self.spread) ** 0.5 if self.kind == "gaussian" else 2**0.5 * float(self.spread)


def centres_of(speeds_kmh: NDArray[np.float64], lowest: Fraction, highest: Fraction) -> Int64s:
    """Speeds on the grid of centres, cut to [lowest, highest] km/h; what is not a number becomes the first centre."""
    steps = np.where(np.isfinite(speeds_kmh), speeds_kmh, FIRST_CENTRE * float(CENTRE_STEP_KMH))
    cut = np.clip(np.rint(steps / float(CENTRE_STEP_KMH)), float(lowest * 100), float(highest * 100))
    return cut.astype(np.int64)
