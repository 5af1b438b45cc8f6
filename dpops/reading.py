"""Estimates of many HATs from what a ledger stores of them: noisy integers with their plans as plain values."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dpops.estimate import CONSTANT, OK, Estimate, Number
from dpops.forecast import laplace_bound, laplace_std
from dpops.mechanism import Integers, Mechanism, Plan
from dpops.registry import registered


class _Law(NamedTuple):
    """What HATs of equal step, scale, upper bound and epsilon share. noise: what it does not exceed but for a miss."""

    numerator: int
    denominator: int
    noise: float
    noise_std: float
    upper: float
    epsilon: Fraction
    status: str


def stored_estimates(
    name: str, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float
) -> list[Estimate]:
    """What `Mechanism.estimates` says, by the mechanism's name and stored plans."""
    kind = registered()[name]
    if not _is_plain(kind):
        return kind.estimates(released, [Plan.from_public(name, plan) for plan in plans], miss)
    output = kind.output()
    return [_estimate(integers[-1], plan, output, miss) for integers, plan in zip(released, plans, strict=True)]


def _is_plain(kind: type[Mechanism]) -> bool:
    """Whether a value is the noisy query itself, and its noise the plan's."""
    own = ("estimates", "estimate", "resolve", "value")
    return all(getattr(kind, method).__qualname__ == f"Mechanism.{method}" for method in own)


def _estimate(query: int, plan: Mapping[str, Any], output: str, miss: float) -> Estimate:
    """`Mechanism.estimate`, without a plan in between."""
    law = _law(plan["step"], plan["scale"], plan["upper"], plan["epsilon"], miss)
    upper, bias, rounding = law.upper, plan["bias_bound"], plan.get("rounding", -1.0)
    if rounding < 0:
        rounding = upper / (2 * plan["facts"]["upper_steps"])
    value = min(max(query * law.numerator / law.denominator, 0.0), upper)
    half = law.noise + bias + rounding
    return Estimate(
        numbers={output: Number(value, max(value - half, 0.0), min(value + half, upper))},
        lists={},
        noise_std=law.noise_std,
        bias_bound=bias if plan.get("version", 1) < 2 else min(bias + rounding, upper),
        epsilon=law.epsilon,
        status=law.status,
    )


@lru_cache(maxsize=1 << 14)
def _law(step: str, scale: str, upper: str, epsilon: str, miss: float) -> _Law:
    steps, noise, spent = Fraction(step), Fraction(scale), Fraction(epsilon)
    unit = float(steps)
    return _Law(
        steps.numerator,
        steps.denominator,
        laplace_bound(noise, miss) * unit,
        laplace_std(noise) * unit,
        float(Fraction(upper)),
        spent,
        OK if spent else CONSTANT,
    )
