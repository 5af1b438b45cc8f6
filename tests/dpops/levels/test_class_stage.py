"""The stage of speed classes: what a vehicle-day's reports in classes add up to, and that they keep to their bound."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpops.levels import bounded
from dpops.levels.bounded import Rows, read, release, sum_up, unchecked, vectors
from dpops.levels.parts import MOVING, hats_of_classes, rows_of_classes, with_classes
from dpops.levels.stages import CLASS, UNIT, Kind, Stage
from dpops.noise import Noise
from dpops.statistics import Classes
from dpops.types import Int64s
from tests.dpops.levels.cities import HATS, KINDS, STEP, stage

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
    first, last = with_classes((planned,), Fraction(3, 10), EDGES)
    hats = hats_of_classes(HATS, len(EDGES) + 1)
    centres = np.full((HATS.cells, HATS.slots), 2_000)
    return [first.on(HATS, centres, STEP), last.on(hats, np.zeros((hats.cells, hats.slots), np.int64), STEP)]


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

    def of_one_class_less(touched, sums, shares, count, stage):  # type: ignore[no-untyped-def]
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
            replace(last, **wrong)  # type: ignore[arg-type]
