"""A value of another name and unit than speeds is recorded and published in its own unit by every kind of release."""

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from tests.transforms.releases import levels_days
from tests.transforms.releases.hats import drawn_unit, tally_of
from transforms.releases.hats.release import estimates_of
from transforms.releases.periods.products import Product, grouping
from transforms.releases.periods.publish import HatEstimates, estimates_of_product, estimates_of_slot
from transforms.sinks.rows import rows_of
from transforms.value import Value

LOAD = Value(Grid(step=Fraction(1), upper_steps=100), "load", "kg")
BOTH = (
    RequestedStatistic("mean", Baseline(), Fraction(1, 2)),
    RequestedStatistic("variance", BaselineVariance(), Fraction(1, 2)),
)
PERIODS = replace(levels_days.policy("gaussian"), value=LOAD)


def test_rows_of_hats_are_in_the_unit_of_the_value() -> None:
    unit = drawn_unit(tally_of((1, 0, 4, 12, 0)), value=LOAD, statistics=BOTH)
    rows = rows_of(estimates_of([unit], ("mean", "variance")))
    assert unit.unit == "kg"
    assert [row["unit"] for row in rows] == ["kg", "(kg)^2"]


def test_a_slot_of_which_a_statistic_has_no_data_has_rows_above_any_lower_bound() -> None:
    unit = drawn_unit(tally_of((1, 0, 4, 12, 0)), value=LOAD, statistics=BOTH)
    without_data = [msgspec.structs.replace(released, plan=None, integers=None) for released in unit.released]
    for released in ([], without_data, [without_data[0], unit.released[1]]):
        slot = estimates_of([msgspec.structs.replace(unit, released=released)], ("mean", "variance"), Fraction(-5))
        assert [row["value"] for row in rows_of(slot)][:1] == [None][: len(released)]


@pytest.mark.parametrize(
    "unit", [levels_days.day_unit(PERIODS), levels_days.live_unit(PERIODS, 1)], ids=["stage", "live slot"]
)
def test_stages_and_live_slots_are_recorded_in_the_unit_of_the_value(unit) -> None:
    assert unit.unit == "kg"


def test_rows_of_periods_and_of_their_products_are_in_the_unit_of_the_value() -> None:
    values = np.full((len(levels_days.REGION), 1), 12.0)
    estimates = HatEstimates(values, values, values, values, np.full(values.shape, "ok"))
    slot = levels_days.facts(0)
    cell_days = grouping(Product("days"), np.zeros(len(values), np.int64), levels_days.REGION, [slot.start])
    rows = [
        *rows_of(estimates_of_slot(estimates, 0, slot, PERIODS)),
        *rows_of(estimates_of_product(estimates, "days", cell_days, [slot], PERIODS)),
    ]
    assert len(rows) == 2 * len(values)
    assert {row["unit"] for row in rows} == {"kg"}
