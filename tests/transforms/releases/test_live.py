"""Live slots and the period's end together keep one total, whatever a vehicle did; forgetting it is caught."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit
from dpops.claims import NOISE_CLAIMS
from dpops.levels.bounded import Rows, unchecked, vectors
from dpops.levels.parts import live_stage
from dpops.levels.stages import UNIT, Stage
from dpops.types import Int64s
from tests.dpops.levels.cities import KINDS, Visit, days_of, random_days, rows
from tests.transforms.ledger.entries import opened
from tests.transforms.releases import levels_days
from tests.transforms.releases.levels_days import DELTA, EPSILON, HOURS, REGION, day_unit, facts, live_unit, policy
from transforms.ledger.head import LedgerError
from transforms.ledger.spending import LimitExceeded, PeriodClosed
from transforms.recorded.stage_plan import as_stored
from transforms.recorded.units import Sequenced, Unit
from transforms.releases import DayShare, DayShares
from transforms.releases.live.release import live_estimates, live_slot, recorded_stage
from transforms.releases.periods.release import PeriodRelease, known_before
from transforms.releases.periods.stages import LevelsPolicy, laid_stage

EVERYWHERE: list[Visit] = [(cell, slot, 3, 2_900) for cell in range(3) for slot in range(len(HOURS))]
"""As far from the centre as a live slot allows."""


def stages_of(how: LevelsPolicy, slots: int | None = None) -> list[tuple[Stage, int | None]]:
    """Every look at a day of HOURS, with the index of its slot; the day's own last. slots: that shares are made for."""
    count = slots or len(HOURS)
    live = [live_slot(how, count, hour, np.full((3, 1), 2_000), levels_days.ENTRY) for hour in HOURS]
    day = laid_stage(how, how.later, 0, HOURS, np.full((3, len(HOURS)), 2_000), 1)
    return [*((stage, number) for number, stage in enumerate(live)), (day, None)]


def of_slot(day_rows: Rows, slot: int) -> Rows:
    chosen = day_rows.slot == slot
    return Rows(*(column[chosen] for column in day_rows))._replace(slot=np.zeros(int(chosen.sum()), np.int64))


def excess(how: LevelsPolicy, days: list[list[Visit]], slots: int | None = None) -> Fraction:
    """The most that a vehicle-day spends over all live slots and the day's end, as a part of the total (1)."""
    spent, power = np.zeros(len(days), np.int64), 2 if how.kind == "gaussian" else 1
    for stage, slot in stages_of(how, slots):
        visits = rows(days) if slot is None else of_slot(rows(days), slot)
        made = unchecked(visits, stage)
        np.add.at(spent, np.unique(visits.vehicle)[made.vehicle], abs(made.value) ** power)
    return Fraction(int(spent.max()), UNIT**power)


@pytest.mark.parametrize("kind", KINDS)
def test_no_vehicle_day_exceeds_the_total_over_live_slots_and_the_days_end(kind):
    days = [EVERYWHERE, *days_of()[::17], *random_days(1, 20)]
    for share in (None, Fraction(9, 10)):
        assert Fraction(95, 100) < excess(policy(kind, live_stage(kind, Fraction(1), EPSILON, share)), days) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_shares_for_fewer_slots_than_the_day_has_are_caught(kind):
    assert excess(policy(kind), [EVERYWHERE], slots=len(HOURS) - 1) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_share_that_the_days_end_forgets_is_caught(kind):
    assert excess(policy(kind, rest=Fraction(1)), [EVERYWHERE]) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slots", [3, 4, 5])  # the clock is put forward, not at all, or back
def test_a_day_with_a_part_of_the_total_keeps_it_with_its_live_slots(kind, slots):
    whole, part = DayShare(Fraction(1), EPSILON), DayShare(Fraction(1, 3), EPSILON / 3)
    how = replace(policy(kind), by_day=DayShares([*[whole] * 5, part, part]))
    visits = [[visit for visit in EVERYWHERE if visit[1] < slots]]
    spent = {day: excess(how.on(f"2026-05-0{day}"), visits, slots) for day in (1, 2)}  # a Friday, a Saturday
    assert spent[1] <= 1
    assert spent[2] <= Fraction(1, 3)
    assert Fraction(33, 100) < spent[2] / spent[1] < Fraction(34, 100)
    saturday = how.on("2026-05-02")
    assert saturday.total == how.total.times(Fraction(1, 3))
    assert saturday.cost_of_period(is_first=True) == saturday.total


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_vehicles_integers_of_a_slot_are_equal_when_one_is_taken_out(kind):
    days, (stage, _) = (
        [day for day in random_days(3, 30) if any(slot == 1 for _, slot, _, _ in day)],
        stages_of(policy(kind))[1],
    )

    def by_vehicle(days: list[list[Visit]]) -> list[list[int]]:
        integers = vectors(of_slot(rows(days), 1), stage)
        return [integers.value[integers.vehicle == vehicle].tolist() for vehicle in range(len(days))]

    whole = by_vehicle(days)
    for out in range(0, len(days), 3):
        assert by_vehicle(days[:out] + days[out + 1 :]) == whole[:out] + whole[out + 1 :]


# the ledger


class Book:
    """A ledger whose limit is the total of the policy. much: of the total, for an account that allows more."""

    def __init__(self, folder: Path, how: LevelsPolicy, much: int = 1) -> None:
        self.total = Accountant().compose([how.total])
        epsilon = much * EPSILON
        self.limit: Limit = PureLimit(epsilon) if how.kind == "laplace" else DeltaLimit(epsilon, DELTA)
        self.ledger = opened(f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", limit=str(self.limit))

    def record(self, *units: Unit) -> list[Unit]:
        return self.ledger.record("city", self.limit, "name", "{}", units).units

    @property
    def spent(self) -> Accountant:
        return sum((debit.debited for debit in self.ledger.spent("city")), Accountant())


@pytest.mark.parametrize("kind", KINDS)
def test_the_debits_of_live_slots_and_of_the_days_end_are_the_total_exactly(kind, tmp_path):
    how = policy(kind)
    book = Book(tmp_path, how)
    for slot in range(len(HOURS)):
        book.record(live_unit(how, slot))
    book.record(day_unit(how))
    assert book.spent == book.total
    assert len(book.ledger.live("city", "a", "day 1")) == len(HOURS)
    assert len(book.ledger.stages("city", "a")) == 1
    book.ledger.verify()


@pytest.mark.parametrize("kind", KINDS)
def test_slots_beyond_those_that_the_shares_were_made_for_leave_nothing_for_the_days_end(kind, tmp_path):
    """Twenty-five slots with shares for twenty-four, on an account that would allow more."""
    how = policy(kind)
    book = Book(tmp_path, how, much=3)
    book.record(*(live_unit(how, slot, 24) for slot in range(25)))
    with pytest.raises(LedgerError, match="more than the total"):
        book.record(day_unit(how))
    assert book.ledger.stages("city", "a") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_days_end_that_forgets_the_live_share_is_refused(kind, tmp_path):
    how = policy(kind)
    book = Book(tmp_path, how, much=3)
    book.record(live_unit(how, 0))
    with pytest.raises(LedgerError, match="more than the total"):
        book.record(day_unit(policy(kind, rest=Fraction(1))))
    with pytest.raises(LedgerError, match="more than the total"):
        book.record(day_unit(how, first=True))
    understated = structs.replace(day_unit(policy(kind, rest=Fraction(1))), debit=day_unit(how).debit)
    with pytest.raises(LedgerError, match="claim more"):
        book.record(understated)
    book.record(day_unit(how))


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_slot_that_debits_less_than_it_claims_is_refused(kind, tmp_path):
    how = policy(kind)
    book = Book(tmp_path, how)
    with pytest.raises(LedgerError, match="claim more"):
        book.record(structs.replace(live_unit(how, 0), debit=how.total.times(Fraction(1, 1000))))
    assert book.spent == Accountant()


@pytest.mark.parametrize("first", [False, True])
def test_once_the_day_is_released_a_live_slot_is_missed_and_one_that_is_recorded_stands(tmp_path, first):
    how = policy("gaussian")
    book = Book(tmp_path, how, much=3)
    if first:
        book.record(day_unit(how, first=True))
    else:
        unit = live_unit(how, 0)
        book.record(unit)
        book.record(day_unit(how))
        (again,) = book.record(live_unit(how, 0))
        assert again.integers == unit.integers, "what was drawn first is returned"
    spent = book.spent
    with pytest.raises(PeriodClosed):
        book.record(live_unit(how, 1))
    assert book.spent == spent


def test_another_specification_on_the_account_gets_what_the_first_one_left(tmp_path):
    """A stream that is started again with another specification spends of the same limit."""
    how = policy("laplace")
    other = replace(how, spec_id="b")
    book = Book(tmp_path, how)
    for slot in range(2):
        book.record(live_unit(how, slot))
    for slot in range(2, 4):
        book.record(live_unit(other, slot))
    book.record(day_unit(other))
    with pytest.raises(LimitExceeded):
        book.record(day_unit(how))
    assert book.spent == book.total


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_a_live_row_says_what_its_slot_spent_by_the_accounting(accounting):
    how = policy("gaussian")
    assert how.live is not None
    how = replace(how, live=replace(how.live, accounting=accounting))
    rows_of_slot = live_estimates([], [Sequenced(1, live_unit(how, 1))], facts(1), how)
    whole = NOISE_CLAIMS[accounting].of_gaussian(Fraction(UNIT), how.later[0].spread)
    spent = whole.times(Fraction(3, 10) / len(HOURS)).approx(DELTA).epsilon
    assert {*rows_of_slot.hats.epsilon_slot} == {str(spent)}


def test_what_is_made_again_has_the_recorded_plan():
    unit = live_unit(policy("gaussian"), 2)
    assert as_stored(recorded_stage([Sequenced(5, unit)], 2 * 3600, REGION)) == unit.plan
    assert recorded_stage([Sequenced(5, unit)], 3 * 3600, REGION) is None


def test_a_live_slot_rests_on_whole_earlier_periods_alone():
    how = policy("gaussian")
    entries = [
        Sequenced(number + 1, structs.replace(day_unit(how, stage, first=True), period=period))
        for number, (period, stage) in enumerate([("day 1", 0), ("day 2", 0), ("day 1", 1), ("day 3", 0)])
    ]
    assert [entry.sequence for entry in known_before(entries, "day 4")] == [1, 3]
    assert known_before(entries, "day 1") == []
    assert known_before(entries, "day 4", 3) == []


def test_a_period_that_waits_for_its_second_stage_is_no_forecast_of_another_one(monkeypatch):
    """Whose day may have another number of slots, where the clock changes."""
    how, asked = policy("gaussian"), list[int]()

    def centres_of(entries: Sequence[Sequenced], _: LevelsPolicy, hours: Sequence[int]) -> Int64s:
        asked.extend(entry.sequence for entry in entries)
        return np.full((3, len(hours)), 2_000)

    monkeypatch.setattr(PeriodRelease, "centres", staticmethod(centres_of))
    release, waiting = PeriodRelease(how, {}, "UTC"), Sequenced(1, day_unit(how, 0, first=True))
    plan = release.plan([waiting], "day 2", 0, HOURS[:3])[0]
    assert (plan.stages, plan.laid.rests_on, asked) == (2, 0, [])
    assert release.plan([waiting], "day 1", 1, HOURS)[0].laid.rests_on == 1
    done = Sequenced(3, day_unit(how, 1, first=True))
    assert release.plan([waiting, done], "day 2", 0, HOURS[:3])[0].laid.rests_on == 3
