"""A value of another name and unit than speeds, and coarser products, by every kind of release."""

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
from transforms.places.ground import parent_texts
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


# --- Which HATs coarser products put together: by local days, parts and hours, also where the clock changes. ----------


CELLS = [0x8742D9D6BFFFFFF, 0x8742D9D69FFFFFF, 0x8742D999AFFFFFF]
PARENTS = np.array([0, 0, 1])
AUTUMN = [f"2016-11-06T{hour:02}:00:00-05:00" for hour in (0, 1)] + [
    f"2016-11-06T{hour:02}:00:00-06:00" for hour in (1, 2)
]


def test_an_hour_that_comes_twice_is_two_hours() -> None:
    grouped = grouping(Product("city-hour"), PARENTS, CELLS, AUTUMN)
    assert grouped.spans == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert grouped.places == ["city"]
    assert grouped.groups.shape == (1, 4)


def test_a_part_has_all_slots_that_begin_in_it_and_others_have_no_row() -> None:
    grouped = grouping(Product("cell-part", ((60, 120),)), PARENTS, CELLS, AUTUMN)
    assert [span for span in grouped.spans if span is not None] == [(1, 2)]
    assert grouped.groups.slots.tolist() == [0, 1, 1, 0]


def test_half_hours_make_hours_and_a_week_has_a_row_for_each_day() -> None:
    starts = [f"2022-01-0{day}T08:{minute}:00+05:30" for day in (3, 4) for minute in ("00", "30")]
    hours = grouping(Product("parent-hour"), PARENTS, CELLS, starts)
    assert hours.spans == [(0, 1), (2, 3)]
    assert hours.places == [parent_texts(CELLS)[0], parent_texts(CELLS)[2]]
    assert grouping(Product("days"), PARENTS, CELLS, starts).spans == [(0, 1), (2, 3)]
