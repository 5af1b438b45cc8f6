"""Rational numbers to texts and floats and back, remembered."""

from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=4096)
def fraction(text: str) -> Fraction:
    """Reads a rational number from its text, remembered: the plans of a release share a few."""
    return Fraction(text)


def number(value: Fraction) -> float:
    """Computes float(value), remembered: the plans of a release share a few, and a fraction takes its time."""
    return _number(*value.as_integer_ratio())


@lru_cache(maxsize=4096)
def _number(numerator: int, denominator: int) -> float:
    return numerator / denominator


def text(value: Fraction) -> str:
    """Writes str(value), remembered likewise."""
    return _text(*value.as_integer_ratio())


@lru_cache(maxsize=4096)
def _text(numerator: int, denominator: int) -> str:
    return str(Fraction(numerator, denominator))
