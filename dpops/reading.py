"""Estimates of many HATs from what a ledger stores of them: noisy integers with their plans as plain values."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpops.estimate import CONSTANT, OK, Estimates
from dpops.forecast import laplace_bound, laplace_std
from dpops.mechanism import Integers, Mechanism, Plan, fraction
from dpops.registry import registered


class _Law(NamedTuple):
    """What HATs of equal step, scale, upper bound and epsilon share. numerator, denominator: of the step.

    floats: what noise does not exceed but for a miss, its standard deviation, the upper bound, epsilon.
    """

    numerator: int
    denominator: int
    floats: tuple[float, float, float, float]
    status: str


def stored_estimates(
    name: str, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float
) -> Estimates:
    """What `Mechanism.estimates` says, by the mechanism's name and stored plans."""
    kind = registered()[name]
    if not _is_plain(kind):
        return Estimates.of(kind.estimates(released, [Plan.from_public(name, plan) for plan in plans], miss))
    return _estimates([integers[-1] for integers in released], plans, kind.output(), miss)


def _is_plain(kind: type[Mechanism]) -> bool:
    """Whether a value is the noisy query itself, and its noise the plan's."""
    own = ("estimates", "estimate", "resolve", "value")
    return all(getattr(kind, method).__qualname__ == f"Mechanism.{method}" for method in own)


def _estimates(queries: Sequence[int], plans: Sequence[Mapping[str, Any]], output: str, miss: float) -> Estimates:
    """`Mechanism.estimate` of each, without a plan in between: the same sums of floats in the same order."""
    told = [(plan["step"], plan["scale"], plan["upper"], plan["epsilon"]) for plan in plans]
    known = {each: _law(*each, miss) for each in dict.fromkeys(told)}
    laws = [known[each] for each in told]
    noise, noise_std, upper, epsilon = np.array([law.floats for law in laws]).reshape(-1, 4).T
    bias = np.array([plan["bias_bound"] for plan in plans], np.float64)
    rounding = np.array([_rounding(plan) for plan in plans], np.float64)
    exact = [query * law.numerator / law.denominator for query, law in zip(queries, laws, strict=True)]
    value = np.minimum(np.maximum(np.array(exact, np.float64), 0.0), upper)
    half = noise + bias + rounding
    is_old = np.array([plan.get("version", 1) < 2 for plan in plans], np.bool_)
    return Estimates(
        numbers={output: np.stack([value, np.maximum(value - half, 0.0), np.minimum(value + half, upper)])},
        lists={},
        noise_std=noise_std,
        bias_bound=np.where(is_old, bias, np.minimum(bias + rounding, upper)),
        epsilon=epsilon,
        status=[law.status for law in laws],
    )


def _rounding(plan: Mapping[str, Any]) -> float:
    """Plans stored before there was a rounding of their own are of means."""
    found: float = plan.get("rounding", -1.0)
    return found if found >= 0 else float(fraction(plan["upper"])) / (2 * plan["facts"]["upper_steps"])


@lru_cache(maxsize=1 << 14)
def _law(step: str, scale: str, upper: str, epsilon: str, miss: float) -> _Law:
    steps, noise, spent = Fraction(step), Fraction(scale), Fraction(epsilon)
    unit = float(steps)
    return _Law(
        steps.numerator,
        steps.denominator,
        (laplace_bound(noise, miss) * unit, laplace_std(noise) * unit, float(Fraction(upper)), float(spent)),
        OK if spent else CONSTANT,
    )
