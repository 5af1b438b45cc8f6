"""Privacy claims: costs of draws, and conversions rounded upwards.

rho measures zero-concentrated privacy (zCDP), mu, with rho = mu^2 / 2, Gaussian privacy; at a delta either converts to
an epsilon. That of zCDP (Canonne, Kamath, Steinke 2020, Proposition 12) holds at any Renyi order above 1, of which
`_least_at` finds the best by floats; decimals of 60 digits evaluate it. Margins err to the safe side: epsilons and
deltas up, a rho within them down.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Self

Adjacency = Literal["counts-public", "add-remove"]

ZERO = Fraction(0)


class ClaimError(ValueError):
    """Invalid or missing claim; messages hold public facts only.

    >>> claim_of("sigma=1")
    Traceback (most recent call last):
    dpops.claims.ClaimError: a claim needs an epsilon, a rho, a mu_squared, or an epsilon and a delta; it has sigma
    """


@dataclass(frozen=True, slots=True)
class PureDP:
    """Pure DP: P(M(D) in Y) <= exp(epsilon) P(M(D') in Y) for neighbours D, D'.

    >>> PureDP(Fraction(2)).zcdp()
    ZCDP(rho=Fraction(2, 1))
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _not_negative("epsilon", self.epsilon)

    def __str__(self) -> str:
        """Writes the bare rational number, as ledgers store it."""
        return str(self.epsilon)

    def times(self, factor: Fraction) -> "PureDP":
        """Scales epsilon by a factor."""
        return PureDP(self.epsilon * factor)

    def zcdp(self) -> "ZCDP":
        """Converts to rho = epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4)."""
        return ZCDP(self.epsilon**2 / 2)

    def approx(self, delta: Fraction) -> "ApproxDP":
        """Returns the claim as approximate DP at delta."""
        return ApproxDP(self.epsilon, delta)


@dataclass(frozen=True, slots=True)
class ZCDP:
    """zCDP: Renyi divergence of neighbours <= rho a at orders a > 1.

    >>> ZCDP(Fraction(1, 8)).approx(Fraction(1, 10**6)).describe()
    '2.41909 at delta 1e-06'
    """

    rho: Fraction

    def __post_init__(self) -> None:
        _not_negative("rho", self.rho)

    def __str__(self) -> str:
        return f"rho={self.rho}"

    @classmethod
    def of_gaussian(cls, sensitivity: Fraction, variance: Fraction) -> Self:
        """Claims Gaussian noise (Canonne, Kamath, Steinke 2020, Theorem 14)."""
        return cls(sensitivity**2 / (2 * variance))

    @classmethod
    def within(cls, epsilon: Fraction, delta: Fraction) -> Self:
        """Computes the largest claim within (epsilon, delta), rounded down."""
        return cls(rho_within(epsilon, delta))

    def times(self, factor: Fraction) -> Self:
        """Scales rho by a factor."""
        return type(self)(self.rho * factor)

    def approx(self, delta: Fraction) -> "ApproxDP":
        """Converts upwards (Canonne, Kamath, Steinke 2020, Proposition 12)."""
        return ApproxDP(_epsilon_of(self.rho, _checked_delta(delta)), delta)


@dataclass(frozen=True, slots=True)
class GaussianDP(ZCDP):
    """mu-Gaussian DP, with rho = mu^2 / 2 (Dong, Roth and Su 2022).

    Neighbours are no easier to tell apart than N(0, 1) and N(mu, 1). So it is a claim of zero-concentrated privacy too,
    with a tighter conversion. The squares of mu add up (Corollary 3.3), even if earlier results choose a later draw,
    and how much it may cost (Smith and Thakurta 2022).

    >>> str(GaussianDP(Fraction(1, 8))), GaussianDP(Fraction(1, 8)).approx(Fraction(1, 10**6)).describe()
    ('mu_squared=1/4', '2.25408 at delta 1e-06')
    """

    def __str__(self) -> str:
        return f"mu_squared={2 * self.rho}"

    @classmethod
    def within(cls, epsilon: Fraction, delta: Fraction) -> Self:
        """Returns the largest rho within epsilon and delta."""
        return cls(rho_within_gaussian(epsilon, delta))

    def approx(self, delta: Fraction) -> "ApproxDP":
        """Converts exactly, rounding up (Balle and Wang 2018, Theorem 8)."""
        return ApproxDP(epsilon_of_gaussian(self.rho, _checked_delta(delta)), delta)


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """Approximate DP: P(M(D) in Y) <= exp(epsilon) P(M(D') in Y) + delta for neighbours.

    >>> str(ApproxDP(Fraction(1), Fraction(1, 100)))
    'epsilon=1,delta=1/100'
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _not_negative("epsilon", self.epsilon)
        _not_negative("delta", self.delta)

    def __str__(self) -> str:
        return f"epsilon={self.epsilon},delta={self.delta}"

    def describe(self) -> str:
        """Writes the claim for people."""
        return f"{float(self.epsilon):g}" + (f" at delta {float(self.delta):g}" if self.delta else "")


Claim = PureDP | ZCDP | ApproxDP

Accounting = Literal["zcdp", "gdp"]
"""Account of Gaussian noise: in rho, or in mu^2, for which all noise must be normal, and rounded."""

NOISE_CLAIMS: Mapping[Accounting, type[ZCDP]] = {"zcdp": ZCDP, "gdp": GaussianDP}  # of Gaussian noise


def claim_of(text: str) -> Claim:
    """Reads a claim that `str` wrote. Raises ClaimError.

    >>> claim_of("rho=1/8")
    ZCDP(rho=Fraction(1, 8))
    """
    if "=" not in text:
        return PureDP(Fraction(text))
    values = {name: Fraction(value) for name, _, value in (field.partition("=") for field in text.split(","))}
    if values.keys() == {"rho"}:
        return ZCDP(values["rho"])
    if values.keys() == {"mu_squared"}:
        return GaussianDP(values["mu_squared"] / 2)  # rho
    if values.keys() == {"epsilon", "delta"}:
        return ApproxDP(values["epsilon"], values["delta"])
    kinds = "an epsilon, a rho, a mu_squared, or an epsilon and a delta"
    raise ClaimError(f"a claim needs {kinds}; it has {', '.join(values)}")


@lru_cache(maxsize=64)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Computes the largest rho within (epsilon, delta), rounded down.

    >>> round(float(rho_within(Fraction(264, 100), Fraction(1, 10**6))), 4)
    0.1466
    """
    if epsilon <= 0:
        return ZERO
    log_delta = _log(_checked_delta(delta))
    target = float(epsilon)
    # Order a allows rho = (epsilon - log(1 - 1/a) + (log delta + log a) / (a - 1)) / a; its negative is minimised.
    order = Decimal(_least_at(lambda a: (math.log1p(-1 / a) - (log_delta + math.log(a)) / (a - 1) - target) / a))
    with localcontext(_DECIMAL_CONTEXT):
        rho = (_decimal(epsilon) - (1 - 1 / order).ln() + (_decimal(delta).ln() + order.ln()) / (order - 1)) / order
    return _rounded(rho, ROUND_FLOOR)


@lru_cache(maxsize=1024)
def _epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Computes rho's smallest epsilon at delta, rounded up."""
    if rho == 0:
        return ZERO
    log_delta, cost = _log(delta), float(rho)
    order = Decimal(_least_at(lambda a: a * cost + math.log1p(-1 / a) - (log_delta + math.log(a)) / (a - 1)))
    with localcontext(_DECIMAL_CONTEXT):
        epsilon = order * _decimal(rho) + (1 - 1 / order).ln() - (_decimal(delta).ln() + order.ln()) / (order - 1)
    return _rounded(epsilon, ROUND_CEILING)


@lru_cache(maxsize=64)
def rho_within_gaussian(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Computes Gaussian noise's largest rho within (epsilon, delta).

    >>> round(float(rho_within_gaussian(Fraction(264, 100), Fraction(1, 10**6))), 4)
    0.1665
    """
    if epsilon <= 0:
        return ZERO
    max_delta = math.nextafter(float(_checked_delta(delta)), 0.0)  # the float nearest to a delta near 1 is 1
    if max_delta < _LEAST_DELTA:  # where densities underflow: the zero-concentrated bound, which is smaller
        return rho_within(epsilon, delta)
    high = math.sqrt(2 * float(epsilon)) + 80  # above any result: there `delta_of_gaussian` is 1, its a below -30
    mu = _last_below(lambda mu: delta_of_gaussian(float(epsilon), mu) <= max_delta, high)
    # A hundred times the margin of an epsilon, so that the rho converts to no more than the epsilon it is of.
    return _rounded(_decimal(Fraction(mu) ** 2 / 2) * (1 - 100 * _DECIMAL_MARGIN), ROUND_FLOOR, _FLOAT_DIGITS)


@lru_cache(maxsize=1024)
def epsilon_of_gaussian(rho: Fraction, delta: Fraction) -> Fraction:
    """Computes Gaussian noise's smallest epsilon, rounded up."""
    if rho == 0:
        return ZERO
    mu, max_delta, worst = math.sqrt(2 * float(rho)), math.nextafter(float(delta), 0.0), float(_epsilon_of(rho, delta))
    if max_delta < _LEAST_DELTA or mu == 0:  # where densities underflow: the zero-concentrated bound
        return _epsilon_of(rho, delta)
    # The zero-concentrated epsilon, `worst`, is too large: bisection takes off as much as delta allows.
    saved = _last_below(lambda saved: delta_of_gaussian(worst - saved, mu) <= max_delta, worst)
    return _rounded(_decimal(Fraction(worst) - Fraction(saved)) * (1 + _DECIMAL_MARGIN), ROUND_CEILING)


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Bounds the delta of mu-Gaussian privacy from above.

    It is P(Z > a) - e^epsilon P(Z > b), with a = epsilon / mu - mu / 2 and b = a + mu. As b^2 = a^2 + 2 epsilon, that
    is the density at a times the difference of both Mills ratios, which neither overflows nor rounds away.
    Source: Balle and Wang (2018), Theorem 8.

    >>> f"{delta_of_gaussian(1.0, 1.0):.6f}"
    '0.126937'
    """
    a = epsilon / mu - mu / 2
    if a < -30:  # where delta is nearly 1, and Mills' ratio would soon overflow
        return 1.0
    difference = mills_ratio(a) * (1 + _FLOAT_ERROR) - mills_ratio(a + mu)  # rounded upwards: floats err
    return math.exp(log_density(a)) * difference * (1 + _FLOAT_ERROR * (1 + a * a))


def _last_below(holds: Callable[[float], bool], high: float) -> float:
    """Bisects [0, high] for the largest number that satisfies a condition."""
    if holds(high):
        return high
    low = 0.0
    for _ in range(200):  # more halvings than a float has digits
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


_FLOAT_ERROR = 2.0**-42  # relative error bound of floats' erfc, exp and sums; of a density at a, a^2 times as much
_DECIMAL_MARGIN = Decimal("1e-13")  # of an epsilon, relative, for float errors; a rho is lowered by 100 times as much
_LEAST_DELTA = 1e-290  # below it densities underflow, and the looser conversion of zero-concentrated privacy is taken
_DECIMAL_CONTEXT = Context(prec=60)
_SHORT_DIGITS = 16  # significant digits that a converted number is rounded to
_FLOAT_DIGITS = 11
"""Digits of a rho from erfc and exp: their last bits depend on a library, and noise and ids follow from rho."""
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def _least_at(value: Callable[[float], float]) -> float:
    """Minimises over Renyi orders by golden section; any order would be valid."""
    low, high = math.log(1e-9), math.log(1e12)  # of the order less 1
    inner, outer = high - _GOLDEN_RATIO * (high - low), low + _GOLDEN_RATIO * (high - low)
    for _ in range(120):  # more steps than a float has digits
        if value(1 + math.exp(inner)) <= value(1 + math.exp(outer)):
            high, outer = outer, inner
            inner = high - _GOLDEN_RATIO * (high - low)
        else:
            low, inner = inner, outer
            outer = low + _GOLDEN_RATIO * (high - low)
    return 1 + math.exp((low + high) / 2)


def _log(value: Fraction) -> float:
    """Computes a logarithm; ids depend on its exact bits."""
    return math.log(value) if float(value) else math.log(value.numerator) - math.log(value.denominator)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Decimal, rounding: str, digits: int = _SHORT_DIGITS) -> Fraction:
    """Rounds to significant `digits`, at least 0; a margin covers errors of 60-digit arithmetic."""
    if value <= 0:
        return ZERO
    with_margin = value * (1 + (1 if rounding == ROUND_CEILING else -1) * Decimal("1e-30"))
    return Fraction(Context(prec=digits, rounding=rounding).plus(with_margin))


def _not_negative(name: str, value: Fraction) -> None:
    if value < 0:
        raise ClaimError(f"{name} must be >= 0, got {value}")


def _checked_delta(delta: Fraction) -> Fraction:
    if not 0 < delta < 1:
        raise ClaimError(f"zero-concentrated privacy gives an epsilon for a delta between 0 and 1 only, got {delta}")
    return delta


def log_density(x: float) -> float:
    """Computes the logarithm of the density at x."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def mills_ratio(x: float) -> float:
    """Computes Mills' ratio P(Z > x) / density(x), for x > -35.

    From x = 5 on by Laplace's continued fraction. Source: Abramowitz and Stegun (1964), 26.2.14.

    >>> round(mills_ratio(0.0), 6)
    1.253314
    """
    if x < 5:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    fraction = x
    for term in range(100, 0, -1):  # from x = 5 on, terms enough for the last bit
        fraction = x + term / fraction
    return 1 / fraction
