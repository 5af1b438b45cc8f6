"""The limit of an account as a specification writes it: an epsilon, or { epsilon, delta } with or without `pure`; and
what it does not add up at all."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit
from pipelines.specification.numbers import from_toml

_NAMES = {"epsilon", "delta", "pure"}
_NO_GAUSSIAN_NOISE = (
    "the account has a limit without delta, so it allows no Gaussian noise, however little is asked for: leave out "
    "privacy.delta, or take an account of which every limit has a delta"
)
_OTHER_NOISE = (
    "the account adds up Gaussian noise alone (account.accounting = 'gdp'), and what is released has none, or other: "
    "give privacy.delta, which goes with mechanism 'levels', or take an account that sets a part of its limits apart "
    "for pure claims ({ epsilon = .., delta = .., pure = .. })"
)


def limit_from_toml(value: Any) -> Limit:
    """Raises ValueError with the rule."""
    if isinstance(value, int | Decimal):
        return PureLimit(from_toml(Fraction, value))
    if not isinstance(value, dict) or not {"epsilon", "delta"} <= value.keys() <= _NAMES:
        raise ValueError("expected a number, or { epsilon = .., delta = .. }, which may have pure = .. too")
    numbers = {name: from_toml(Fraction, number) for name, number in value.items()}
    return DeltaLimit(numbers["epsilon"], numbers["delta"], numbers.get("pure"))


def not_added_up(limit: Limit, asked: Accountant) -> str:
    """Says why what is asked for fits no account with this limit, however little it is; nothing where it may fit."""
    refusing = (span.limit for span in limit.spans if not span.limit.adds_up(asked))
    first = next(refusing, None)
    if first is None:
        return ""
    return _NO_GAUSSIAN_NOISE if isinstance(first, PureLimit) else _OTHER_NOISE
