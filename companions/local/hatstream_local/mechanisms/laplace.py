"""Laplace: the value plus noise of scale 2 / epsilon."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpops import Noise
from hatstream_local.mechanisms.mechanism import STEPS, Float64s, check_epsilon, to_steps


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace mechanism with scale 2 / epsilon. Source: Dwork, McSherry, Nissim, Smith 2006.

    The sampler adds exact discrete Laplace noise of scale STEPS / epsilon to the step of the value. Two values differ
    by at most STEPS steps, so its real epsilon is the one claimed; it would be smaller where the scale had to be
    rounded up. Reports have no bound; beyond `high` one lies with probability below exp(-64).
    """

    epsilon: float
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def low(self) -> float:
        """Lower bound of practical reports."""
        return -self.high

    @property
    def high(self) -> float:
        """Upper bound of practical reports."""
        return 1 + 128 / self.epsilon

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes the log-density of reports given values."""
        return np.asarray(math.log(self.epsilon / 4) - self.epsilon / 2 * np.abs(reports - values))

    def unbiased(self, reports: Float64s) -> Float64s:
        """Returns reports unchanged: they are unbiased."""
        return reports

    def variance(self, values: Float64s) -> Float64s:
        """Computes the constant variance of reports."""
        return np.full_like(values, 8 / self.epsilon**2)

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Adds discrete Laplace noise to rounded values."""
        steps = to_steps(values)
        return np.asarray((steps + noise.laplace([self._scale()] * steps.size)) * (2 / STEPS) - 1)

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        return float(STEPS / Noise.laplace_scale(self._scale()))

    def _scale(self) -> Fraction:
        return STEPS / Fraction(self.epsilon)
