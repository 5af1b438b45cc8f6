"""PM, the piecewise mechanism: least variance at the ends."""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from hatstream_local.mechanisms.mechanism import EXACT
from hatstream_local.mechanisms.window import Window


@dataclass(frozen=True, slots=True)
class Piecewise(Window):
    """Piecewise mechanism; unbiased in [-C, C], C = coth(epsilon / 4).

    The grid of the sampler and the epsilon that it really has: see `Window`.
    Source: Wang et al. 2019, "Collecting and Analyzing Multidimensional Data with Local Differential Privacy",
    Algorithm 2: l = (C + 1) v / 2 - (C - 1) / 2, which is a window of relative width e^(-epsilon / 2).
    """

    name: ClassVar[str] = "pm"

    def exact_width(self) -> Decimal:
        """Computes the relative width e^(-epsilon / 2)."""
        return EXACT.exp(EXACT.divide(Decimal(self.epsilon), -2))
