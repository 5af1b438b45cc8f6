"""Stages beside those of means: speed classes, which keep to their bound, a noisy number of vehicles, counts by key."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from dpops.claims import rho_within
from dpops.levels import bounded, parts
from dpops.levels.bounded import Rows, read, release, sum_up, unchecked, vectors
from dpops.levels.defaults import BoundsOnly, Fleet, recipe
from dpops.levels.parts import EMPTY_PASSES, LEAST_PART, MOVING, USUAL_PART, USUAL_STOPS, rows_of_classes
from dpops.levels.stages import CLASS, FIRST_CENTRE, UNIT, Kind, PublicHats, Stage, StageHats, alike
from dpops.noise import Noise
from dpops.statistics import Classes
from dpops.types import Int64s
from tests.dpops.levels.cities import HATS, KINDS, STEP, days_of, excess, random_days, rows, stage

EDGES = (100, 2_000, 4_000)
SPEEDS = (0, 99, 100, 3_999, 6_500)
Report = tuple[int, int, int]  # cell, slot, and its speed in steps


def days() -> list[list[Report]]:
    """Every day of up to two reports in a few HATs, days of many in all of them, and one that stands in one cell."""
    places = [(0, 0), (0, 1), (1, 0), (2, 3)]
    single = [[(*place, speed)] for place in places for speed in SPEEDS]
    double = [[one[0], other[0]] for one, other in product(single, single)]
    rng, everywhere = np.random.default_rng(1), list(product(range(3), range(4)))
    many = [
        [(*everywhere[number], int(rng.choice(SPEEDS))) for number in rng.integers(0, 12, rng.integers(1, 60))]
        for _ in range(100)
    ]
    return [*single, *double, *many, [(0, 0, 0)] * 5_000, [(*place, 0) for place in everywhere]]


def counted(some: list[list[Report]]) -> tuple[Rows, Int64s]:
    """Rows of vehicle-days, and the reports of each class."""
    entries = np.array(
        sorted((number, *report) for number, day in enumerate(some) for report in day), np.int64
    ).reshape(-1, 4)
    keys, row = np.unique(entries[:, :3], axis=0, return_inverse=True)
    total = np.bincount(row, entries[:, 3], len(keys)).astype(np.int64)
    rows = Rows(*keys.T, np.bincount(row, minlength=len(keys)), total)
    return rows, Classes(EDGES).add_up(entries[:, 3], row, len(keys))


def classed(rows_and_counts: tuple[Rows, Int64s]) -> Rows:
    rows, counts = rows_and_counts
    return rows_of_classes(rows.vehicle, rows.cell, counts)


def stages(kind: Kind) -> list[Stage]:
    """A stage of means, and one of classes, laid on the city."""
    planned = replace(stage(kind), around=None)
    first, last = parts.with_classes((planned,), Fraction(3, 10), EDGES)
    hats = parts.hats_of_classes(HATS, len(EDGES) + 1)
    centres = np.full((HATS.cells, HATS.slots), 2_000)
    of_last = StageHats(hats, np.zeros((hats.cells, hats.slots), np.int64), STEP)
    return [replace(first, around=StageHats(HATS, centres, STEP)), replace(last, around=of_last)]


def norms(some: list[list[Report]], kind: Kind) -> list[list[Fraction]]:
    """Of each stage and vehicle-day, as a part of what is allowed (1)."""
    rows, counts = counted(some)
    by_stage = []
    for one in stages(kind):
        made = unchecked(rows_of_classes(rows.vehicle, rows.cell, counts) if one.classes else rows, one)
        by_day = [Fraction(0)] * len(some)
        for vehicle, value in zip(made.vehicle.tolist(), made.value.tolist(), strict=True):
            by_day[vehicle] += Fraction(value**2, UNIT**2) if kind == "gaussian" else Fraction(abs(value), UNIT)
        by_stage.append(by_day)
    return by_stage


@pytest.mark.parametrize("kind", KINDS)
def test_no_vehicle_day_exceeds_its_bound_over_means_and_classes(kind: Kind) -> None:
    means, classes = norms(days(), kind)
    assert Fraction(97, 100) < max(map(sum, zip(means, classes, strict=True))) <= 1
    assert Fraction(29, 100) < max(classes) <= Fraction(3, 10), "with a norm of its own it has all of its share"
    assert min(classes) > Fraction(29, 100), "whatever a vehicle-day did"


@pytest.mark.parametrize("kind", KINDS)
def test_a_norm_over_fewer_reports_than_are_released_is_caught(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    norm = bounded._norm

    def of_one_class_less(touched, sums, shares, count, stage):
        if stage.classes:
            standing = [groups.group % (len(EDGES) + 1) == 0 for groups in touched]
            sums = [np.where(stands, values / 2, values) for stands, values in zip(standing, sums, strict=True)]
        return norm(touched, sums, shares, count, stage)

    monkeypatch.setattr(bounded, "_norm", of_one_class_less)
    means, classes = norms(days(), kind)
    assert max(map(sum, zip(means, classes, strict=True))) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_vehicles_integers_are_its_own_and_the_check_finds_nothing_wrong(kind: Kind) -> None:
    some = days()[-40:]
    _, last = stages(kind)
    whole = vectors(classed(counted(some)), last)
    assert all(np.array_equal(a, b) for a, b in zip(whole, unchecked(classed(counted(some)), last), strict=True))
    for out in (0, 17, len(some) - 1):
        left = sum_up(classed(counted(some[:out] + some[out + 1 :])), last)
        alone = sum_up(classed(counted([some[out]])), last)
        assert np.array_equal(left.weights + alone.weights, sum_up(classed(counted(some)), last).weights)


def test_a_day_is_one_group_and_reports_that_move_count_more() -> None:
    rows = classed(counted([[(1, 0, 50), (1, 3, 0), (1, 2, 2_500), (2, 2, 6_500)]]))
    assert rows.cell.tolist() == [4, 6, 11]
    assert rows.reports.tolist() == [2, MOVING, MOVING]
    assert not rows.slot.any()
    assert not rows.total.any()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_alone_are_released_with_noise(kind: Kind) -> None:
    _, last = stages(kind)
    integers = release(sum_up(classed(counted([[(0, 0, 0)]])), last), last, Noise())
    assert integers[: last.groups].all()
    assert not integers[last.groups :].any()
    (level,) = read(integers, last).levels
    assert level.level.name == CLASS
    assert np.isfinite(level.weight_sd)
    assert np.isinf(level.speed_sd)


def test_an_edge_belongs_to_the_class_above_it() -> None:
    steps = np.array([0, 99, 100, 3_999, 4_000, 6_500])
    assert Classes(EDGES).add_up(steps, np.zeros(6, np.int64), 1).tolist() == [[2, 1, 1, 2]]


def test_a_stage_of_classes_has_weights_alone_and_edges_that_ascend() -> None:
    _, last = stages("gaussian")
    for wrong in ({"alpha": Fraction(1, 2)}, {"classes": (100, 100)}, {"classes": (0, 5)}, {"classes": ()}):
        with pytest.raises(ValueError, match=r"alpha|ascend"):
            replace(last, **wrong)


# --- A day's noisy number of vehicles, whose check stops an empty day alone, and noisy counts by key. -----------------


FLEETS = (120, 200, 1_000, 20_000)


def like(kind: Kind) -> Stage:
    """At a total of 2.64, with delta for Gaussian noise."""
    total = Fraction(66, 25)
    return stage(kind, budget=total if kind == "laplace" else rho_within(total, Fraction(1, 10**6)))


def counting(kind: Kind, vehicles: int) -> Stage:
    planned = parts.count_stage(like(kind), vehicles)
    assert planned is not None
    return replace(planned, around=like(kind).laid)


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
        assert parts.vehicles_in(released) == pytest.approx(len(many), abs=1e-3 + 1e-5 * len(many))


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_and_the_looks_after_it_spend_no_more_than_the_whole(kind: Kind) -> None:
    """Brute force over a small city: the integers of the worst vehicle-day, in all stages together."""
    first = counting(kind, 120)
    names = ("cell", "hour", "parent")
    second = stage(kind, names, 1 - first.share)
    assert first.parts == alike((("city", Fraction(1)),))
    assert Fraction(9, 10) < excess([first, second], [*days_of()[::5], *random_days(9, 20)]) <= 1


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
    stage = replace(parts.counts_stage(like, bound, exponent), around=StageHats(TWO_KEYS, centres, Fraction(1, 100)))
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
