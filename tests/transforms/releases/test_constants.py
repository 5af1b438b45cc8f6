"""HATs in which nothing is drawn cost nothing, and no others do: debits, exposures, rows, and mutants."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.forecast import Prior
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.noise import Noise
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from tests.dpops.reference import Silent
from tests.transforms.releases.hats import DAY, FACTS, drawn_unit, policy, tally_of
from transforms.ledger.head import LedgerError
from transforms.releases.hats import draw as by_hexagon
from transforms.releases.hats.draw import draw_releases
from transforms.releases.hats.release import estimates_of
from transforms.sinks.rows import rows_of
from transforms.value import Value
from transforms.wire import Exposure, joined

AUTO = (RequestedStatistic("mean", Auto(), Fraction(1)),)
BOTH = (
    RequestedStatistic("mean", Auto(prior=Prior(20.0, 12.0)), Fraction(1, 3)),
    RequestedStatistic("variance", BaselineVariance(), Fraction(2, 3)),
)
CROWD = [(100 + number, 2, 3, 900, 0) for number in range(60)]
"""So many vehicles that the mean of their HAT is worth its noise."""


class Forbidden(Noise):
    """Noise that nobody may draw."""

    def words(self, count):
        raise AssertionError(f"{count} words of noise were drawn")


def test_a_slot_of_constants_draws_nothing_spends_nothing_and_is_the_same_for_all_speeds():
    """All speeds of three vehicles on a grid of two steps, so all neighbours."""
    grid, outcomes = Grid(step=Fraction(1), upper_steps=2), []
    for sums in itertools.product(range(5), range(3), range(3)):
        rows = tally_of((1, 0, 2, sums[0], 0), (1, 1, 1, sums[1], 0), (2, 1, 1, sums[2], 0))
        ((unit, exposure),) = draw_releases(
            {(3600, 0): rows}, {3600: FACTS}, policy(statistics=AUTO, value=Value(grid)), Forbidden()
        )
        outcomes.append((unit.released, str(unit.spent), exposure.vehicle.tolist(), exposure.drawn.tolist()))
    assert outcomes == [outcomes[0]] * len(outcomes)
    assert outcomes[0][1:] == ("0", [1, 2], [[0], [0]])
    assert {hat.mechanism for hat in outcomes[0][0]} == {"constant"}


def test_a_vehicle_pays_for_what_is_drawn_in_its_hats_alone():
    rows = tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0), (1, 2, 3, 0, 0), *CROWD)
    ((unit, exposure),) = draw_releases({(3600, 0): rows}, {3600: FACTS}, policy(statistics=AUTO), Silent())
    assert [hat.plan["epsilon"] for hat in unit.released] == ["0", "0", "1"]
    assert str(unit.spent) == "1", "vehicle 1 is in three HATs"
    assert set(exposure.drawn.ravel().tolist()) == {1}


def test_of_several_statistics_each_is_drawn_or_constant_by_itself():
    """Vehicle 1 is in two HATs where only the variance is drawn, the crowd in one where both are."""
    rows = tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0), *CROWD)
    ((unit, exposure),) = draw_releases({(3600, 0): rows}, {3600: FACTS}, policy(statistics=BOTH, epsilon=9), Silent())
    assert [hat.plan["epsilon"] for hat in unit.released] == ["0", "6", "0", "6", "3", "6"]
    assert str(unit.spent) == "12"
    drawn_of = dict(zip(*(column.tolist() for column in exposure), strict=True))
    assert (drawn_of.pop(1), *drawn_of.values()) == ([0, 2], *[[1, 1]] * 60)


@pytest.mark.parametrize("times", [10**18, 10**25])
def test_shares_of_any_size_are_added_up_exactly(times):
    """A third written with many digits: its denominator, times a vehicle's HATs, does not fit into 64 bits."""
    shares = Fraction(times // 3, times), Fraction(times - times // 3, times)
    twice = tuple(RequestedStatistic("mean", Baseline(), share) for share in shares)
    slots = [tally_of(*((1, cell, 2, 0, 0) for cell in range(3)), slot_s=slot_s) for slot_s in range(3600, 18000, 3600)]
    day = {
        slot_s: replace(DAY[3600], joint_slots_s=tuple(range(3600, 18000, 3600))) for slot_s in range(3600, 18000, 3600)
    }
    first, *_ = draw_releases({(3600, 0): joined(slots)}, day, policy(scope="period", statistics=twice), Silent())
    assert (str(first[0].spent), str(first[0].debit)) == ("3", "12")


def test_a_period_that_is_planned_as_a_whole_debits_what_its_busiest_vehicle_spends():
    slots = joined([tally_of((1, 0, 1, 0, 0), *CROWD), tally_of((1, 1, 1, 0, 0), (1, 2, 3, 0, 0), *CROWD, slot_s=7200)])
    units = [
        unit for unit, _ in draw_releases({(3600, 0): slots}, DAY, policy(scope="period", statistics=AUTO), Silent())
    ]
    assert [(str(unit.spent), str(unit.debit)) for unit in units] == [("1", "2"), ("1", "0")]


def test_where_a_cap_stands_for_other_shards_it_is_debited_as_soon_as_anything_is_drawn():
    changes = {"shards": 2, "most_hats": 5, "shard": 1, "statistics": AUTO}
    assert str(drawn_unit(tally_of((1, 0, 2, 0, 0)), **changes).spent) == "0"
    assert str(drawn_unit(tally_of((1, 0, 2, 0, 0), *CROWD), **changes).spent) == "5"


def test_rows_say_that_a_value_is_a_constant_and_that_it_may_be_anything():
    unit = drawn_unit(tally_of((1, 0, 2, 100, 0), *CROWD), statistics=BOTH[:1], epsilon=9)
    constant, drawn = rows_of(estimates_of([unit], ["mean"]))
    assert [constant[name] for name in ("status", "value", "lower95", "upper95", "epsilon", "mechanism")] == [
        "constant", 20.0, 0.0, 65.0, 0.0, "constant",
    ]  # fmt: skip
    assert (constant["noise_std"], constant["bias_bound"]) == (0.0, 45.0)
    assert (drawn["status"], drawn["epsilon"]) == ("ok", 3.0)


def test_a_mutant_that_charges_nothing_for_what_is_drawn_is_refused(monkeypatch):
    monkeypatch.setattr(
        by_hexagon, "exposure_of", lambda rows, *_: Exposure(np.unique(rows.vehicle), np.zeros((1, 1), np.int64))
    )
    with pytest.raises(LedgerError, match="claim more than the account was debited"):
        drawn_unit(tally_of((1, 0, 2, 0, 0)))


@pytest.mark.parametrize("cell", [0, 1])
def test_a_mutant_that_forgets_what_is_drawn_in_one_of_two_hats_is_refused(monkeypatch, cell):
    """Vehicle 1 spends in both; each HAT alone is covered by the debit, so it takes the count of a vehicle's HATs."""
    counted = by_hexagon.exposure_of

    def mutant(rows, cells, drawn):
        return counted(rows, cells, np.where(np.arange(cells.size)[:, None] == cell, 0, drawn))

    monkeypatch.setattr(by_hexagon, "exposure_of", mutant)
    with pytest.raises(LedgerError, match=r"claim more than the account was debited .*\(2 above 1\)"):
        drawn_unit(tally_of((1, 0, 2, 0, 0), (1, 1, 1, 0, 0)))


class Cheating(Baseline):
    """Draws as the baseline does, by plans that say that they cost nothing."""

    def plans(self, hats, grid, epsilon):
        return [replace(plan, epsilon=Fraction(0)) for plan in super().plans(hats, grid, epsilon)]


def test_a_mechanism_that_draws_by_plans_that_cost_nothing_is_refused():
    with pytest.raises(LedgerError, match=r"claim more than the account was debited .*\(1 above nothing\)"):
        drawn_unit(tally_of((1, 0, 2, 0, 0)), statistics=(RequestedStatistic("mean", Cheating(), Fraction(1)),))
