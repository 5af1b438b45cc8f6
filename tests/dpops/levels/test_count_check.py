"""A day's noisy number of vehicles, whose check stops an empty day alone, and noisy counts by key."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from dpops.claims import rho_within
from dpops.levels.bounded import Rows, read, sum_up, vectors
from dpops.levels.defaults import BoundsOnly, Fleet, recipe
from dpops.levels.parts import EMPTY_PASSES, LEAST_PART, USUAL_PART, USUAL_STOPS, count_stage, counts_stage, vehicles_in
from dpops.levels.stages import FIRST_CENTRE, UNIT, Kind, PublicHats, Stage, alike
from tests.dpops.levels.cities import HATS, KINDS, days_of, random_days, rows, stage

FLEETS = (120, 200, 1_000, 20_000)


def like(kind: Kind) -> Stage:
    """At a total of 2.64, with delta for Gaussian noise."""
    total = Fraction(66, 25)
    return stage(kind, budget=total if kind == "laplace" else rho_within(total, Fraction(1, 10**6)))


def counting(kind: Kind, vehicles: int) -> Stage:
    planned = count_stage(like(kind), vehicles)
    assert planned is not None
    return planned.on(HATS, like(kind).centres, like(kind).laid.step_kmh)


def chance_below(planned: Stage, distance: float) -> float:
    """That the noise lies so many vehicles below 0, or above it: by the continuous laws, which are as wide."""
    sd = read(np.zeros(2 * planned.groups, np.int64), planned).levels[0].weight_sd
    if planned.kind == "gaussian":
        return NormalDist().cdf(-distance / sd)
    return float(np.exp(-distance / (sd / 2**0.5)) / 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vehicles", FLEETS)
def test_an_empty_day_passes_rarely_and_a_usual_one_is_stopped_far_more_rarely(kind: Kind, vehicles: int) -> None:
    planned = counting(kind, vehicles)
    assert chance_below(planned, float(LEAST_PART) * vehicles) <= EMPTY_PASSES
    assert chance_below(planned, (USUAL_PART - float(LEAST_PART)) * vehicles) <= USUAL_STOPS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vehicles", FLEETS[1:])
def test_a_smaller_share_would_not_do(kind: Kind, vehicles: int) -> None:
    planned = counting(kind, vehicles)
    less = replace(planned, share=planned.share * Fraction(4, 5))
    distances = float(LEAST_PART) * vehicles, (USUAL_PART - float(LEAST_PART)) * vehicles
    if planned.share > Fraction(1, 100):  # else it is a step of a thousandth
        assert any(
            chance_below(less, distance) > most
            for distance, most in zip(distances, (EMPTY_PASSES, USUAL_STOPS), strict=True)
        )


def test_at_200_vehicles_it_takes_about_a_tenth_of_the_noise_scale() -> None:
    """0.1 of 2.64 for Laplace noise; the square root is what a Gaussian vector's share is of its scale."""
    assert float(counting("laplace", 200).share) * 2.64 == pytest.approx(0.13, abs=0.03)
    assert float(counting("gaussian", 200).share) ** 0.5 == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_every_vehicle_counts_as_one_whatever_it_did(kind: Kind) -> None:
    planned = counting(kind, 200)
    days = [day for day in (*days_of()[::11], *random_days(5, 40)) if day]
    for many in (days, days[:1], []):
        released = read(np.concatenate(sum_up(rows(many), planned)), planned)
        assert vehicles_in(released) == pytest.approx(len(many), abs=1e-3 + 1e-5 * len(many))


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_and_the_looks_after_it_spend_no_more_than_the_whole(kind: Kind) -> None:
    """Brute force over a small city: the integers of the worst vehicle-day, in all stages together."""
    first = counting(kind, 120)
    names = ("cell", "hour", "parent")
    second = stage(kind, names, 1 - first.share)
    assert first.parts == alike((("city", Fraction(1)),))
    power = 2 if kind == "gaussian" else 1
    most = Fraction(0)
    for day in [*days_of()[::5], *random_days(9, 20)]:
        if not day:
            continue
        spent = sum(
            abs(value) ** power for one in (first, second) for value in vectors(rows([day]), one).value.tolist()
        )
        most = max(most, Fraction(spent, (1 << 20) ** power))
    assert Fraction(9, 10) < most <= 1


TWO_KEYS = PublicHats(parents=(0, 0), grandparents=(0, 0), hours=(8, 9))
OTHERS = [(0, 0, 0, 2), (0, 1, 1, 1)]  # vehicle, key, slot, reports


def rows_by_key(entries):
    vehicle, key, slot, reports = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    return Rows(vehicle, key, slot, reports, 0 * reports)


def sums_of(entries, stage):
    sums = sum_up(rows_by_key(entries), stage)
    return np.concatenate([sums.weights, sums.speeds])


@pytest.mark.parametrize("bound", [1, 3, 7])
@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1)])
def test_a_user_adds_its_counts_scaled_down_to_the_bound(bound, exponent):
    fleet = BoundsOnly(hats=TWO_KEYS, fleet=Fleet(vehicles=50))
    like = recipe("gaussian", Fraction(2), Fraction(1, 10), fleet).later[-1]
    centres = np.full((TWO_KEYS.cells, TWO_KEYS.slots), FIRST_CENTRE, np.int64)
    stage = counts_stage(like, bound, exponent).on(TWO_KEYS, centres, Fraction(1, 100))
    before = sums_of(OTHERS, stage)
    for counts in product((0, 1, 2, 9), repeat=TWO_KEYS.size):
        own = [(1, index // 2, index % 2, number) for index, number in enumerate(counts) if number]
        moved = sums_of([*OTHERS, *own], stage) - before
        assert np.sum(moved.astype(object) ** 2) <= UNIT**2
        told = np.array(counts, float) if exponent else np.array(counts, bool).astype(float)
        norm = np.linalg.norm(told)
        expected = told * min(1.0, bound / norm) if norm else told
        shown = moved[: TWO_KEYS.size] / UNIT / float(1 - stage.alpha) ** 0.5 * bound
        assert np.allclose(shown, expected, atol=1e-3)
