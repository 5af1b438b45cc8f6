"""A total of several days is kept by the integers of all of its days together; wrong shares of it are caught."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest

from dpops.claims import ZERO, GaussianDP, rho_within
from dpops.levels.bounded import unchecked
from dpops.levels.stages import Kind
from dpops.types import Grid
from pipelines.specification.document import read_tables
from pipelines.specification.levels import LevelsRelease, SpanTotal, levels_release
from pipelines.specification.tables import Options
from tests.dpops.levels.cities import KINDS, Visit, days_of, random_days, rows
from tests.kit.grids import grid
from tests.levels_city import SPEC
from tests.transforms.releases.levels_days import HOURS, REGION
from transforms.public import EntryNumber
from transforms.releases.periods.stages import LevelsPolicy, laid_stage
from transforms.time.calendar import WEEKDAYS, FirstDays, Timetable, Weekday
from transforms.value import Value

TOTAL, DELTA = Fraction(10), Fraction(1, 10**6)
DAYS: list[list[Visit]] = [*days_of()[::5], *random_days(1, 40)]
WORKDAYS: tuple[Weekday, ...] = WEEKDAYS[:5]


def asked(kind: Kind, days: int, served: int) -> LevelsRelease:
    return asked_of(SpanTotal(days, Fraction(served), TOTAL, delta_of(kind)))


def delta_of(kind: Kind) -> Fraction | None:
    return DELTA if kind == "gaussian" else None


def asked_of(total: SpanTotal) -> LevelsRelease:
    written = SPEC.replace("[fleet]\nvehicles = 50\n", "").replace("[privacy]", f"[privacy]\nspan_days = {total.days}")
    timetable = Timetable("UTC", "vehicle-day", 60, ((7 * 60, 14 * 60),))
    return levels_release(read_tables(tomllib.loads(written)), Options(), total, REGION, timetable)


def spent_on_a_day(how: LevelsPolicy, *, is_first: bool) -> Fraction:
    """What the integers of the worst vehicle-day spend over the stages of a day: rho, or epsilon without delta."""
    planned = how.first if is_first else how.later
    centres = np.full((len(REGION), len(HOURS)), 2_000)
    spent = np.zeros(len(DAYS), np.int64)
    for index in range(len(planned)):
        vectors = unchecked(rows(DAYS), laid_stage(how, planned, index, HOURS, centres, EntryNumber(0)))
        np.add.at(spent, vectors.vehicle, abs(vectors.value) ** (2 if how.kind == "gaussian" else 1))
    return Fraction(int(spent.max())) / (planned[0].spread * (2 if how.kind == "gaussian" else 1))


def spent_in_a_window(levels: LevelsRelease, served: int) -> Fraction:
    """By a vehicle that is as dear as can be on every released day, the account's first among them; 1 is the total."""
    how = levels.policy("a", REGION, Value(Grid(step=Fraction(1, 100), upper_steps=6_500)), b"key")
    spent = spent_on_a_day(how, is_first=True) + (served - 1) * spent_on_a_day(how, is_first=False)
    return spent / (rho_within(TOTAL, DELTA) if how.kind == "gaussian" else TOTAL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("days", "weekdays"), [(28, WEEKDAYS), (28, WORKDAYS), (4, WORKDAYS), (7, WEEKDAYS[:1])])
def test_no_vehicle_spends_more_than_the_total_on_all_days_of_a_span(kind, days, weekdays):
    served = Timetable("UTC", "vehicle-day", 60, weekdays=weekdays).most_served(days)
    assert Fraction(9, 10) < spent_in_a_window(asked(kind, days, served), served) <= 1


def one_day_too_few(days: int, weekdays: tuple[Weekday, ...]) -> int:
    return Timetable("UTC", "vehicle-day", 60, weekdays=weekdays).most_served(days) - 1


def by_the_average(days: int, weekdays: tuple[Weekday, ...]) -> int:
    return round(days * len(weekdays) / len(WEEKDAYS))


def of_the_first_days(days: int, weekdays: tuple[Weekday, ...]) -> int:
    """From a Saturday on."""
    return sum(WEEKDAYS[(5 + day) % 7] in weekdays for day in range(days))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [one_day_too_few, by_the_average, of_the_first_days])
def test_days_of_service_that_are_counted_otherwise_are_caught(kind, wrong):
    shared = wrong(4, WORKDAYS)
    assert shared < 4, "Monday to Thursday are four"
    assert spent_in_a_window(asked(kind, 4, shared), 4) > 1


Shared = tuple[tuple[Weekday, ...], dict[Weekday, Fraction]]
WEIGHTS: list[Shared] = [
    (WEEKDAYS, {"sat": Fraction(2), "sun": Fraction(2)}),
    (WEEKDAYS, {"sun": Fraction(1, 3)}),
    (WORKDAYS, {"tue": Fraction(5, 2), "fri": Fraction(1, 10)}),
    (("mon", "sat"), {"sat": Fraction(7)}),
]
MONDAY = date(2027, 10, 25)  # in the week in which clocks go back in Europe


def days_of_a_window(first: int, days: int, weekdays: tuple[Weekday, ...]) -> list[date]:
    window = [MONDAY + timedelta(days=first + day) for day in range(days)]
    return [day for day in window if WEEKDAYS[day.weekday()] in weekdays]


def most_in_any_window(levels: LevelsRelease, days: int, weekdays: tuple[Weekday, ...]) -> Fraction:
    """By a vehicle that is as dear as can be on every released day, whatever day the window begins on; 1 is the total.

    A gap leaves days out of such a window, so it holds no more.
    """
    how = levels.policy("a", REGION, Value(Grid(step=Fraction(1, 100), upper_steps=6_500)), b"key")
    windows = [days_of_a_window(first, days, weekdays) for first in range(-days, 28)]
    policies = {day: how.on(day.isoformat()) for day in {day for window in windows for day in window}}
    alike = {of_day.total: of_day for of_day in policies.values()}
    dearest = {
        total: max(spent_on_a_day(of_day, is_first=first) for first in (True, False)) for total, of_day in alike.items()
    }
    spent = max(sum((dearest[policies[day].total] for day in window), ZERO) for window in windows)
    return spent / (rho_within(TOTAL, DELTA) if how.kind == "gaussian" else TOTAL)


@pytest.mark.parametrize(("kind", "days", "shared"), grid(KINDS, [28, 10], WEIGHTS))
def test_days_of_unequal_shares_keep_the_total_in_every_window(kind, days, shared):
    weekdays, weights = shared
    table = Timetable("Europe/Berlin", "vehicle-day", 60, weekdays=weekdays)
    total = SpanTotal.of(days, table, weights, (TOTAL, delta_of(kind)))
    assert Fraction(9, 10) < most_in_any_window(asked_of(total), days, weekdays) <= 1


FIRST = [
    FirstDays(MONDAY + timedelta(days=2), 4, Fraction(12, 5)),
    FirstDays(MONDAY, 9, Fraction(7)),
    FirstDays(MONDAY + timedelta(days=1), 3, Fraction(1, 3)),
]


@pytest.mark.parametrize(
    ("kind", "days", "shared", "first"), grid(KINDS, [28, 10], [(WEEKDAYS, {}), WEIGHTS[0], WEIGHTS[2]], FIRST)
)
def test_first_days_of_other_shares_keep_the_total_in_every_window(kind, days, shared, first):
    weekdays, weights = shared
    table = Timetable("Europe/Berlin", "vehicle-day", 60, weekdays=weekdays)
    total = SpanTotal.of(days, table, weights, (TOTAL, delta_of(kind)), first)
    assert Fraction(9, 10) < most_in_any_window(asked_of(total), days, weekdays) <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", FIRST[:2])
def test_first_days_that_no_window_is_asked_for_are_caught(kind, first):
    table = Timetable("Europe/Berlin", "vehicle-day", 60)
    right = SpanTotal.of(10, table, {}, (TOTAL, delta_of(kind)), first)
    usual = table.heaviest(10, dict(zip(WEEKDAYS, right.shares, strict=True)))
    assert usual < right.share_sum
    assert most_in_any_window(asked_of(replace(right, share_sum=usual)), 10, WEEKDAYS) > 1


def test_the_smallest_and_the_largest_share_are_those_of_the_first_days_or_the_others():
    table = Timetable("UTC", "vehicle-day", 60)
    more, less = (SpanTotal.of(28, table, {}, (TOTAL, DELTA), first) for first in (FIRST[0], FIRST[2]))
    assert (more.least, less.least) == (Fraction(5, 12), Fraction(1, 3))
    assert more.share_sum == 4 + 24 * Fraction(5, 12)
    assert less.share_sum == 28, "the days before and after have all"


def test_a_share_of_a_total_in_mu_is_said_by_its_exact_loss():
    table = Timetable("UTC", "vehicle-day", 60)
    total = SpanTotal.of(28, table, {"sat": Fraction(2)}, (TOTAL, DELTA), accounting="gdp")
    share = GaussianDP.within(TOTAL, DELTA).times(1 / total.share_sum)
    assert total.of_a_day() == (share.approx(DELTA).epsilon, share.rho)
    assert total.by_day is not None
    sunday = share.times(Fraction(1, 2)).approx(DELTA).epsilon
    assert [day.epsilon for day in total.by_day.by_weekday[5:]] == [share.approx(DELTA).epsilon, sunday]


def from_monday(days: int, weights: Mapping[Weekday, Fraction]) -> Fraction:
    return sum((weights[WEEKDAYS[day % 7]] for day in range(days)), ZERO)


def as_weeks_have(days: int, weights: Mapping[Weekday, Fraction]) -> Fraction:
    return sum(weights.values(), ZERO) * days / 7


def as_if_all_were_average(days: int, weights: Mapping[Weekday, Fraction]) -> Fraction:
    return sum(weights.values(), ZERO) / 7 * days // 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [from_monday, as_weeks_have, as_if_all_were_average])
def test_a_wrong_sum_of_unequal_shares_is_caught(kind, wrong):
    table, weights = Timetable("UTC", "vehicle-day", 60), WEIGHTS[0][1]
    right = SpanTotal.of(10, table, weights, (TOTAL, delta_of(kind)))
    parts = wrong(10, dict(zip(WEEKDAYS, right.shares, strict=True)))
    assert parts < right.share_sum == 7, "ten days from a Friday hold two weekends"
    assert most_in_any_window(asked_of(replace(right, share_sum=parts)), 10, WEEKDAYS) > 1


def test_a_policy_that_forgets_the_day_is_caught():
    total = SpanTotal.of(10, Timetable("UTC", "vehicle-day", 60), WEIGHTS[0][1], (TOTAL, DELTA))
    alike = replace(total, shares=())
    assert most_in_any_window(asked_of(alike), 10, WEEKDAYS) > 1


def test_weights_that_are_alike_are_equal_shares_whatever_they_are():
    table = Timetable("UTC", "vehicle-day", 60, weekdays=WORKDAYS)
    equal = SpanTotal.of(28, table, {}, (TOTAL, DELTA))
    assert SpanTotal.of(28, table, dict.fromkeys(WORKDAYS, Fraction(3)), (TOTAL, DELTA)) == equal
    assert equal == SpanTotal(28, Fraction(20), TOTAL, DELTA)


@pytest.mark.parametrize("days", range(1, 30))
@pytest.mark.parametrize("weekdays", [WEEKDAYS, WORKDAYS, WEEKDAYS[5:], ("mon", "thu")])
def test_most_days_of_service_in_a_span_are_those_of_the_fullest(days, weekdays):
    served = [sum(WEEKDAYS[(first + day) % 7] in weekdays for day in range(days)) for first in range(7)]
    assert Timetable("UTC", "vehicle-day", 60, weekdays=weekdays).most_served(days) == max(served)
