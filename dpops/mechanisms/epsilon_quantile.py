"""EpsilonQuantile: array means clipped further inwards at smaller epsilon."""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpops.means.clipping import QuantileInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonQuantile(QuantileInterval):
    """Private quantiles that clip 2 / epsilon arrays each.

    Noise would hide as many. Source: S0 section III-E2, t = ceil(2 / epsilon) at both ends (erratum E8); Smith 2011.
    """

    name = "epsilon-quantile"

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:
        """Computes rank 2 / epsilon, at most half."""
        return Fraction(min(math.ceil(2 / epsilon), arrays // 2))
