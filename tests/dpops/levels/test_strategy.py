"""A strategy follows from public numbers alone: more noise or fewer vehicles, coarser levels and tighter bounds."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from dpops.levels.defaults import BoundsOnly, Fleet, Profile, Recipe, recipe, usual_norm, with_least_norm
from dpops.levels.stages import Kind, PublicHats
from dpops.levels.strategy import Free, chosen, ranked

PROFILE = Profile(hats=30, cells=8, parents=4, grandparents=2, hours=10, parts=3)


@cache
def city(vehicles: int, cells: int = 140) -> BoundsOnly:
    parents = tuple(cell // 7 for cell in range(cells))
    hats = PublicHats(parents=parents, grandparents=tuple(cell // 49 for cell in range(cells)), hours=tuple(range(24)))
    return BoundsOnly(hats=hats, fleet=Fleet(vehicles=vehicles, profile=PROFILE))


def table(kind: Kind, epsilon: str, bounds: BoundsOnly) -> Recipe:
    total = Fraction(epsilon)
    return recipe(kind, total, total * total / 20 if kind == "gaussian" else None, bounds)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("epsilon", ["1", "2.64", "10"])
def test_more_vehicles_never_have_a_larger_expected_error(kind: Kind, epsilon: str) -> None:
    errors_kmh = [
        ranked(table(kind, epsilon, city(vehicles)), city(vehicles), Free())[0].kmh for vehicles in (50, 200, 800, 3200)
    ]
    assert all(more <= 1.02 * fewer for fewer, more in itertools.pairwise(errors_kmh))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("vehicles", [50, 200, 800, 3200])
def test_a_larger_total_never_has_a_larger_expected_error(kind: Kind, vehicles: int) -> None:
    bounds = city(vehicles)
    errors_kmh = [
        ranked(table(kind, epsilon, bounds), bounds, Free())[0].kmh for epsilon in ("1", "2.64", "5", "10", "20")
    ]
    assert all(more <= 1.02 * less for less, more in itertools.pairwise(errors_kmh))


def test_a_dense_city_gets_wider_bounds_and_a_sparse_one_the_usual_ones() -> None:
    dense, sparse = (
        chosen(table("gaussian", "2.64", city(vehicles)), city(vehicles), Free()) for vehicles in (4000, 100)
    )
    assert sparse.later[0].bound_kmh == 5
    assert dense.later[0].bound_kmh > 5
    assert dense.first[0].bound_kmh > 7


def test_small_cells_get_more_than_hours_and_nothing_else_changes() -> None:
    """With delta: what a specification names, what a small fleet affords and Laplace noise stay."""
    large = city(200)
    small = replace(large, hats=replace(large.hats, are_small=True))
    usual, fine = (
        dict(chosen(table("gaussian", "2.64", large), bounds, Free()).later[0].shares)["cell"]
        for bounds in (large, small)
    )
    assert (usual, fine) == (Fraction(1, 2), Fraction(4, 5))
    for bounds in (large, small):
        fixed = table("gaussian", "2.64", large)
        assert chosen(fixed, bounds, Free(levels=False)).later[0].shares == fixed.later[0].shares
        pure = table("laplace", "2.64", large)
        assert chosen(pure, bounds, Free()).later[0].shares == pure.later[0].shares
    few = replace(small, fleet=Fleet(vehicles=3, profile=PROFILE))
    assert "cell" not in dict(chosen(table("gaussian", "1", few), few, Free()).later[0].shares)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("epsilon", ["2.64", "10"])
def test_every_candidate_spends_the_same_total(kind: Kind, epsilon: str) -> None:
    bounds = city(200)
    usual = table(kind, epsilon, bounds)
    for candidate in ranked(usual, bounds, Free()):
        assert candidate.recipe.spread == usual.spread
        for stages in (candidate.recipe.first, candidate.recipe.later):
            assert sum(stage.share for stage in stages) == 1
            assert all(sum(share for _, share in stage.shares) == 1 for stage in stages)


@pytest.mark.parametrize(("vehicles", "times"), [(60, 0), (1500, 1), (20_000, 3)])
def test_the_less_noise_the_more_weights_follow_reports(vehicles: int, times: int) -> None:
    bounds = city(vehicles)
    bounds = replace(bounds, fleet=replace(bounds.fleet, profile=replace(PROFILE, reports=20)))
    (stage,) = table("gaussian", "2.64", bounds).later
    norm = usual_norm(stage, bounds.fleet)
    assert norm is not None
    assert with_least_norm(stage, bounds).least_norm == round(times * norm)
    assert with_least_norm(replace(stage, counts_public=True), bounds).least_norm == 0


def test_without_reports_in_the_profile_all_vehicles_weigh_alike() -> None:
    (stage,) = table("gaussian", "2.64", city(20_000)).later
    assert with_least_norm(stage, city(20_000)) == stage
