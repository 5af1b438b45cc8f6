"""Local mechanisms: Laplace noise, stochastic rounding (SR), and windows (PM, SW).

A raw report is what a user sends; `unbiased` turns it into an estimate of the value. A coin is a threshold T of 62
random bits: it shows heads with probability T / 2**62. Of `noise`, `words(n)` draws uniform integers of 64 bits, and
`below(limits)` an integer of 0..limit - 1 for each limit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpops import Noise

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
STEP_BITS = 20
STEPS = 1 << STEP_BITS  # a sampler knows a value in [-1, 1] only as one of 0..STEPS, each step worth 2 / STEPS
LEAST_EPSILON, MOST_EPSILON = 1e-4, 50.0  # range for which the samplers' grids are fine enough, see their classes
COIN_BITS = 62  # of a sampler's one biased choice
EXACT = Context(prec=80)  # digits of e^epsilon: constants are fractions of it, rounded to doubles at last


@dataclass(frozen=True, slots=True)
class LocalMechanism(ABC):
    """Local mechanism: a frozen dataclass with the epsilon of one report.

    Values v are in [-1, 1], the common domain. Any two values are neighbours: for every report x and all v, w,
    density(x | v) <= exp(epsilon) density(x | w). `low` and `high` bound the raw reports. Arrays broadcast.
    """

    epsilon: float
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks the epsilon's range. Raises ValueError."""
        if not LEAST_EPSILON <= self.epsilon <= MOST_EPSILON:
            raise ValueError(f"the epsilon of a local report must be from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")

    @property
    @abstractmethod
    def high(self) -> float:
        """Upper bound of raw reports."""

    @property
    def low(self) -> float:
        """Lower bound of raw reports."""
        return -self.high

    @abstractmethod
    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes the log density of raw reports, given values."""

    def unbiased(self, reports: Float64s) -> Float64s:
        """Maps raw reports affinely to unbiased estimates of values."""
        return reports

    @abstractmethod
    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance of the unbiased report."""

    @abstractmethod
    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws raw reports, from which `unbiased` estimates values.

        values: rounded first to the nearest of the STEPS + 1 points that divide [-1, 1] evenly. Raises ValueError for a
        value outside [-1, 1] or not a number.
        """

    @abstractmethod
    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""


def exp(epsilon: float) -> Fraction:
    """Computes e**epsilon with 80 digits."""
    return Fraction(EXACT.exp(Decimal(epsilon)))


def log(ratio: Fraction) -> float:
    """Computes the natural logarithm, rounded once."""
    return float(EXACT.ln(EXACT.divide(ratio.numerator, ratio.denominator)))


def to_steps(values: Float64s) -> Int64s:
    """Finds the nearest step, 0..STEPS, of each value. Raises ValueError beyond [-1, 1]."""
    if not np.all(np.abs(values) <= 1):
        raise ValueError("a value to perturb must be in [-1, 1]")
    return np.rint((values + 1) * (STEPS / 2)).astype(np.int64)


def coin_below(share: Fraction) -> int:
    """Computes the largest T with T / 2**62 <= share, the private side."""
    return math.floor(share * (1 << COIN_BITS))


def flip(threshold: int, size: int, noise: Noise) -> NDArray[np.bool_]:
    """Tosses independent coins that show heads with probability threshold / 2**62 exactly."""
    return noise.words(size) >> np.uint64(64 - COIN_BITS) < np.uint64(threshold)


@dataclass(frozen=True, slots=True)
class Service:
    """Receiver of independently perturbed reports."""

    name: str
    mechanism: LocalMechanism


@dataclass(frozen=True, slots=True)
class Reports:
    """Raw reports, (services, users); NaN where unanswered.

    Services are sorted by name, so that fusion gives the same bits in whatever order they came.
    """

    services: Sequence[Service]
    values: Float64s

    def __post_init__(self) -> None:
        """Sorts services, with their rows, by name. Raises ValueError for names or shape."""
        names = [service.name for service in self.services]
        if not names or len(set(names)) != len(names):
            raise ValueError("reports need at least one service, and services need different names")
        if self.values.ndim != 2 or self.values.shape[0] != len(names):
            raise ValueError(f"reports of {len(names)} services need as many rows, got shape {self.values.shape}")
        order = sorted(range(len(names)), key=names.__getitem__)
        if order != list(range(len(names))):
            object.__setattr__(self, "services", [self.services[i] for i in order])
            object.__setattr__(self, "values", self.values[order])

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.values.shape[1])

    def leakage(self) -> float:
        """Computes the largest sum of epsilons of one user's reports."""
        epsilons = np.array([service.mechanism.epsilon for service in self.services])
        return float(np.max(epsilons @ ~np.isnan(self.values), initial=0.0))


@dataclass(frozen=True, slots=True)
class Laplace(LocalMechanism):
    """Laplace mechanism with scale 2 / epsilon. Source: Dwork, McSherry, Nissim, Smith 2006.

    The sampler adds exact discrete Laplace noise of scale STEPS / epsilon to the step of the value. Two values differ
    by at most STEPS steps, so its real epsilon is the one claimed; it would be smaller where the scale had to be
    rounded up. Reports have no bound; beyond `high` one lies with probability below exp(-64).
    """

    name: ClassVar[str] = "laplace"

    @property
    def high(self) -> float:
        """Upper bound of practical reports."""
        return 1 + 64 * (2 / self.epsilon)  # 64 noise scales above the largest value

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes log(exp(-|x - v| / b) / (2 b)), b = 2 / epsilon."""
        return np.asarray(math.log(self.epsilon / 4) - self.epsilon / 2 * np.abs(reports - values))

    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance, 2 b^2 for any value, b = 2 / epsilon."""
        return np.full_like(values, 8 / self.epsilon**2)

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Adds discrete Laplace noise to values' steps."""
        steps = to_steps(values)
        return np.asarray((steps + noise.laplace([self._scale()] * steps.size)) * (2 / STEPS) - 1)  # steps to [-1, 1]

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        return float(STEPS / Noise.laplace_scale(self._scale()))

    def _scale(self) -> Fraction:
        """Returns the noise scale in steps, before `Noise` rounds it."""
        return STEPS / Fraction(self.epsilon)


@dataclass(frozen=True, slots=True)
class StochasticRounding(LocalMechanism):
    """Stochastic rounding to C (`high`) or -C (`low`), C = coth(epsilon / 2).

    P(C | v) = 1/2 + v / (2 C). Source: Duchi, Jordan, Wainwright 2018, section 4, in one dimension.

    The sampler keeps with probability 1 / C (a coin of 62 bits, rounded down) the sign that a fair draw among the
    STEPS steps gives the value, and else a fair sign. Its real epsilon is log((1 + T) / (1 - T)) with T that coin's
    exact probability: at most the one claimed, below it by less than 1e-12 up to epsilon 15 and 1e-6 up to 30; the
    coin's grid leaves 43.7 of 50.
    """

    name: ClassVar[str] = "sr"

    @property
    def high(self) -> float:
        """Upper report, C; the lower one is -C."""
        return 1 / math.tanh(self.epsilon / 2)

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes log P(C | v), and log(1 - P) for reports of -C."""
        rare = math.exp(-self.epsilon)  # 1 / C = (1 - rare) / (1 + rare): below are positive terms alone
        toward = np.where(reports > 0, values, -values)  # in [-1, 1], as values are
        return np.log(((1 + toward) + (1 - toward) * rare) / (2 * (1 + rare)))

    def variance(self, values: Float64s) -> Float64s:
        """Computes C^2 - v^2 as a sum of positive terms."""
        return math.sinh(self.epsilon / 2) ** -2 + (1 - values) * (1 + values)  # C^2 = 1 + sinh(epsilon / 2)^-2

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws the rounded sign of each value, times C."""
        steps = to_steps(values)
        words = noise.words(steps.size)  # the first bits are a uniform step, the last one is a fair coin
        sign_by_value = words >> np.uint64(64 - STEP_BITS) < steps.astype(np.uint64)  # True, plus: by (1 + value) / 2
        fair_sign = words & np.uint64(1) == 1
        is_kept = flip(self._coin(), steps.size, noise)  # the sign by the value, with probability 1 / C
        return np.where(np.where(is_kept, sign_by_value, fair_sign), self.high, self.low)

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        keep, coins = self._coin(), 1 << COIN_BITS
        return log(Fraction(coins + keep, coins - keep))

    def _coin(self) -> int:
        """Computes the threshold of 1 / C in 2**62."""
        grown = exp(self.epsilon)  # 1 / C = (e^epsilon - 1) / (e^epsilon + 1)
        return coin_below((grown - 1) / (grown + 1))


@dataclass(frozen=True, slots=True)
class Window(LocalMechanism):
    """Mechanism uniform in a window with probability `keep`, else over the range.

    Written in the common domain after unbiasing, PM and SW are this one family and differ in the window's width w
    (in units of the distance 2 that its centre slides) and in how a raw report is written down:
      keep = (e^epsilon - 1) w / (e^epsilon w + 1), so that the two densities have the ratio e^epsilon;
      unbiased reports lie in [-C, C], C = (1 + w) / keep; value v's window has centre v / keep, half width w / keep;
      variance at v = ((1 - keep) (1 + w)^2 + keep w^2) / (3 keep^2) + v^2 (1 - keep) / keep.
    All terms are positive: nothing cancels at any epsilon.

    The sampler's grid: STEPS cells of slide and W = ceil(w STEPS) cells of window, so STEPS + W cells in all, drawn by
    whole numbers only; the coin for `keep` has 62 bits and is rounded down. Its real epsilon is
    log(1 + T (STEPS + W) / (W (1 - T))), T the coin's exact probability for that W: at most the one claimed, and below
    it by less than 1e-12 up to epsilon 20; the coin's grid leaves 49.9997 of 50. Reports stay exactly
    unbiased; the window is wider than its formula by less than one cell (2e-6 of the range), which matters above
    epsilon 20 only.
    """

    width: float = field(init=False, repr=False)
    keep: float = field(init=False, repr=False)
    uniform: float = field(init=False, repr=False)
    """1 - keep, before it is rounded."""
    raw_middle: ClassVar[float] = 0.0
    """Middle of the raw reports' range, `low` to `high`; a raw report is it + `raw_slope` * (unbiased report)."""

    def __post_init__(self) -> None:
        """Derives `width`, `keep` and `uniform` from the epsilon. Raises ValueError."""
        LocalMechanism.__post_init__(self)  # checks epsilon's range
        width = self.exact_width()
        keep = _keep(self.epsilon, width)
        for name, constant in {"width": width, "keep": keep, "uniform": 1 - keep}.items():
            object.__setattr__(self, name, float(constant))  # the dataclass is frozen

    @abstractmethod
    def exact_width(self) -> Fraction:
        """Computes the window's width relative to its slide."""

    @property
    def raw_slope(self) -> float:
        """A raw report is raw_middle + raw_slope * (unbiased report)."""
        return 1.0

    @property
    def low(self) -> float:
        """Lower bound of raw reports, of the unbiased report -C."""
        return self.raw_middle - self.raw_slope * ((1 + self.width) / self.keep)

    @property
    def high(self) -> float:
        """Upper bound of raw reports, of the unbiased report C."""
        return self.raw_middle + self.raw_slope * ((1 + self.width) / self.keep)

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes log((1 - keep) / range), plus epsilon for reports in the value's window."""
        outside = math.log(self.uniform / (self.high - self.low))
        inside = np.abs(self.centres(reports) - values) <= self.width  # half a window of 2 w: w is in units of 2
        return np.asarray(outside + self.epsilon * inside)

    def centres(self, reports: Float64s) -> Float64s:
        """Computes values, also beyond [-1, 1], whose windows have raw reports as centres."""
        return self.unbiased(reports) * self.keep

    def unbiased(self, reports: Float64s) -> Float64s:
        """Converts raw reports to unbiased ones."""
        return (reports - self.raw_middle) / self.raw_slope

    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance of unbiased reports at values."""
        level = (self.uniform * (1 + self.width) ** 2 + self.keep * self.width**2) / (3 * self.keep**2)
        return np.asarray(level + values**2 * (self.uniform / self.keep))

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws a cell for each value, and converts it to a raw report."""
        keep = self._coin() / (1 << COIN_BITS)
        middle = (STEPS + self._cells() - 1) / 2  # cell whose unbiased report is 0; self._cells() is W
        unbiased = (self._draw(to_steps(values), noise) - middle) * (2 / (STEPS * keep))  # a step is 2 / STEPS
        return np.asarray(self.raw_middle + self.raw_slope * unbiased)  # as PM or SW writes it

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        coin, cells = self._coin(), self._cells()  # see the class: T is coin / 2**62, W is cells
        return log(1 + Fraction(coin * (STEPS + cells), cells * ((1 << COIN_BITS) - coin)))

    def _draw(self, steps: Int64s, noise: Noise) -> Int64s:
        """Draws cells, (values,): in the window that begins at the step, or any."""
        window = self._cells()  # W
        is_kept = flip(self._coin(), steps.size, noise)  # with probability `keep`
        offset = noise.below(np.where(is_kept, window, STEPS + window))
        return np.where(is_kept, steps, 0) + offset

    def _cells(self) -> int:
        """Computes W, the window's width in cells, rounded up."""
        return math.ceil(self.exact_width() * STEPS)

    def _coin(self) -> int:
        """Computes the threshold of `keep`, for whole cells, in 2**62."""
        return coin_below(_keep(self.epsilon, Fraction(self._cells(), STEPS)))


def _keep(epsilon: float, width: Fraction) -> Fraction:
    """Computes keep = (e^epsilon - 1) w / (e^epsilon w + 1)."""
    grown = exp(epsilon)
    return (grown - 1) * width / (grown * width + 1)


@dataclass(frozen=True, slots=True)
class Piecewise(Window):
    """Piecewise mechanism; unbiased in [-C, C], C = coth(epsilon / 4).

    The grid of the sampler and the epsilon that it really has: see `Window`.
    Source: Wang et al. 2019, "Collecting and Analyzing Multidimensional Data with Local Differential Privacy",
    Algorithm 2: l = (C + 1) v / 2 - (C - 1) / 2, which is a window of relative width e^(-epsilon / 2).
    """

    name: ClassVar[str] = "pm"

    def exact_width(self) -> Fraction:
        """Computes the relative width e^(-epsilon / 2)."""
        return exp(-self.epsilon / 2)


@dataclass(frozen=True, slots=True)
class SquareWave(Window):
    """Square wave; reports lie in [-b, 1 + b], biased towards 1/2.

    b = (epsilon e^epsilon - e^epsilon + 1) / (2 e^epsilon (e^epsilon - 1 - epsilon)), on o = (v + 1) / 2; 1/2 at
    epsilon 0. With 80 digits it needs no series. The window has the relative width 2 b; sampler's grid: see `Window`.
    Source: Li et al. 2020, "Estimating Numerical Distributions under Local Differential Privacy", section 4.2.
    """

    name: ClassVar[str] = "sw"
    raw_middle: ClassVar[float] = 0.5

    @property
    def raw_slope(self) -> float:
        """Raw reports are of o = (v + 1) / 2, shrunk by `keep`."""
        return self.keep / 2

    def exact_width(self) -> Fraction:
        """Computes the relative width 2 b, by the class's formula."""
        grown, epsilon = exp(self.epsilon), Fraction(self.epsilon)
        return ((epsilon - 1) * grown + 1) / (grown * (grown - 1 - epsilon))


LOCAL_MECHANISMS: dict[str, Callable[[float], LocalMechanism]] = {
    kind.name: kind for kind in (Laplace, Piecewise, StochasticRounding, SquareWave)
}
