"""FixedQuantile and EpsilonQuantile: array means clipped to an interval between private quantiles."""

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
        """Computes the lower rank, ceil(2 / epsilon) or half."""
        return Fraction(min(math.ceil(2 / epsilon), arrays // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedQuantile(QuantileInterval):
    """Private 10 % and 90 % quantiles at any epsilon.

    Source: S0 section III-E "FixedQuantile"; private quantiles by Smith 2011.
    """

    name = "fixed-quantile"

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:  # noqa: ARG004 - the interface
        """Computes the lower rank, a tenth of the arrays."""
        return Fraction(arrays, 10)
