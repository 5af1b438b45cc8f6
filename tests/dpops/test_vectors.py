"""Vectors in the simplex and the cube: exact sensitivity, worst bias, and the rank for a total epsilon."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.mechanisms.worst_case_optimal import WorstCaseOptimal
from dpops.noise import Noise
from dpops.types import Grid, Int64s
from dpops.vectors import VectorPlan, plan_vectors, release_vectors
from tests.statistical.audit import epsilon_lower_bound
from tests.statistical.checks import seeded

Domain = Literal["simplex", "cube"]
GRID = Grid(step=Fraction(1), upper_steps=2)
DOMAINS: list[Domain] = ["simplex", "cube"]


class Silent(Noise):
    def laplace(self, scales):  # type: ignore[no-untyped-def]
        return np.zeros(len(scales), np.int64)


def points(domain: Domain, count: int, dimension: int, upper: int) -> list[tuple[int, ...]]:
    """All sums that `count` samples of the domain can have."""
    everything = itertools.product(range(count * upper + 1), repeat=dimension)
    return [point for point in everything if domain == "cube" or sum(point) <= count * upper]


def moved(domain: Domain, plan: VectorPlan, counts: Int64s) -> int:
    """The largest l1 distance that one user makes, over all its sums; the others stay at 0, for the sum is additive."""
    largest = 0
    for user, count in enumerate(counts.tolist()):
        answers = []
        for point in points(domain, count, plan.dimension, GRID.upper_steps):
            sums = np.zeros((counts.size, plan.dimension), np.int64)
            sums[user] = point
            answers.append(release_vectors(counts, sums, plan, Silent()))
        made = np.array(answers)
        largest = max(largest, int(np.abs(made[:, None] - made[None]).sum(axis=2).max()))
    return largest


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(DOMAINS),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.integers(1, 2),
    st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(9)]),
)
def test_no_user_moves_the_vector_by_more_than_its_sensitivity(
    domain: Domain, counts: list[int], dimension: int, epsilon: Fraction
) -> None:
    vector = np.array(counts, np.int64)
    plan = plan_vectors(domain, vector, dimension, GRID, epsilon)
    largest = moved(domain, plan, vector)
    assert largest <= plan.sensitivity == plan.scale * plan.epsilon
    if dimension > 1 or domain == "cube":
        assert largest == plan.sensitivity


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_rank_is_for_the_total_epsilon_and_better_than_that_of_one_dimension(
    domain: Domain, dimension: int
) -> None:
    """Erratum E4: the bound of one dimension at the same epsilon costs more. All bounds U m are tried."""
    counts = np.array([64] + [32] * 2 + [16] * 4 + [8] * 8 + [4] * 16 + [2] * 32 + [1] * 64, np.int64)
    for epsilon in (Fraction(1, 2), Fraction(1)):
        best = plan_vectors(domain, counts, dimension, GRID, epsilon)

        def error(bound: int, epsilon: Fraction = epsilon) -> Fraction:
            over = int(np.maximum(counts * 2 - bound, 0).sum())
            noise = 2 * dimension * Fraction(bound) / epsilon if domain == "simplex" else dimension * bound / epsilon
            return (over + noise) / 448 if domain == "simplex" else (Fraction(over, 2) + noise) / 448

        assert best.error == error(best.bound) == min(error(2 * m) for m in (0, 1, 2, 4, 8, 16, 32, 64))
        one_dimension = plan_vectors("cube", counts, 1, GRID, epsilon)
        assert error(one_dimension.bound) > best.error


def test_one_dimension_is_the_mechanism_of_one_dimension() -> None:
    counts = np.array([9, 5, 4, 4, 1, 1], np.int64)
    grid = Grid(step=Fraction(1, 100), upper_steps=6_500)
    for epsilon in (Fraction(1, 5), Fraction(1), Fraction(3)):
        plan = plan_vectors("cube", counts, 1, grid, epsilon)
        single = WorstCaseOptimal().plan(counts, 24, grid, epsilon)
        assert (plan.scale, plan.step, plan.bound) == (single.scale, single.step, single.facts["bound"])
        assert float(plan.error) == pytest.approx(single.bias_bound + float(single.scale * single.step))


def test_the_worst_bias_in_the_simplex_is_attained() -> None:
    """Samples all at U in different coordinates: the published sum of the sides is reached there."""
    counts = np.array([6, 6, 1, 1], np.int64)
    plan = plan_vectors("simplex", counts, 2, GRID, Fraction(4, 3))
    assert plan.bound == 2
    sums = np.array([[12, 0], [0, 12], [2, 0], [0, 2]])
    made = np.array(release_vectors(counts, sums, plan, Silent()))
    assert np.abs(sums.sum(axis=0) - made).sum() == np.maximum(counts * 2 - plan.bound, 0).sum()


def test_too_few_users_give_a_constant() -> None:
    counts = np.array([3, 3], np.int64)
    sums = np.array([[6, 0], [1, 2]])
    assert release_vectors(counts, sums, plan_vectors("simplex", counts, 2, GRID, Fraction(1)), Noise()) == [0, 0]
    middle = plan_vectors("cube", counts, 2, GRID, Fraction(1))
    assert [z * middle.step for z in release_vectors(counts, sums, middle, Noise())] == [1, 1]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_audit_of_neighbouring_vectors_stays_below_the_claim_and_sees_half_the_noise(
    domain: Domain,
) -> None:
    """False-alarm rate 1e-6. The view is along the direction in which the heaviest user moves."""
    counts = np.array([5, 5, 1], np.int64)
    grid = Grid(step=Fraction(1, 10), upper_steps=650)
    plan = plan_vectors(domain, counts, 2, grid, Fraction(4))
    assert plan.bound > 0
    ends = {"simplex": ([3_250, 0], [0, 3_250]), "cube": ([0, 0], [3_250, 3_250])}[domain]
    direction = np.array([1, -1]) if domain == "simplex" else np.array([1, 1])

    def draws(end: list[int], made: VectorPlan, number: int, seed: int) -> Int64s:
        sums = np.array([end, [900, 800], [0, 600]])
        exact = np.array(release_vectors(counts, sums, made, Silent()))
        noise = seeded(seed).laplace([made.scale] * (2 * number)).reshape(number, 2)
        corners = np.stack([exact_of(0), exact_of(1)])
        near = np.clip(exact + noise, corners.min(axis=0), corners.max(axis=0))  # what lies beyond tells no more
        return near @ direction

    def exact_of(at: int) -> Int64s:
        return np.array(release_vectors(counts, np.array([ends[at], [900, 800], [0, 600]]), plan, Silent()))

    mutant = replace(plan, scale=plan.scale / 2)
    right, wrong = (
        epsilon_lower_bound(
            lambda n, m=made: draws(ends[0], m, n, 1), lambda n, m=made: draws(ends[1], m, n, 2), 60_000
        )
        for made in (plan, mutant)
    )
    assert 0.7 * plan.epsilon < right <= plan.epsilon < wrong


def test_what_does_not_fit_is_refused() -> None:
    counts = np.array([2, 1], np.int64)
    plan = plan_vectors("simplex", counts, 2, GRID, Fraction(4))
    for sums in ([[5, 0], [0, 0]], [[3, 3], [0, 0]], [[-1, 0], [0, 0]], [[1, 0]], [[1, 0, 0], [0, 0, 0]]):
        with pytest.raises(ValueError, match=r"do not fit|broadcast"):
            release_vectors(counts, np.array(sums), plan, Noise())
    with pytest.raises(ValueError, match="dimension"):
        plan_vectors("cube", counts, 0, GRID, Fraction(1))
