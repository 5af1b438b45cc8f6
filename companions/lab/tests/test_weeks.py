"""An account that leans on weeks of earlier days, each with 1/28 of a total of 10, follows a city that changes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.cities import made_up
from benchmarks.drawn import GRID
from benchmarks.weeks import TAXIS, _changed, _errors, _missed
from dpops.learning import published
from hatstream_lab.evaluation.truth import TrueCity

DAYS, CHANGE = 24, 11
TOTAL = "10:28"
LATER = slice(CHANGE + 6, DAYS)
"""Days of the second week after the change."""


@cache
def city() -> TrueCity:
    return made_up(replace(TAXIS, vehicles=400, rings=3, days=DAYS), GRID)


def error(slower_from: int | None, *, learns: bool = True) -> float:
    """By reports, km/h, on the later days. learns: else what was known before the change is all that is known."""
    days = [_changed(city(), number + 1, slower_from, None) for number in range(DAYS)]
    if not learns:
        return sum(_of_frozen(days)) / sum(day.reports.sum() for day in days[LATER])
    errors = list(_errors(city(), days, TOTAL))[LATER]
    assert all(day.published is not None for day in errors)
    return sum(day.published or 0.0 for day in errors) / sum(day.reports for day in errors)


def _of_frozen(days):
    model = _known_after(days[: CHANGE - 1])
    for day in days[LATER]:
        forecast = published(model.forecast(np.array(day.hours, np.int64)), float(GRID.upper))
        yield _missed(day, forecast.values)


def _known_after(days):
    with pytest.MonkeyPatch.context() as patch:
        kept = []
        patch.setattr("benchmarks.weeks._error", lambda _city, _day, model: kept.append(model))
        list(_errors(city(), days, TOTAL))
    return kept[-1]


@pytest.mark.slow
def test_speeds_that_drop_by_a_fifth_are_followed_within_a_week() -> None:
    """By then three quarters of what the change cost, and more, are gone."""
    always_slow, of_old_days = error(1), error(CHANGE, learns=False)
    assert of_old_days > 1.3 * always_slow
    assert error(CHANGE) - always_slow < (of_old_days - always_slow) / 4
