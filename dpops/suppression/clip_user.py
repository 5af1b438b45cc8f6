"""Suppression: vehicles that leave HATs, decided on public counts.

Source: slides S2, CLIP-USER, with errata E1, E6 and E26; algorithms 9.1 to 9.3. A vehicle leaves a HAT with all its
samples, and no HAT's worst-case error exceeds the largest of all HATs without suppression.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.suppression.search import Factors, RowsByHat, Search
from dpops.types import Int64s

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Error that suppression must not worsen; shares of epsilon.

    A share of 0 is a statistic that is not released. The mean counts in units, the variance in squared units: they are
    added without a conversion, as in the source, so that U^2 terms dominate.
    """

    upper: Fraction
    mean: Fraction = Fraction(0)
    variance: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.upper <= 0:
            raise ValueError(f"upper must be > 0, got {self.upper}")
        if min(self.mean, self.variance) < 0 or not 0 < self.mean + self.variance <= 1:
            raise ValueError(f"shares must be >= 0 and add up to (0, 1], got {self.mean} and {self.variance}")

    def factors(self, epsilon: Fraction) -> Factors:
        """Computes worst biases of mean and variance, then both noise scales at `epsilon`."""
        if epsilon <= 0:
            raise ValueError(f"epsilon must be > 0, got {epsilon}")
        mean = self.upper if self.mean else Fraction(0)
        variance = self.upper**2 / 4 if self.variance else Fraction(0)
        shares = (mean, self.mean), (variance, self.variance)  # (worst bias, share of epsilon)
        # Noise scales at a sensitivity of the full range: `Factors.exact` multiplies them by the sensitivity's share.
        noise = (worst / (epsilon * share) if share else Fraction(0) for worst, share in shares)
        return Factors(mean, variance, *noise)


class Clipped(NamedTuple):
    """Result of suppression: retained rows, most HATs per vehicle."""

    is_kept: Bools
    most_hats: int


def clip_user(
    hat: Int64s, vehicle: Int64s, counts: Int64s, samples: Int64s | None, epsilon: Fraction, errors: Weights
) -> Clipped:
    """Runs CLIP-USER: busiest vehicles leave HATs of least error.

    hat, vehicle, counts: int64 (rows,), codes 0, 1, .. and retained samples >= 1, one row per vehicle and HAT. Vehicles
    take their turns by code, and the lowest HAT wins ties. samples: int64 (HATs,), reported samples of each HAT; None
    means the retained ones. errors: shares of epsilon of the statistics whose error must not grow. Raises ValueError
    for other rows. Source: S2; algorithms 9.3.
    """
    factors = errors.factors(epsilon)
    tally = RowsByHat.of(hat, vehicle, counts, samples)
    if hat.size == 0:
        return Clipped(is_kept=np.ones(0, np.bool_), most_hats=0)
    search = Search(tally, factors)
    most_hats = search.run()
    is_kept = np.empty(hat.size, np.bool_)
    is_kept[tally.order] = search.alive  # in the order of the given rows
    return Clipped(is_kept, most_hats)
