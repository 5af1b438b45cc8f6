"""SW, the square wave: the most informative window."""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from hatstream_local.mechanisms.mechanism import EXACT, exp
from hatstream_local.mechanisms.window import Window


@dataclass(frozen=True, slots=True)
class SquareWave(Window):
    """Square wave; reports lie in [-b, 1 + b], biased towards 1/2.

    b = (epsilon e^epsilon - e^epsilon + 1) / (2 e^epsilon (e^epsilon - 1 - epsilon)), on o = (v + 1) / 2; 1/2 at
    epsilon 0. With 80 digits it needs no series. The window has the relative width 2 b; sampler's grid: see `Window`.
    Source: Li et al. 2020, "Estimating Numerical Distributions under Local Differential Privacy", section 4.2.
    """

    name: ClassVar[str] = "sw"

    def exact_width(self) -> Decimal:
        """Computes the relative width 2 b."""
        grown, epsilon = exp(self.epsilon), Decimal(self.epsilon)
        top = EXACT.add(EXACT.multiply(EXACT.subtract(epsilon, 1), grown), 1)
        bottom = EXACT.multiply(grown, EXACT.subtract(EXACT.subtract(grown, 1), epsilon))
        return EXACT.divide(top, bottom)

    @property
    def raw_slope(self) -> float:
        """Slope of raw reports: (o - 1/2) / v = 1/2, shrunk by `keep`."""
        return self.keep / 2

    @property
    def raw_middle(self) -> float:
        """Middle of the raw reports' range."""
        return 0.5
