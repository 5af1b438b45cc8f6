"""Privacy claims as values: what one draw costs, and how claims convert. Every rounding is upwards."""

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
    """There is no such claim, or none of the kind that was asked for; the message is made of public facts.

    >>> claim_of("sigma=1")
    Traceback (most recent call last):
    dpops.claims.ClaimError: a claim has an epsilon, a rho, a mu_squared, or an epsilon and a delta; it has sigma
    """


@dataclass(frozen=True, slots=True)
class PureDP:
    """P(M(D) in Y) <= exp(epsilon) P(M(D') in Y) for all neighbours D, D' and all sets Y.

    >>> from fractions import Fraction
    >>> PureDP(Fraction(2)).zcdp()
    ZCDP(rho=Fraction(2, 1))
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _not_negative("epsilon", self.epsilon)

    def __str__(self) -> str:
        """Writes the rational number alone, as ledgers store pure claims."""
        return str(self.epsilon)

    def times(self, factor: Fraction) -> "PureDP":
        return PureDP(self.epsilon * factor)

    def zcdp(self) -> "ZCDP":
        """Converts the claim to zCDP: rho = epsilon^2 / 2. Source: Bun and Steinke (2016), Proposition 1.4."""
        return ZCDP(self.epsilon**2 / 2)

    def approx(self, delta: Fraction) -> "ApproxDP":
        return ApproxDP(self.epsilon, delta)


@dataclass(frozen=True, slots=True)
class ZCDP:
    """D_a(M(D) || M(D')) <= rho a for all neighbours and all Renyi orders a > 1. Source: Bun and Steinke (2016).

    >>> from fractions import Fraction
    >>> ZCDP(Fraction(1, 8)).approx(Fraction(1, 10**6)).said()
    '2.41909 at delta 1e-06'
    """

    rho: Fraction

    def __post_init__(self) -> None:
        _not_negative("rho", self.rho)

    def __str__(self) -> str:
        return f"rho={self.rho}"

    @classmethod
    def of_gaussian(cls, sensitivity: Fraction, variance: Fraction) -> Self:
        """Claims (discrete) Gaussian noise of an L2 sensitivity. Source: Canonne, Kamath, Steinke (2020), Thm. 14."""
        return cls(sensitivity**2 / (2 * variance))

    @classmethod
    def within(cls, epsilon: Fraction, delta: Fraction) -> Self:
        """Computes the largest claim that keeps (epsilon, delta), rounded down: the inverse of `approx`."""
        return cls(rho_within(epsilon, delta))

    def times(self, factor: Fraction) -> Self:
        return type(self)(self.rho * factor)

    def approx(self, delta: Fraction) -> "ApproxDP":
        """Converts at the best Renyi order, upwards. Source: Canonne, Kamath and Steinke (2020), Proposition 12."""
        return ApproxDP(_epsilon_of(self.rho, _checked_delta(delta)), delta)


@dataclass(frozen=True, slots=True)
class GaussianDP(ZCDP):
    """Neighbours are no easier to tell apart than normal numbers of variance 1 with means 0 and mu; rho is mu^2 / 2.

    So it is a claim of zero-concentrated privacy as well, with a tighter conversion. The squares of mu add up, even if
    earlier results choose a later draw, and how much it may cost. Sources: Dong, Roth and Su (2022), Corollary 3.3;
    Smith and Thakurta (2022) of costs that are chosen.

    >>> from fractions import Fraction
    >>> str(GaussianDP(Fraction(1, 8))), GaussianDP(Fraction(1, 8)).approx(Fraction(1, 10**6)).said()
    ('mu_squared=1/4', '2.25408 at delta 1e-06')
    """

    def __str__(self) -> str:
        return f"mu_squared={2 * self.rho}"

    @classmethod
    def within(cls, epsilon: Fraction, delta: Fraction) -> Self:
        return cls(rho_within_gaussian(epsilon, delta))

    def approx(self, delta: Fraction) -> "ApproxDP":
        """Converts exactly but for rounding, upwards. Source: Balle and Wang (2018), Theorem 8."""
        return ApproxDP(epsilon_of_gaussian(self.rho, _checked_delta(delta)), delta)


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """P(M(D) in Y) <= exp(epsilon) P(M(D') in Y) + delta for all neighbours D, D' and all sets Y.

    >>> from fractions import Fraction
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

    def said(self) -> str:
        """Writes the claim for people."""
        return f"{float(self.epsilon):g}" + (f" at delta {float(self.delta):g}" if self.delta else "")


Claim = PureDP | ZCDP | ApproxDP

Accounting = Literal["zcdp", "gdp"]
"""How an account adds up Gaussian noise: in rho, or in mu^2, for which all noise must be normal, and rounded."""

NOISE_CLAIMS: Mapping[Accounting, type[ZCDP]] = {"zcdp": ZCDP, "gdp": GaussianDP}
"""What Gaussian noise claims under each accounting."""


def claim_of(text: str) -> Claim:
    """Reads a claim that `str` wrote. Raises ClaimError.

    >>> claim_of("rho=1/8")
    ZCDP(rho=Fraction(1, 8))
    """
    if "=" not in text:
        return PureDP(Fraction(text))
    values = {name: Fraction(value) for name, _, value in (part.partition("=") for part in text.split(","))}
    if values.keys() == {"rho"}:
        return ZCDP(values["rho"])
    if values.keys() == {"mu_squared"}:
        return GaussianDP(values["mu_squared"] / 2)
    if values.keys() == {"epsilon", "delta"}:
        return ApproxDP(values["epsilon"], values["delta"])
    raise ClaimError(
        f"a claim has an epsilon, a rho, a mu_squared, or an epsilon and a delta; it has {', '.join(values)}"
    )


@lru_cache(maxsize=64)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Computes the largest rho that keeps (epsilon, delta), rounded down: the inverse of `ZCDP.approx`.

    >>> from fractions import Fraction
    >>> round(float(rho_within(Fraction(264, 100), Fraction(1, 10**6))), 4)
    0.1466
    """
    if epsilon <= 0:
        return ZERO
    log_delta = _log(_checked_delta(delta))
    target = float(epsilon)
    order = Decimal(
        _least_at(lambda a: (math.log1p(-1 / a) - (log_delta + math.log(a)) / (a - 1) - target) / a)  # minus rho
    )
    with localcontext(_EXACT):
        rho = (_decimal(epsilon) - (1 - 1 / order).ln() + (_decimal(delta).ln() + order.ln()) / (order - 1)) / order
    return _rounded(rho, ROUND_FLOOR)


@lru_cache(maxsize=1024)
def _epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    if rho == 0:
        return ZERO
    log_delta, cost = _log(delta), float(rho)
    order = Decimal(_least_at(lambda a: a * cost + math.log1p(-1 / a) - (log_delta + math.log(a)) / (a - 1)))
    with localcontext(_EXACT):
        epsilon = order * _decimal(rho) + (1 - 1 / order).ln() - (_decimal(delta).ln() + order.ln()) / (order - 1)
    return _rounded(epsilon, ROUND_CEILING)


@lru_cache(maxsize=64)
def rho_within_gaussian(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Computes the largest rho of Gaussian noise that keeps (epsilon, delta), rounded down; mu^2 is 2 rho.

    >>> from fractions import Fraction
    >>> round(float(rho_within_gaussian(Fraction(264, 100), Fraction(1, 10**6))), 4)
    0.1665
    """
    if epsilon <= 0:
        return ZERO
    max_delta = math.nextafter(float(_checked_delta(delta)), 0.0)  # the float nearest to a delta near 1 is 1
    if max_delta < _LEAST_DELTA:
        return rho_within(epsilon, delta)
    high = math.sqrt(2 * float(epsilon)) + 80  # where delta is 1
    mu = _last_below(lambda mu: delta_of_gaussian(float(epsilon), mu) <= max_delta, high)
    return _rounded(_decimal(Fraction(mu) ** 2 / 2) * (1 - 100 * _MARGIN), ROUND_FLOOR, _OF_FLOATS)


@lru_cache(maxsize=1024)
def epsilon_of_gaussian(rho: Fraction, delta: Fraction) -> Fraction:
    """Computes the smallest epsilon that Gaussian noise of this rho keeps with delta, rounded up."""
    if rho == 0:
        return ZERO
    mu, max_delta, worst = math.sqrt(2 * float(rho)), math.nextafter(float(delta), 0.0), float(_epsilon_of(rho, delta))
    if max_delta < _LEAST_DELTA or mu == 0:
        return _epsilon_of(rho, delta)
    saved = _last_below(lambda saved: delta_of_gaussian(worst - saved, mu) <= max_delta, worst)
    return _rounded(_decimal(Fraction(worst) - Fraction(saved)) * (1 + _MARGIN), ROUND_CEILING)


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Bounds from above the delta with which mu-Gaussian privacy keeps epsilon >= 0: exact but for its last digits.

    It is P(Z > a) - e^epsilon P(Z > b), with a = epsilon / mu - mu / 2 and b = a + mu. As b^2 = a^2 + 2 epsilon, that
    is the density at a times the difference of both Mills ratios, which neither overflows nor rounds away.
    Source: Balle and Wang (2018), Theorem 8.

    >>> f"{delta_of_gaussian(1.0, 1.0):.6f}"
    '0.126937'
    """
    a = epsilon / mu - mu / 2
    if a < -30:
        return 1.0
    difference = mills_ratio(a) * (1 + _FLOATS) - mills_ratio(a + mu)
    return math.exp(log_density(a)) * difference * (1 + _FLOATS * (1 + a * a))


def _last_below(holds: Callable[[float], bool], high: float) -> float:
    """Bisects for the largest number up to which `holds` is true, from below; at most `high`."""
    if holds(high):
        return high
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


_FLOATS = 2.0**-42
"""More than floating-point erfc, exp and sums err by, as a part; a density at a errs by a^2 times as much."""
_MARGIN = Decimal("1e-13")
"""What an epsilon is raised by for that, as a part. A rho is lowered by more, so that it keeps the epsilon it is of."""
_LEAST_DELTA = 1e-290
"""Below it densities underflow: the conversion of zero-concentrated privacy, which holds too, is taken."""
_EXACT = Context(prec=60)
_SHORT = 16
"""Significant digits that a converted number is rounded to."""
_OF_FLOATS = 11
"""So many of a rho that rests on erfc and exp: their last bits are of a library, and noise and ids follow from rho."""
_GOLDEN = (math.sqrt(5) - 1) / 2


def _least_at(value: Callable[[float], float]) -> float:
    """Minimises over Renyi orders by golden section; log delta is convex, and any order would be valid."""
    low, high = math.log(1e-9), math.log(1e12)
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    for _ in range(120):
        if value(1 + math.exp(inner)) <= value(1 + math.exp(outer)):
            high, outer = outer, inner
            inner = high - _GOLDEN * (high - low)
        else:
            low, inner = inner, outer
            outer = low + _GOLDEN * (high - low)
    return 1 + math.exp((low + high) / 2)


def _log(value: Fraction) -> float:
    """Computes the logarithm, also of what a float takes for 0. Of all else bit for bit as ever: ids rest on it."""
    return math.log(value) if float(value) else math.log(value.numerator) - math.log(value.denominator)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Decimal, rounding: str, digits: int = _SHORT) -> Fraction:
    """Rounds 60 digits, of which the last few may be wrong, so far that these no longer matter; at least 0."""
    if value <= 0:
        return ZERO
    safe = value * (1 + (1 if rounding == ROUND_CEILING else -1) * Decimal("1e-30"))
    return Fraction(Context(prec=digits, rounding=rounding).plus(safe))


def _not_negative(name: str, value: Fraction) -> None:
    if value < 0:
        raise ClaimError(f"{name} must be >= 0, got {value}")


def _checked_delta(delta: Fraction) -> Fraction:
    if not 0 < delta < 1:
        raise ClaimError(f"zero-concentrated privacy gives an epsilon for a delta between 0 and 1 only, got {delta}")
    return delta


_TERMS = 100


def upper_tail(x: float) -> float:
    """Computes P(Z > x)."""
    return math.erfc(x / math.sqrt(2)) / 2


def log_upper_tail(x: float) -> float:
    """Computes the logarithm of P(Z > x), for x that `upper_tail` no longer tells from 0 too."""
    return log_density(x) + math.log(mills_ratio(x))


def log_density(x: float) -> float:
    """Computes the logarithm of the density at x."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def mills_ratio(x: float) -> float:
    """Computes P(Z > x) over the density at x, x > -35: by erfc, and from 5 on by Laplace's continued fraction.

    Source: Abramowitz and Stegun (1964), 26.2.14.

    >>> round(mills_ratio(0.0), 6)
    1.253314
    """
    if x < 5:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    fraction = x
    for term in range(_TERMS, 0, -1):
        fraction = x + term / fraction
    return 1 / fraction
