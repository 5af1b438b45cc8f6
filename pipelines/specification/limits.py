"""The limit of an account as a specification writes it: an epsilon, or { epsilon, delta } with or without `pure`."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpops.accountant import DeltaLimit, Limit, PureLimit
from pipelines.specification.numbers import from_toml

_NAMES = {"epsilon", "delta", "pure"}


def limit_from_toml(value: Any) -> Limit:
    """Raises ValueError with the rule."""
    if isinstance(value, int | Decimal):
        return PureLimit(from_toml(Fraction, value))
    if not isinstance(value, dict) or not {"epsilon", "delta"} <= value.keys() <= _NAMES:
        raise ValueError("expected a number, or { epsilon = .., delta = .. }, which may have pure = .. too")
    numbers = {name: from_toml(Fraction, number) for name, number in value.items()}
    return DeltaLimit(numbers["epsilon"], numbers["delta"], numbers.get("pure"))
