"""Limits of spans of days: every window of consecutive days is within its limit, in any order of recording."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit, Span, SpanLimits, limit_of
from dpops.claims import NOISE_CLAIMS, ZCDP, Accounting, PureDP, rho_within
from tests.transforms.ledger.entries import ACCOUNT, day, opened, unit
from transforms.ledger import spending
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal
from transforms.recorded.units import Debit, UnitKey

PURE = SpanLimits((Span(1, PureLimit(Fraction(3))), Span(4, PureLimit(Fraction(6))), Span(9, PureLimit(Fraction(10)))))

Record = tuple[int, int]
"""A day, counted from entries.FIRST_DAY, and the epsilon that is asked for it."""


def book_of(folder: Path, limit: Limit) -> Ledger:
    return opened(f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", limit=str(limit))


def is_recorded(book: Ledger, limit: Limit, number: int, epsilon: object, spec_id: str = "a") -> bool:
    asked = unit(number, epsilon=str(epsilon), period=day(number), spec_id=spec_id, plan=None)
    try:
        book.record("city", limit, "name", "{}", [asked])
    except AccountRefusal:
        return False
    return True


def is_within(spent: Counter[int], limit: Limit) -> bool:
    """The rule, said once more: no window of any span's length holds more than the span's limit."""
    days = range(min(spent, default=0) - 10, max(spent, default=0) + 1)
    return all(
        sum(spent[first + step] for step in range(span.days)) <= span.limit.epsilon
        for span in limit.spans
        for first in days
    )


def violations(folder: Path, records: list[Record]) -> list[str]:
    """Records that the ledger took though a window was full, or refused though none was."""
    book, spent, wrong = book_of(folder, PURE), Counter[int](), []
    for index, (number, epsilon) in enumerate(records):
        after = spent + Counter({number: epsilon})
        took = is_recorded(book, PURE, number, epsilon, f"spec {index}")
        if took != is_within(after, PURE):
            wrong.append(f"record {index}: {'taken' if took else 'refused'}")
        spent = after if took else spent
    return wrong


orders = st.lists(st.tuples(st.integers(0, 24), st.integers(1, 3)), max_size=14)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=orders)
def test_no_window_is_exceeded_in_any_order_of_days(records: list[Record], tmp_path_factory: pytest.TempPathFactory):
    assert violations(tmp_path_factory.mktemp("ledger"), records) == []


def ends_with_the_day(last: date, days: int) -> date:
    return last - timedelta(days=days - 1)


def begins_with_the_day(first: date, _: int) -> date:
    return first


def of_the_calendar(when: date, days: int) -> date:
    return when - timedelta(days=when.toordinal() % days)


@pytest.mark.parametrize("first_of", [ends_with_the_day, begins_with_the_day, of_the_calendar])
def test_a_window_of_another_kind_is_caught(
    first_of: Callable[[date, int], date], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fits(debits: dict[str, list[Debit]], limit: Limit, period: str) -> bool:
        return all(span.limit.fits(window(debits, period, span.days)) for span in limit.spans)

    def window(debits: dict[str, list[Debit]], period: str, days: int) -> Accountant:
        first = first_of(date.fromisoformat(period), days)
        inside = [(first + timedelta(days=step)).isoformat() for step in range(days)]
        return sum((spending._sum(debits.get(inner_day, [])) for inner_day in inside), Accountant())

    monkeypatch.setattr(spending, "_fits", fits)
    assert violations(tmp_path, [(number, 3) for number in (20, 19, 11, 12, 5, 4, 7, 8, 3, 9, 10, 18, 13, 6)])


def test_what_a_run_asks_for_earlier_days_counts_against_its_later_ones(tmp_path: Path) -> None:
    book = book_of(tmp_path, PURE)
    wanted = {day(number): [Debit(UnitKey("a", number, 0), PureDP(Fraction(2)))] for number in range(6)}
    assert book.excess("city", PURE, wanted) == [day(3)]  # 0, 1, 2 fill four days; then there is room again
    assert book.excess("city", PURE, {day(0): wanted[day(0)], day(5): wanted[day(5)]}) == []


def test_a_rerun_of_a_full_window_is_free(tmp_path: Path) -> None:
    book = book_of(tmp_path, PURE)
    assert all(is_recorded(book, PURE, number, 2) for number in (0, 1, 2))
    assert not is_recorded(book, PURE, 3, 1)
    assert all(is_recorded(book, PURE, number, 2) for number in (0, 1, 2))


def test_two_specifications_share_a_span(tmp_path: Path) -> None:
    book = book_of(tmp_path, PURE)
    assert is_recorded(book, PURE, 0, 3, "one")
    assert is_recorded(book, PURE, 1, 3, "other")
    assert not is_recorded(book, PURE, 2, 1, "one")
    assert is_recorded(book, PURE, 4, 3, "one")


def test_rho_of_a_window_adds_up_to_that_of_its_total(tmp_path: Path) -> None:
    total = DeltaLimit(Fraction(10), Fraction(1, 10**6))
    limit = SpanLimits((Span(1, DeltaLimit(Fraction("2.64"), Fraction(1, 10**6))), Span(28, total)))
    share = ZCDP(rho_within(total.epsilon, total.delta) / 28)
    book = book_of(tmp_path, limit)
    assert all(is_recorded(book, limit, number, share) for number in range(28))
    assert not is_recorded(book, limit, 3, ZCDP(Fraction(1, 10**9)), "another")
    assert is_recorded(book, limit, 28, share)
    assert not is_recorded(book, limit, 29, ZCDP(share.rho + Fraction(1, 10**9)))


def test_an_account_takes_further_spans_and_never_loses_one(tmp_path: Path) -> None:
    book = book_of(tmp_path, PureLimit(Fraction(3)))
    assert book.open_account(replace(ACCOUNT, limit=str(PURE))) == "limit lowered"
    assert book.limit("city", PURE) == PURE
    for wider in ("3", "days=1:3;days=4:6", "days=1:3;days=4:6;days=9:11"):
        with pytest.raises(AccountRefusal, match="any 9 days"):
            book.open_account(replace(ACCOUNT, limit=wider))
    assert limit_of(str(PURE)) == PURE


def test_the_fullest_window_around_a_day_is_told(tmp_path: Path) -> None:
    book = book_of(tmp_path, PURE)
    for number, epsilon in ((2, 1), (3, 2), (5, 2)):
        assert is_recorded(book, PURE, number, epsilon)
    told = book.spent_in_spans("city", PURE, day(3))
    assert [(window.span.days, window.spent.pure) for window in told] == [(1, 2), (4, 5), (9, 5)]
    assert (told[1].first, told[1].last) == (day(2), day(5))


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_the_fullest_window_is_told_by_noise_too(accounting: Accounting, tmp_path: Path) -> None:
    of_span = DeltaLimit(Fraction(10), Fraction(1, 10**6), accounting=accounting)
    limit = SpanLimits((Span(1, of_span), Span(2, of_span)))
    book = book_of(tmp_path, limit)
    for number, rho in ((2, 1), (3, 4), (4, 2)):
        assert is_recorded(book, limit, number, NOISE_CLAIMS[accounting](Fraction(rho, 100)))
    _, of_two = book.spent_in_spans("city", limit, day(3))
    assert (of_two.first, of_two.spent.concentrated) == (day(3), Fraction(6, 100))
