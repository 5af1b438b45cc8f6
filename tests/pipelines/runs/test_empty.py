"""A period is sealed for ever: one of which the input holds no row is refused, unless the operator says it is empty."""

import pytest

from tests import city, levels_city

FIRST, LAST = city.DAYS


@pytest.fixture
def town(tmp_path, hatstream):
    """The small city with its account opened and no feed yet."""
    return city.opened(tmp_path, hatstream, lines=[])


WORKDAYS = '[slot]\nweekdays = ["mon", "tue", "wed", "thu", "fri"]'  # both days are none of them


@pytest.mark.few(1)
@pytest.mark.parametrize("runner", [(), ("--runner", "FnApiRunner")])
@pytest.mark.parametrize("spec", [city.SPEC, levels_city.SPEC])
def test_days_on_which_nothing_is_released_are_done_and_have_no_files(tmp_path, hatstream, spec, runner):
    city.opened(tmp_path, hatstream, spec=spec.replace("[slot]", WORKDAYS))
    assert hatstream(*city.release(tmp_path, *runner))[0] == 0
    assert published(tmp_path) == []


def entries(hatstream, town):
    return hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[1]


def published(town):
    return sorted((town / "out").iterdir())


def test_yesterdays_file_under_todays_date_is_refused_and_the_right_file_later_is_released(town, hatstream):
    city.write(town, lines=city.rows(days=(FIRST,)))
    before = entries(hatstream, town)
    code, _, err = hatstream(*city.release(town, start=LAST, end=LAST))
    assert code == 4
    assert f"of the 63 rows none is of {LAST}; nothing was recorded or spent" in err
    assert "63 refused: parse/outside-range" in err
    assert "--allow-empty" in err
    assert (entries(hatstream, town), published(town)) == (before, [])
    city.write(town)
    assert hatstream(*city.release(town, start=LAST, end=LAST))[0] == 0


@pytest.mark.parametrize(
    "spec",
    [
        city.SPEC,
        city.SPEC.replace('per = "hat"', 'per = "period"\nscope = "period"'),
        city.SPEC.replace('"occupied"', '["876181ab6ffffff"]'),  # rows of the day, but none in the region
    ],
)
def test_a_file_without_rows_is_refused_under_every_plan(tmp_path, hatstream, spec):
    city.opened(tmp_path, hatstream, spec=spec, lines=city.rows() if "ffffff" in spec else [])
    code, _, err = hatstream(*city.release(tmp_path))
    assert (code, f"none is of {FIRST}, {LAST};" in err) == (4, True)


def test_a_period_of_which_a_slot_is_open_needs_rows(town, hatstream):
    city.write(town)
    assert hatstream(*city.release(town, start=FIRST, end=f"{FIRST}T11:00"))[0] == 0
    city.write(town, lines=[])
    assert hatstream(*city.release(town, start=FIRST, end=FIRST))[0] == 4
