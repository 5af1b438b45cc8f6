"""By hexagon: plans from counts alone, canonical order, heartbeats, regions, shards."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.forecast import Prior
from dpops.mechanism import Plan
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance as Variance
from dpops.statistics import RequestedStatistic
from tests.dpops.reference import Silent, value_of
from tests.kit.grids import grid
from tests.transforms.releases.hats import CELLS, DAY, FACTS, drawn_unit, policy, tally_of
from transforms.releases.hats import draw
from transforms.releases.hats.draw import digest_of, draw_releases, is_plain, release_shard
from transforms.wire import Tally, joined


def test_cells_come_in_order_and_vehicles_in_any_order_make_no_difference():
    rows = [(5, 1, 2, 100, 0), (3, 0, 4, 900, 0), (9, 1, 2, 300, 0)]
    for mechanism in (Baseline(), ArrayAverage()):
        stats = (RequestedStatistic("mean", mechanism, Fraction(1)),)
        first, second = (drawn_unit(tally_of(*r), statistics=stats) for r in (rows, rows[::-1]))
        assert first == second
        assert [r.cell for r in first.released] == ["872830828ffffff", "872830829ffffff"]


def test_the_debit_is_the_most_that_any_vehicle_spends():
    unit = drawn_unit(tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0), (1, 2, 1, 0, 0), (2, 0, 1, 0, 0)))
    assert (str(unit.per_hat), str(unit.spent)) == ("1", "3")


def test_per_period_divides_over_the_slots_and_the_cells_that_a_vehicle_keeps():
    unit = drawn_unit(tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0)), per="period", epsilon=Fraction(6))
    assert (str(unit.per_hat), str(unit.spent)) == ("1/8", "1/4")


def test_with_release_shards_the_cap_stands_for_what_no_shard_can_see():
    unit = drawn_unit(tally_of((1, 0, 2, 0, 0)), shards=2, most_hats=5, shard=1)
    assert str(unit.spent) == "5"


def test_a_region_gives_the_same_rows_whether_anything_drove_or_not():
    region = tuple(sorted(CELLS))
    empty, full = (drawn_unit(table, region=region) for table in (tally_of(), tally_of((1, 1, 2, 9, 0))))
    assert [r.cell for r in empty.released] == [r.cell for r in full.released]
    assert [r.plan is None for r in full.released] == [True, False, True]


def test_every_cell_belongs_to_one_shard():
    cells = np.array(CELLS, np.int64)
    assert set(release_shard(cells, 7).tolist()) <= set(range(7))
    rows = [(1, i, 1, i, 0) for i in range(3)]
    region = tuple(sorted(CELLS))
    shards = release_shard(cells, 2)
    released = []
    for shard in range(2):
        tally = tally_of(*[row for row, s in zip(rows, shards, strict=True) if s == shard])
        released += drawn_unit(tally, shard=shard, shards=2, most_hats=3, region=region).released
    assert sorted(r.integers for r in released) == [[0], [1], [2]]


def test_the_plan_sees_counts_and_never_speeds():
    one, other = (drawn_unit(tally_of((1, 0, 4, total, 0), (2, 0, 1, 6500, 0))) for total in (0, 26_000))
    assert [r.plan for r in one.released] == [r.plan for r in other.released]
    assert one.digest != other.digest


def test_a_release_of_means_carries_no_squares_unless_the_ledger_has_plain_digests():
    assert [column.name for column in policy().columns] == ["sums"]
    assert [column.name for column in policy(plain_digests=True).columns] == ["sums", "squares"]
    assert is_plain(drawn_unit(tally_of((1, 0, 2, 90, 0)), plain_digests=True).digest)


def test_digests_need_the_key():
    table = tally_of((1, 0, 4, 5, 0))
    assert drawn_unit(table).digest != drawn_unit(table, digest_key=b"other").digest


BOTH = tuple(
    RequestedStatistic(name, kind, Fraction(1, 2)) for name, kind in (("mean", Baseline()), ("variance", Variance()))
)


def of_day(*tables, noise=None, **changes):
    return [
        unit
        for unit, _ in draw_releases(
            {(3600, 0): joined(tables)}, DAY, policy(scope="period", **changes), noise or Silent()
        )
    ]


def test_a_variance_comes_from_sums_of_squares_and_not_from_the_vehicles_means():
    """One vehicle at 10 and at 30 km/h, the other always at 20: the variance is 50, that of the means 0."""
    steps = np.array([1000, 3000], np.int64)
    rows = tally_of((1, 0, 2, int(steps.sum()), 0), (2, 0, 2, 4000, 0))
    squares = np.array([int((steps**2).sum()), 2 * 2000**2])
    rows = replace(rows, sums=rows.sums | {"squares": squares})
    mean, variance = drawn_unit(rows, statistics=BOTH).released
    assert (mean.statistic, variance.statistic) == ("mean", "variance")
    plan = Plan.from_public(variance.mechanism, variance.plan)
    assert value_of(variance.integers, plan) == pytest.approx(50, abs=1e-5)
    assert [plan.epsilon, plan.upper] == [Fraction(1, 2), Fraction(65 * 65, 4)]


def test_a_plan_of_a_period_divides_the_total_over_all_hats_of_the_busiest_vehicle():
    first = tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0), (2, 0, 1, 0, 0))
    units = of_day(first, tally_of((1, 2, 1, 0, 0), slot_s=7200), per="period", epsilon=Fraction(6))
    assert [str(unit.per_hat) for unit in units] == ["2", "2"]
    assert [str(unit.spent) for unit in units] == ["4", "2"]
    assert [str(unit.debit) for unit in units] == ["6", "0"], "the first slot stands for all"
    assert {str(unit.total) for unit in units} == {"6"}


def test_with_the_epsilon_of_a_hat_given_a_whole_period_debits_what_its_busiest_vehicle_spends():
    """Slot maxima would add up to 3; no vehicle is in more than 2 HATs."""
    units = of_day(tally_of((1, 0, 1, 0, 0), (1, 1, 1, 0, 0)), tally_of((2, 0, 1, 0, 0), slot_s=7200))
    assert [str(unit.debit) for unit in units] == ["2", "0"]


def crowd():
    """Vehicle 0 in two cells, among twenty others in each; a lone vehicle in a third cell has the largest error."""
    others = [(100 * cell + i, cell, 1, 10, 0) for cell in range(2) for i in range(1, 21)]
    return tally_of((0, 0, 1, 10, 0), (0, 1, 1, 10, 0), *others, (999, 2, 2, 20, 0))


def test_clip_user_takes_whole_vehicles_out_and_says_what_it_dropped():
    unit = drawn_unit(crowd(), clip_user=True, epsilon=Fraction(1, 100), statistics=BOTH)
    kept = [released.plan["facts"]["samples"] for released in unit.released if released.statistic == "mean"]
    assert sorted(kept) == [2, 20, 21]
    assert {released.plan["facts"]["reported"] for released in unit.released} == {2, 21}
    assert str(unit.spent) == "1/100", "vehicle 0 was in two HATs"


def test_clip_user_under_a_total_releases_at_what_is_left_to_a_hat():
    plain, clipped = (
        drawn_unit(crowd(), clip_user=clip, per="period", epsilon=Fraction(1, 100), statistics=BOTH)
        for clip in (False, True)
    )
    assert [str(plain.per_hat), str(clipped.per_hat)] == ["1/4800", "1/2400"]
    assert str(plain.spent) == str(clipped.spent) == "1/2400"


def test_clip_user_sees_counts_and_never_speeds():
    table = crowd()
    fast = replace(table, sums={"sums": table.kept * 6500, "squares": table.kept * 6500**2})
    units = [drawn_unit(t, clip_user=True, epsilon=Fraction(1, 100), statistics=BOTH) for t in (table, fast)]
    assert [r.plan for r in units[0].released] == [r.plan for r in units[1].released]
    assert units[0].digest != units[1].digest


def test_the_exposure_counts_the_hats_that_are_left_to_a_vehicle():
    ((_, exposure),) = draw_releases(
        {(3600, 0): crowd()}, {3600: FACTS}, policy(clip_user=True, epsilon=Fraction(1, 100)), Silent()
    )
    assert exposure.drawn.max() == 1
    assert exposure.vehicle.size == 42


@pytest.mark.parametrize(("per", "at_once"), grid(["hat", "period"], [40, 1 << 16]))
def test_slots_that_are_drawn_together_get_what_each_gets_alone(per, at_once, monkeypatch):
    """With a total of the period, its slots have HATs of other epsilons."""
    random, slots = np.random.default_rng(7), [3600 * hour for hour in range(1, 7)]
    facts = {slot_s: replace(FACTS, joint_slots_s=(slot_s,), plan_count=6) for slot_s in slots}
    auto = RequestedStatistic("mean", Auto(prior=Prior(20.0, 12.0)), Fraction(1, 2))
    asked = policy(per=per, epsilon=99, statistics=(auto, BOTH[1]))
    groups = {}
    for slot_s in slots:
        pairs = {(int(vehicle), int(cell)) for vehicle, cell in random.integers(0, [9, 3], (12, 2))}
        kept = [int(number) for number in random.integers(0, 9, len(pairs))]
        rows = [(*pair, number, 100 * number, 9 - number) for pair, number in zip(sorted(pairs), kept, strict=True)]
        groups[slot_s, 0] = tally_of(*rows[: 0 if slot_s == slots[2] else 12], slot_s=slot_s)
    alone = [draw_releases({key: tally}, facts, asked, Silent())[0] for key, tally in groups.items()]
    monkeypatch.setattr(draw, "TOGETHER_ROWS", at_once)
    together = draw_releases(groups, facts, asked, Silent())
    assert [unit for unit, _ in together] == [unit for unit, _ in alone]
    for (_, exposure), (_, expected) in zip(together, alone, strict=True):
        assert [column.tolist() for column in exposure] == [column.tolist() for column in expected]
    assert (len({unit.per_hat for unit, _ in together}) > 1) == (per == "period")


PLAIN = "f94582437eca9ad448dcae2c7291bfed50c20a057ec10f7d75773ce968dbf7e4"
"""Of these rows, from before tallies had named columns."""


def rows_of(**sums):
    columns = ([3600, 3600], [5, 9], [7, 8], [2, 1], [0, 3])
    return Tally(*(np.array(column, np.int64) for column in columns), sums={k: np.array(v) for k, v in sums.items()})


def test_a_plain_digest_is_the_one_that_old_ledgers_hold():
    rows = rows_of(squares=[500, 16], sums=[30, 4])
    assert digest_of(rows, "spec/3600/1/", b"k", is_old_form=True) == PLAIN
    assert is_plain(PLAIN)


def test_a_named_digest_begins_with_the_names_of_its_columns_and_depends_on_them():
    mean, both = rows_of(sums=[30, 4]), rows_of(squares=[500, 16], sums=[30, 4])
    digests = [digest_of(rows, "spec/3600/1/", b"k", is_old_form=False) for rows in (mean, both)]
    assert [digest.partition(":")[0] for digest in digests] == ["sums", "squares,sums"]
    assert not any(map(is_plain, digests))
    other = replace(mean, sums={"sums": np.array([30, 5])})
    assert digest_of(other, "spec/3600/1/", b"k", is_old_form=False) != digests[0]
