"""EpsilonQuantile: array means clipped to private quantiles at ranks that move inwards as epsilon shrinks."""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpops.means.clipping import QuantileInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonQuantile(QuantileInterval):
    """Clips about 2 / epsilon arrays at either end: as many as the noise would hide, and never more than half.

    Source: S0 section III-E2, with t = ceil(2 / epsilon) at both ends (erratum E8); private quantiles by Smith 2011.
    """

    name = "epsilon-quantile"

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:
        return Fraction(min(math.ceil(2 / epsilon), arrays // 2))
