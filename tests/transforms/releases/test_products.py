"""Which HATs coarser products put together: by local days, parts and hours, also where the clock changes."""

import numpy as np

from transforms.places.ground import parent_texts
from transforms.releases.periods.products import Product, grouping

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
