"""The standard normal law far out, without the cancellation of its usual formulas."""

import math

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
