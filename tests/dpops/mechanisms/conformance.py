"""What the conformance tests share: examples of every registered mechanism, count vectors, worst neighbours."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from dpops import statistics
from dpops.claims import Adjacency
from dpops.mechanism import Mechanism, Plan, Totals
from dpops.mechanisms import registered
from dpops.mechanisms.array_average import ArrayAverage, OptArray
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.mechanisms.constant import Constant
from dpops.noise import Noise
from dpops.statistics import Column
from dpops.types import CountsKnown, Grid, Int64s
from tests.dpops.reference import GRID, unlike
from tests.dpops.trees import examples as trees
from tests.kit.grids import grid
from tests.statistical.audit import Release

EPSILON = Fraction(2)
DRAWS = 14_000
EXACT = (Baseline, ArrayAverage, OptArray)  # their sensitivity and bias bound are attained, but for rounding
AUDITED: frozenset[Adjacency] = frozenset({"counts-public"})


class Known(NamedTuple):
    """A statistic of all samples of a HAT, in units, and the most that it can be."""

    truth: Callable[[Totals], Fraction]
    most: Fraction


def mean_of_means(totals: Totals) -> Fraction:
    """A user without samples counts nowhere."""
    pairs = [(s, c) for s, c in zip(totals.sums.tolist(), totals.counts.tolist(), strict=True) if c]
    return sum((Fraction(s, c) for s, c in pairs), Fraction(0)) / len(pairs) * GRID.step


def mean(totals: Totals) -> Fraction:
    return Fraction(int(totals.sums.sum()), int(totals.counts.sum())) * GRID.step


def variance(totals: Totals) -> Fraction:
    return Fraction(int(totals.squares.sum()), int(totals.counts.sum())) * GRID.step**2 - mean(totals) ** 2


KNOWN = {
    "mean": Known(mean, GRID.upper),
    "mean-of-vehicles": Known(mean_of_means, GRID.upper),
    "variance": Known(variance, GRID.upper**2 / 4),
}
"""By the name of the statistic."""
DISTRIBUTIONS = frozenset({"distribution"})
NUMBERS = [kind for kind in registered().values() if kind.statistics <= KNOWN.keys()]
"""Those that release one number; distributions: tests/dpops/trees/test_mechanisms.py."""
EXAMPLES = [example for kind in NUMBERS for example in kind.examples()]
COUNTS = [
    np.array(counts, np.int64)
    for counts in (
        [1],
        [7],
        [1, 1],
        [5, 3, 1],
        [4, 4, 4, 4],
        [3, 2, 2, 1, 1, 1, 1],
        [417, 60, 46, 46, 20, 9, 3, 1, 1],
        sorted((1 + (i * i) % 23 for i in range(30)), reverse=True),
    )
]
PLAIN = [
    mechanism
    for mechanism in EXAMPLES
    if not (mechanism.chooses or (isinstance(mechanism, Auto) and mechanism.prior and mechanism.statistic == "mean"))
]
every_example = pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
every_kind = pytest.mark.parametrize("mechanism", [*EXAMPLES, *trees.EXAMPLES], ids=repr)
# Those that choose nothing privately, so that the plan alone settles the noise; the others: test_private_choices.py.
every_plain = pytest.mark.parametrize("mechanism", PLAIN, ids=repr)
first_plain, first_example = (
    pytest.mark.parametrize(
        "mechanism",
        [
            pytest.param(it, id=repr(it), marks=[pytest.mark.slow] * (type(it) in map(type, all_of[:place])))
            for place, it in enumerate(all_of)
        ],
    )
    for all_of in (PLAIN, EXAMPLES)
)
"""For audits and simulations: the fast run takes one example of each kind, the whole suite all."""
plain_kinds = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=[] if kind in (ArrayAverage, BaselineVariance) else pytest.mark.slow)
        for kind in dict.fromkeys(map(type, PLAIN))
        if kind is not Constant  # it has no noise that could be too little
    ],
)
"""The fast run takes one mechanism of each statistic, the whole suite all: 8 s each."""
plain_and_counts = pytest.mark.parametrize(
    ("mechanism", "counts"),
    grid(PLAIN, COUNTS),
    ids=lambda it: f"{it.size}users-{it[0]}most" if isinstance(it, np.ndarray) else repr(it),
)
few_counts = pytest.mark.parametrize(
    "counts",
    [pytest.param(c, id=f"{c.size}users-{c[0]}most", marks=[] if c.size == 9 else pytest.mark.slow) for c in COUNTS],
)
"""For simulations: the fast run takes one count vector, the whole suite all."""
count_vectors = st.lists(st.integers(1, 60), min_size=1, max_size=25).map(lambda c: np.array(sorted(c)[::-1], np.int64))


def plan_for(mechanism: Mechanism, counts: Int64s) -> Plan:
    return mechanism.plan(CountsKnown.all_of(counts), GRID, EPSILON)


def statistic_of(mechanism: Mechanism) -> str:
    chosen: str | None = getattr(mechanism, "statistic", None)
    return chosen or next(iter(mechanism.statistics))


def columns_for(mechanism: Mechanism, grid: Grid) -> Mapping[str, Column]:
    """What its statistic needs of samples."""
    return statistics.registered()[statistic_of(mechanism)].needs(mechanism, grid)


def heaviest_totals(mechanism: Mechanism, counts: Int64s, grid: Grid) -> Totals:
    """What users add up to whose samples are all at U."""
    columns, top = columns_for(mechanism, grid), np.array([grid.upper_steps])
    totals = {field: column.add_up(top, np.array([0]), 1)[0] for field, column in columns.items()}
    return Totals(counts, **{field: counts * total for field, total in totals.items()})


def spread(mechanism: Mechanism, counts: Int64s, sums: Int64s) -> Totals:
    """What users of these sums add up to in the statistic's columns, if all samples but one are at 0 or at U."""
    full, rest = np.divmod(sums, GRID.upper_steps)
    number, user = _samples(counts)
    at_most = np.where(number == full[user], rest[user], 0)
    return _added(mechanism, counts, np.where(number < full[user], GRID.upper_steps, at_most))


def even(mechanism: Mechanism, counts: Int64s, sums: Int64s) -> Totals:
    """What they add up to if a user's samples are within one step of one another."""
    low, over = np.divmod(sums, np.maximum(counts, 1))
    number, user = _samples(counts)
    return _added(mechanism, counts, low[user] + (number < over[user]))


def _samples(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Of each sample its number among its user's, and the user."""
    user = np.repeat(np.arange(counts.size), counts)
    return np.arange(counts.sum()) - (np.cumsum(counts) - counts)[user], user


def _added(mechanism: Mechanism, counts: Int64s, steps: Int64s) -> Totals:
    user, columns = _samples(counts)[1], columns_for(mechanism, GRID)
    return Totals(counts, **{field: column.add_up(steps, user, counts.size) for field, column in columns.items()})


def truth_of(mechanism: Mechanism, totals: Totals) -> Fraction:
    return KNOWN[statistic_of(mechanism)].truth(totals)


def totals_of(counts: Sequence[int], sums: Sequence[int]) -> Totals:
    """Totals that may fit nothing. Their squares are no samples' either, but it is the sums that are refused."""
    return Totals(np.array(counts, np.int64), np.array(sums, np.int64), np.array(sums, np.int64) ** 2)


def is_exact(mechanism: Mechanism, plan: Plan) -> bool:
    """Whether the sensitivity is attained but for rounding."""
    if isinstance(mechanism, BaselineVariance):
        return "m_ub" not in plan.facts or plan.facts["kept"] > 2 * plan.facts["m_ub"]
    return isinstance(mechanism, EXACT)


def is_attained(mechanism: Mechanism, counts: Int64s) -> bool:
    plan = plan_for(mechanism, counts)
    one, other = noiseless_of(mechanism, plan, worst_neighbours(mechanism, plan, counts))
    return abs(one - other) >= 0.99 * plan.sensitivity


def noiseless_of(mechanism: Mechanism, plan: Plan, totals: Sequence[Totals]) -> list[int]:
    return noiseless_many(mechanism, [plan] * len(totals), totals)


def noiseless_many(mechanism: Mechanism, plans: Sequence[Plan], totals: Sequence[Totals]) -> list[int]:
    """The integers that noise of scale 0 gives."""
    return [integers[-1] for integers in mechanism.release(totals, silenced(plans), Noise())]


def silenced(plans: Sequence[Plan]) -> list[Plan]:
    return [replace(plan, scale=Fraction(0)) for plan in plans]


def last_of(released: Sequence[Sequence[int]]) -> Int64s:
    """The noisy query of each HAT."""
    return np.array([integers[-1] for integers in released], np.int64)


def releases_of(mechanism: Mechanism, plan: Plan, totals: Totals, noise: Noise) -> Release:
    return lambda draws: last_of(mechanism.release([totals] * draws, [plan] * draws, noise))


def worst_neighbours(mechanism: Mechanism, plan: Plan, counts: Int64s) -> tuple[Totals, Totals]:
    """Of all users moved from 0 to count * U, over several sums of the others, the pair that differs most.

    Also from 0 to as much as makes half of all that is kept: a variance is largest there. Samples are 0 and U, but one.
    """
    rng = np.random.default_rng(36)
    top = counts * GRID.upper_steps
    backgrounds = [top * 0, top, top // 2, *(rng.integers(0, top + 1) for _ in range(3))]
    retained = np.minimum(counts, plan.facts.get("m_ub", counts.max()))
    half = np.minimum(counts * retained.sum() // (2 * retained) * GRID.upper_steps, top)
    pairs = []
    for sums, end in itertools.product(backgrounds, (top, half)):
        for user in range(counts.size):
            is_user = np.arange(counts.size) == user
            ends = (spread(mechanism, counts, np.where(is_user, x, sums)) for x in (0, end))
            pairs.append((next(ends), next(ends)))
    answers = noiseless_of(mechanism, plan, [totals for pair in pairs for totals in pair])
    moved = np.abs(np.array(answers[::2]) - np.array(answers[1::2]))
    return pairs[int(np.argmax(moved))]


def worst_biased(mechanism: Mechanism, plan: Plan, counts: Int64s) -> Totals:
    """The users whose weight in the release is above their share of the samples at U, all others at 0.

    Of the variance, which is no sum over users: the worst of all that put the first users, or the others, at U.
    """
    top = counts * GRID.upper_steps
    if statistic_of(mechanism) == "variance":
        heads = [np.where(np.arange(counts.size) < users, top, 0) for users in range(counts.size + 1)]
        hats = [unlike(counts, sums, GRID.upper_steps) for sums in (*heads, *(top - head for head in heads))]
        released = noiseless_of(mechanism, plan, hats)
        off = [abs(x * plan.step - truth_of(mechanism, hat)) for x, hat in zip(released, hats, strict=True)]
        return hats[off.index(max(off))]
    alone = [spread(mechanism, counts, np.where(np.arange(counts.size) == user, top, 0)) for user in range(counts.size)]
    weights = np.array(noiseless_of(mechanism, plan, alone)) * float(plan.step)
    return spread(mechanism, counts, np.where(weights > counts / counts.sum() * float(plan.upper), top, 0))


def enumerated_sensitivity(mechanism: Mechanism, plan: Plan, counts: Int64s, grid: Grid) -> int:
    """The largest |q(D) - q(D')| over all datasets on the grid: along each axis of the cube of what users add up to."""
    columns = columns_for(mechanism, grid)
    axes = [added_up(columns, count, grid.upper_steps) for count in counts.tolist()]
    cube = np.array(list(itertools.product(*axes)), np.int64)
    hats = [Totals(counts, **dict(zip(columns, users.T, strict=True))) for users in cube]
    table = np.array(noiseless_of(mechanism, plan, hats), np.int64).reshape([len(axis) for axis in axes])
    return max(int(np.ptp(table, axis=axis).max()) for axis in range(table.ndim))


def added_up(columns: Mapping[str, Column], count: int, upper_steps: int) -> list[tuple[int, ...]]:
    """All that so many samples on the grid may add up to in these columns."""
    every = np.array(list(itertools.combinations_with_replacement(range(upper_steps + 1), count)), np.int64)
    group = np.repeat(np.arange(len(every)), count)
    added = [column.add_up(every.ravel(), group, len(every)).tolist() for column in columns.values()]
    return sorted(set(zip(*added, strict=True)))
