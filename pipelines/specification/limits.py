"""The limit of an account as a specification writes it: an epsilon, or { epsilon, delta } with or without `pure`."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpops.accountant import DeltaLimit, Limit, PureLimit

_NAMES = {"epsilon", "delta", "pure"}


def limit_from_toml(value: Any, number: Callable[[object], Fraction]) -> Limit:
    """number: takes a number as it was written. Raises ValueError with the rule."""
    if isinstance(value, int | Decimal):
        return PureLimit(number(value))
    if not isinstance(value, dict) or not {"epsilon", "delta"} <= value.keys() <= _NAMES:
        raise ValueError("expected a number, or { epsilon = .., delta = .. }, which may have pure = .. too")
    numbers = {name: number(found) for name, found in value.items()}
    return DeltaLimit(numbers["epsilon"], numbers["delta"], numbers.get("pure"))
