"""FixedQuantile: array means clipped to private 10 % and 90 % quantiles."""

from dataclasses import dataclass
from fractions import Fraction

from dpops.means.clipping import QuantileInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedQuantile(QuantileInterval):
    """Private 10 % and 90 % quantiles at any epsilon.

    Source: S0 section III-E "FixedQuantile"; private quantiles by Smith 2011.
    """

    name = "fixed-quantile"

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:  # noqa: ARG004 - the interface
        """Computes rank arrays / 10."""
        return Fraction(arrays, 10)
