"""Twenty ways to exceed a limit of 28 days, each refused: a vehicle that drives every day never loses more than it.

Every way asks for more than the limit allows, by a rule that is said here once more. The ledger must not give it. Each
is tried on a wrong ledger too, which must give it.
"""

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

from dpops.accountant import Limit, PureLimit, Span, SpanLimits, limit_of
from dpops.claims import ZERO
from pipelines.specification.levels import SpanTotal
from tests.faults import wrong_span_ledgers
from tests.faults.wrong_span_ledgers import Wrong, counts_by_hours, forgets_its_head, knows_days_alone, lets_limits_rise
from tests.transforms.ledger.entries import ACCOUNT, opened, tamper, unit
from transforms.failpoints import FailpointError, acting
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal
from transforms.time.calendar import WEEKDAYS, Timetable

DAY, TOTAL, DAYS = Fraction(3), Fraction(10), 28
LIMIT = SpanLimits((Span(1, PureLimit(DAY)), Span(DAYS, PureLimit(TOTAL))))
FIRST = date(2027, 3, 1)
RACERS = 8


class Asked(NamedTuple):
    """A day's debit. day: on which vehicles drove, whatever it was called."""

    day: date
    epsilon: Fraction


def is_exceeded(debits: list[Asked]) -> bool:
    """The rule, said once more: some so many consecutive days hold more than the limit of so many."""
    return any(
        sum((debit.epsilon for debit in debits if 0 <= (debit.day - one.day).days < span.days), ZERO)
        > span.limit.epsilon
        for span in LIMIT.spans
        for one in debits
    )


@dataclass
class World:
    """An account with its ledger, all that anybody asked of it, and all that was given, by whatever copy of it."""

    folder: Path
    limit: Limit = LIMIT
    asked: list[Asked] = field(default_factory=list)
    given: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.book = opened(f"sqlite:///{self.folder / 'ledger.sqlite'}", self.folder / "key.head", limit=str(LIMIT))

    def day(self, number: int) -> date:
        return FIRST + timedelta(days=number)

    def spend(
        self,
        day: date,
        epsilon: Fraction | int = DAY,
        spec_id: str = "a",
        *,
        slot_s: int | None = None,
        truly: date | None = None,
        book: Ledger | None = None,
    ) -> bool:
        """Whether it was given. slot_s: another one of the day. truly: the day on which vehicles drove, if another."""
        slot_s = (day - date(1970, 1, 1)).days * 86_400 if slot_s is None else slot_s
        wanted = unit(slot_s, epsilon=str(epsilon), period=day.isoformat(), spec_id=spec_id, plan=None)
        debit = Asked(truly or day, Fraction(epsilon))
        self.asked.append(debit)
        try:
            (book or self.book).record("city", self.limit, "name", "{}", [wanted])
        except (AccountRefusal, LedgerError):
            return False
        self.given.append(debit)
        return True

    def copy_of_ledger(self, name: str) -> Ledger:
        """As it is now, beside it, for the same key and head."""
        self.settle()
        shutil.copy2(self.folder / "ledger.sqlite", self.folder / name)
        return Ledger(f"sqlite:///{self.folder / name}", self.folder / "key.head")

    def settle(self) -> None:
        """Everything in the one file."""
        tamper(self.book, "pragma wal_checkpoint(truncate)")


Way = Callable[[World], object]


# Ways to exceed the limit

WAYS: dict[str, tuple[Way, Wrong]] = {}


def way(wrong: Wrong) -> Callable[[Way], Way]:
    """wrong: a ledger by which it would work."""

    def listed(of: Way) -> Way:
        WAYS[of.__name__] = (of, wrong)
        return of

    return listed


def refused_afterwards(world: World, *numbers: int) -> None:
    """These days are given, and are all that fits."""
    assert all(world.spend(world.day(number)) for number in numbers)


@way(knows_days_alone)
def one_day_too_many(world: World) -> None:
    refused_afterwards(world, 0, 1, 2)
    world.spend(world.day(27))


@way(wrong_span_ledgers.counts_by_month)
def over_the_end_of_a_month(world: World) -> None:
    for day in (date(2027, 4, 28), date(2027, 4, 29), date(2027, 4, 30), date(2027, 5, 1), date(2027, 5, 2)):
        world.spend(day)


@way(wrong_span_ledgers.counts_by_year)
def over_the_end_of_a_year(world: World) -> None:
    for day in (date(2027, 12, 30), date(2027, 12, 31), date(2028, 1, 1), date(2028, 1, 2)):
        world.spend(day)


@way(wrong_span_ledgers.forgets_leap_days)
def over_a_leap_day(world: World) -> None:
    for day in (date(2028, 2, 28), date(2028, 2, 29), date(2028, 3, 1), date(2028, 3, 2)):
        world.spend(day)


@way(counts_by_hours)
def over_a_day_of_25_hours(world: World) -> None:
    """28 days by the calendar, which last an hour longer than 28 times 24: the first one counts."""
    long = date(2027, 11, 7)
    assert len(Timetable("America/Chicago", "vehicle-day", 60).day_slots(long)) == 25
    for step in (-20, 0, 1, 7):
        world.spend(long + timedelta(days=step))


@way(knows_days_alone)
def with_what_a_day_of_23_hours_leaves(world: World) -> None:
    """What its missing hour would have cost is no more than that."""
    table = Timetable("America/Chicago", "vehicle-day", 60)
    short = date(2027, 3, 14)
    assert len(slots := table.day_slots(short)) == 23
    assert all(world.spend(short, DAY / 24, slot_s=slot_s) for slot_s in slots)
    for step in (1, 2):
        day = short + timedelta(days=step)
        assert world.spend(day, slot_s=table.day_slots(day)[0])
    world.spend(short + timedelta(days=3), TOTAL - 2 * DAY - DAY * 23 / 24 + Fraction(1, 24))


@way(wrong_span_ledgers.counts_each_specification_alone)
def by_a_second_specification(world: World) -> None:
    refused_afterwards(world, 0, 1, 2)
    world.spend(world.day(3), spec_id="another")


@way(wrong_span_ledgers.counts_each_specification_alone)
def by_a_specification_for_each_weekday(world: World) -> None:
    """Each divides the whole total over its own days: alone it keeps to it, together their shares add up to more."""
    for number in range(DAYS):
        day = world.day(number)
        weekday = WEEKDAYS[day.weekday()]
        served = Timetable("UTC", "vehicle-day", 60, weekdays=(weekday,)).most_served(DAYS)
        world.spend(day, SpanTotal(DAYS, Fraction(served), TOTAL, None).of_a_day()[0], weekday)


@way(counts_by_hours)
def with_a_slot_more_on_every_day_of_25_hours(world: World) -> None:
    """Slots of a 24th of a day's limit: the 25th does not fit into the day, nor do 80 hours into the 28 days."""
    table = Timetable("America/Chicago", "vehicle-day", 60)
    for day in (date(2027, 11, 7), date(2027, 11, 8), date(2027, 11, 9), date(2027, 12, 4)):
        for slot_s in table.day_slots(day):
            world.spend(day, DAY / 24, slot_s=slot_s)


@way(knows_days_alone)
def by_shares_that_add_up_to_more(world: World) -> None:
    """A 27th on each of 28 days."""
    for number in range(DAYS):
        world.spend(world.day(number), TOTAL / 27)


@way(knows_days_alone)
def in_many_small_pieces(world: World) -> None:
    for number in range(4):
        for piece in range(30):
            world.spend(world.day(number), Fraction(1, 10), slot_s=86_400 * number + piece)


@way(knows_days_alone)
def by_trying_again_what_was_refused(world: World) -> None:
    refused_afterwards(world, 0, 1, 2)
    for number in (3, 3, 4, 3):
        world.spend(world.day(number))


@way(knows_days_alone)
def by_reruns_that_ask_for_more(world: World) -> None:
    """A recorded day is returned as it was: asking for it again gives it nothing, and makes no room elsewhere."""
    for number in range(DAYS):
        assert world.spend(world.day(number), TOTAL / DAYS)
    for number in range(DAYS):
        given = world.given[number]
        assert world.spend(world.day(number), DAY)
        world.given[-1] = given._replace(epsilon=ZERO)
        recorded = {spent.period: spent.epsilon for spent in world.book.spent("city")}
        assert recorded[world.day(number).isoformat()] == TOTAL / DAYS
    world.spend(world.day(5), 1, "another")


@way(wrong_span_ledgers.looks_before_others_write)
def by_a_race_for_days_of_one_window(world: World) -> None:
    barrier = threading.Barrier(RACERS)

    def race(number: int) -> None:
        copy = Ledger(world.book.url, world.folder / "key.head")
        barrier.wait()
        world.spend(world.day(number), book=copy)

    racers = [threading.Thread(target=race, args=(number,)) for number in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(world.given) >= 3


@way(knows_days_alone)
def by_ending_runs_in_between(world: World) -> None:
    """A run that ended before its commit has spent nothing, one that ended after it all; both are run again."""

    def end(place: str, number: int) -> None:
        def act(name: str, _: int) -> None:
            if name == place:
                raise FailpointError(name)

        with acting(act), pytest.raises(FailpointError):
            world.spend(world.day(number))
        if place == "after-commit":
            world.given.append(world.asked[-1])

    for number, place in enumerate(("before-commit", "after-commit", "before-commit", "after-commit")):
        end(place, number)
    assert world.spend(world.day(0))
    for number in (2, 4):
        world.spend(world.day(number))


@way(forgets_its_head)
def by_an_older_copy_that_is_put_back(world: World) -> None:
    world.copy_of_ledger("older")
    refused_afterwards(world, 0, 1, 2)
    world.settle()
    shutil.copy2(world.folder / "older", world.folder / "ledger.sqlite")
    world.spend(world.day(3), book=Ledger(world.book.url, world.folder / "key.head"))


@way(forgets_its_head)
def by_a_snapshot_that_goes_on_beside_the_ledger(world: World) -> None:
    refused_afterwards(world, 0, 1)
    beside = world.copy_of_ledger("beside.sqlite")
    refused_afterwards(world, 2)
    world.spend(world.day(3), book=beside)
    world.spend(world.day(4), book=beside)


@way(forgets_its_head)
def by_a_second_account_of_the_same_name(world: World) -> None:
    refused_afterwards(world, 0, 1, 2)
    other = Ledger(f"sqlite:///{world.folder / 'other.sqlite'}", world.folder / "key.head")
    other.create()
    with contextlib.suppress(AccountRefusal):
        other.open_account(replace(ACCOUNT, limit=str(LIMIT)))
    world.spend(world.day(3), book=other)


@way(wrong_span_ledgers.trusts_what_stands_in_it)
def by_a_debit_that_was_made_smaller(world: World) -> None:
    """As a run does, the chain is walked before anything is released."""
    refused_afterwards(world, 0, 1, 2)
    tamper(world.book, "update entry set epsilon = '1/100' where kind = 'release'")
    try:
        world.book.verify_chain()
    except LedgerError:
        world.asked.append(Asked(world.day(3), DAY))
        return
    world.spend(world.day(3))


@way(lets_limits_rise)
def by_a_specification_that_names_a_higher_limit_or_no_span(world: World) -> None:
    refused_afterwards(world, 0, 1, 2)
    for number, wider in enumerate((PureLimit(DAY), limit_of(str(LIMIT).replace(":10", ":11")))):
        with contextlib.suppress(AccountRefusal):
            world.book.open_account(replace(ACCOUNT, limit=str(wider)))
        world.limit = wider
        world.spend(world.day(3 + number))


@way(lets_limits_rise)
def by_days_of_another_time_zone(world: World) -> None:
    """A day that is called one later, of which the most lies within the window."""
    refused_afterwards(world, 0, 1, 27)
    try:
        world.book.check_account(replace(ACCOUNT, timezone="Pacific/Auckland", limit=str(LIMIT)))
    except AccountRefusal:
        world.asked.append(Asked(world.day(27), DAY))
        return
    world.limit = PureLimit(DAY)
    world.spend(world.day(28), truly=world.day(27))


@pytest.mark.few(8)
@pytest.mark.parametrize("name", WAYS)
def test_is_refused(name: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    WAYS[name][0](world)
    assert is_exceeded(world.asked), "it asks for more than there is"
    assert not is_exceeded(world.given)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", WAYS)
def test_is_found_out_where_a_ledger_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, wrong = WAYS[name]
    world = World(tmp_path)
    wrong(monkeypatch)
    tried(world)
    assert is_exceeded(world.given)


def test_there_are_twenty_ways() -> None:
    assert len(WAYS) >= 20
