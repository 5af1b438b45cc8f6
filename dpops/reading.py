"""Estimates of many HATs from what a ledger stores of them: noisy integers with their plans as plain values."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpops.estimate import CONSTANT, OK, Estimates
from dpops.forecast import laplace_bound, laplace_std
from dpops.mechanism import Integers, Mechanism, Plan
from dpops.registry import registered


class _Law(NamedTuple):
    """What HATs of equal step, scale, upper bound and epsilon share. step: numerator and denominator.

    floats: what noise does not exceed but for a miss, its standard deviation, the upper bound, epsilon.
    """

    step: tuple[int, int]
    floats: tuple[float, float, float, float]
    status: str


def stored_estimates(
    name: str, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float
) -> Estimates:
    """What `Mechanism.estimates` says, by the mechanism's name and stored plans."""
    kind = registered()[name]
    if not _is_plain(kind):
        found = Estimates.of(kind.estimates(released, [Plan.from_public(name, plan) for plan in plans], miss))
        if len(found.numbers) + len(found.lists) != max(1, len(kind.outputs)):
            raise ValueError(f"{name} gives other outputs than it names")
        return found
    return _estimates([integers[-1] for integers in released], plans, miss)


def _is_plain(kind: type[Mechanism]) -> bool:
    """Whether a value is the noisy query itself, and its noise the plan's."""
    own = ("estimates", "estimate", "resolve", "value")
    return all(getattr(kind, method).__qualname__ == f"Mechanism.{method}" for method in own)


def _estimates(queries: Sequence[int], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
    """`Mechanism.estimate` of each, without a plan in between: the same sums of floats in the same order."""
    told = [(plan["step"], plan["scale"], plan["upper"], plan["epsilon"]) for plan in plans]
    number: dict[tuple[str, str, str, str], int] = {}
    of = [number.setdefault(each, len(number)) for each in told]
    laws = [_law(*each, miss) for each in number]
    noise, noise_std, upper, epsilon = np.array([law.floats for law in laws]).reshape(-1, 4).T[:, of]
    steps = [laws[law].step for law in of]
    exact = [query * over / under for query, (over, under) in zip(queries, steps, strict=True)]
    bias = np.array([plan["bias_bound"] for plan in plans], np.float64)
    rounding = np.array([plan.get("rounding", -1.0) for plan in plans], np.float64)
    for at in np.flatnonzero(rounding < 0).tolist():  # stored before there was a rounding of their own: means
        rounding[at] = upper[at] / (2 * plans[at]["facts"]["upper_steps"])
    value = np.minimum(np.maximum(np.array(exact, np.float64), 0.0), upper)
    half = noise + bias + rounding
    is_old = np.array([plan.get("version", 1) < 2 for plan in plans], np.bool_)
    return Estimates(
        numbers=np.stack([value, np.maximum(value - half, 0.0), np.minimum(value + half, upper)])[None],
        lists=[],
        noise_std=noise_std,
        bias_bound=np.where(is_old, bias, np.minimum(bias + rounding, upper)),
        epsilon=epsilon,
        status=[laws[law].status for law in of],
    )


@lru_cache(maxsize=1 << 14)
def _law(step: str, scale: str, upper: str, epsilon: str, miss: float) -> _Law:
    steps, noise, spent = Fraction(step), Fraction(scale), Fraction(epsilon)
    unit = float(steps)
    return _Law(
        steps.as_integer_ratio(),
        (laplace_bound(noise, miss) * unit, laplace_std(noise) * unit, float(Fraction(upper)), float(spent)),
        OK if spent else CONSTANT,
    )
