"""What a ledger holds releases to: debits of no less than plans claim, and limits of spans of days."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit, Span, SpanLimits, limit_of
from dpops.claims import NOISE_CLAIMS, ZCDP, PureDP, rho_within
from dpops.levels.stages import Part, PublicHats, Stage, StageHats
from tests.transforms.ledger.entries import ACCOUNT, PLAN, day, opened, record, stage_unit, unit, whole
from transforms.ledger import releases, spending
from transforms.ledger.claims import check_claims, claims_of
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal
from transforms.recorded.units import Debit, Released, UnitKey

DELTA = Fraction(1, 10**6)


@pytest.fixture
def ledger(in_file):
    """Claims are checked before a database is asked and after it answered: one kind will do."""
    return in_file


def with_cells(of, plans):
    """The unit with one HAT for each list of plans, a plan a statistic."""
    hats = [
        Released(f"cell {number}", f"statistic {which}", "baseline", plan, [1])
        for number, of_cell in enumerate(plans)
        for which, plan in enumerate(of_cell)
    ]
    return structs.replace(of, released=hats)


def costing(epsilon, **changes):
    return {**PLAN, "epsilon": epsilon, **changes}


CONSTANT = costing("0", scale="0", facts={"sensitivity": 0, "constant": 1})
"""What nothing is drawn for."""
HONEST = [
    with_cells(unit(epsilon="0"), [[CONSTANT]] * 5),
    with_cells(unit(), [[CONSTANT], [PLAN], [CONSTANT]]),
    with_cells(unit(epsilon="3/2"), [[costing("1/2"), costing("1/2")], *[[costing("1/2"), CONSTANT]] * 3]),
    with_cells(unit(epsilon="3/2"), [[costing("1/2"), costing("1/2")]] * 2 + [[costing("1/2"), CONSTANT]] * 3),
    unit(),
    unit(epsilon="0", plan=None),
    with_cells(unit(), [[PLAN]] * 5),
    with_cells(unit(epsilon="2"), [[PLAN]] * 5),
    with_cells(unit(), [[costing("1/3"), costing("2/3")]] * 2),
    with_cells(unit(), [[costing("1", scale="200", facts={"sensitivity": 200})]]),
]
CLAIMING_MORE = [
    with_cells(unit(epsilon="0"), [[CONSTANT], [PLAN], [CONSTANT]]),
    with_cells(unit(epsilon="0"), [[CONSTANT, costing("1/2")]]),
    with_cells(unit(epsilon="0"), [[CONSTANT], [costing("0", facts={"sensitivity": 6500})]]),
    with_cells(unit(epsilon="3/2"), [[costing("1/2"), CONSTANT], [costing("1/2"), costing("2/3")]]),
    unit(epsilon="0"),
    unit(epsilon="1/2"),
    unit(plan=costing("1000001/1000000")),
    with_cells(unit(), [[PLAN], [costing("2")]]),
    with_cells(unit(epsilon="2"), [[costing("2")], [PLAN], [PLAN]]),
    with_cells(unit(), [[costing("1/3"), PLAN]]),
    with_cells(unit(), [[costing("1", scale="199", facts={"sensitivity": 200})]]),
]


@pytest.mark.parametrize("one", HONEST)
def test_a_debit_that_covers_its_plans_is_recorded_and_verified(ledger, one):
    assert record(ledger, one).new == 1
    assert ledger.verify().entries == 3


@pytest.mark.parametrize("one", CLAIMING_MORE)
def test_a_plan_that_claims_more_than_the_debit_stops_the_release_before_anything_is_recorded(ledger, one):
    with pytest.raises(LedgerError, match=r"claim more (than the account was debited|than a HAT's epsilon)"):
        record(ledger, unit(7200), one)
    assert [entry["kind"] for entry in ledger.entries()] == ["account"]


@pytest.mark.parametrize("one", CLAIMING_MORE)
def test_a_plan_that_claims_more_than_the_debit_is_found_in_a_stored_ledger(ledger, one, monkeypatch):
    monkeypatch.setattr(releases, "check_claims", lambda _units: None)  # as code without the check wrote it
    record(ledger, unit(7200), one)
    with pytest.raises(LedgerError, match="slot at 0 s since 1970: the plans of a claim more"):
        ledger.verify()


NO_CONSTANTS = [
    costing("0"),  # noise of an unknown sensitivity
    costing("0", scale="0", facts={"sensitivity": 1, "constant": 1}),
    costing("0", scale="0", facts={"sensitivity": 0}),
    costing("0", scale="0", facts={"sensitivity": 0, "constant": 2}),
]


@pytest.mark.parametrize("plan", NO_CONSTANTS)
def test_a_plan_that_claims_nothing_and_is_no_constant_is_refused_and_found(ledger, plan, monkeypatch):
    one = with_cells(unit(epsilon="0"), [[plan]])
    with pytest.raises(LedgerError):
        record(ledger, one)
    monkeypatch.setattr(releases, "check_claims", lambda _units: None)
    record(ledger, one)
    with pytest.raises(LedgerError):
        ledger.verify()


@pytest.mark.parametrize(
    "change", [{"epsilon": ["1"]}, {"scale": "1/0"}, {"facts": []}, {"facts": {"sensitivity": "9"}}]
)
def test_a_forged_plan_with_values_that_no_plan_has_is_found_and_named(ledger, change, monkeypatch):
    forged = with_cells(unit(), [[PLAN], [{**PLAN, **change}]])
    monkeypatch.setattr(releases, "check_claims", lambda *_: None)
    record(ledger, forged)
    with pytest.raises(LedgerError, match=r"a plan of .* cannot be read"):
        ledger.verify()


STAGE = Stage(
    kind="gaussian",
    spread=Fraction(5),
    parts=(Part("cell", Fraction(1), Fraction(1)),),
    share=Fraction(1, 4),
    bound_kmh=Fraction(15),
    alpha=Fraction(3, 5),
    stages=2,
    around=StageHats(PublicHats(parents=(0,), grandparents=(0,), hours=(0,)), np.full((1, 1), 2_000), Fraction(1, 100)),
)


@pytest.mark.parametrize(
    "change", [{"kind": "sums"}, {"levels": [["all", "1"]]}, {"share": 1}, {"stage": "1"}, {"bound_kmh": None}]
)
def test_a_forged_stage_with_values_that_no_stage_has_is_refused_and_found_and_named(ledger, change, monkeypatch):
    honest = stage_unit(STAGE, debit=PureDP(Fraction(1)), total=PureDP(Fraction(1)))
    forged = structs.replace(honest, plan=honest.plan | change)
    with pytest.raises(LedgerError, match="period day 1: a plan of a cannot be read"):
        record(ledger, forged)
    monkeypatch.setattr(releases, "check_claims", lambda *_: None)
    record(ledger, forged)
    with pytest.raises(LedgerError, match="period day 1: a plan of a cannot be read"):
        ledger.verify()


def test_no_noise_for_a_sensitivity_is_no_claim_at_all(ledger):
    with pytest.raises(LedgerError):
        record(ledger, unit(plan=costing("1", scale="0", facts={"sensitivity": 1})))


def test_the_shards_of_a_slot_are_added_up_with_what_is_recorded_of_it(ledger):
    """A vehicle may be in one HAT of each shard: one debit has to cover both."""
    first, second = (with_cells(unit(epsilon="2", shard=shard), [[costing("1")]] * 3) for shard in (0, 1))
    assert record(ledger, first).new == record(ledger, second).new == 1
    dear = with_cells(unit(3600, epsilon="2", shard=1), [[costing("1")], [costing("3/2")]])
    record(ledger, structs.replace(first, slot_s=3600, spec_id="b", period="day 2"))
    with pytest.raises(LedgerError, match="claim more"):
        record(ledger, structs.replace(dear, spec_id="b", period="day 2"))


def test_the_slots_of_a_period_that_is_planned_as_a_whole_are_added_up():
    check_claims(map(claims_of, whole(0, 3600, 7200)))
    three = [structs.replace(entry, released=[*entry.released]) for entry in whole(0, 3600, 7200)]
    three[2] = structs.replace(three[2], released=[Released("cell", "mean", "baseline", costing("3/2"), [1])])
    with pytest.raises(LedgerError, match=r"^period day 1: the plans of a claim more .*\(5/2 above 2\)"):
        check_claims(map(claims_of, three))


@pytest.mark.parametrize(("planned", "debited"), [("zcdp", "gdp"), ("gdp", "zcdp")])
def test_a_plan_of_other_noise_than_the_debit_is_of_is_refused_and_found(ledger, planned, debited, monkeypatch):
    """However much was debited: of discrete noise mu says nothing."""
    much = NOISE_CLAIMS[debited](Fraction(2**50))
    forged = stage_unit(replace(STAGE, accounting=planned), debit=much, total=much)
    with pytest.raises(LedgerError, match="claim more"):
        check_claims([claims_of(forged)])
    limit = DeltaLimit(Fraction(2**60), DELTA, accounting=debited)
    monkeypatch.setattr("transforms.ledger.spending.limit_in_force", lambda *_: limit)
    with pytest.raises(LedgerError, match="claim more"):
        ledger.record("city", limit, "name", "{}", [forged])
    monkeypatch.setattr(releases, "check_claims", lambda _units: None)
    ledger.record("city", limit, "name", "{}", [forged])
    with pytest.raises(LedgerError, match="claim more"):
        ledger.verify()


def test_zero_concentrated_debits_fit_a_limit_with_a_delta_and_no_other(tmp_path):
    limit = DeltaLimit(Fraction(1), DELTA)
    most = rho_within(Fraction(1), DELTA)
    book = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head", limit=str(limit))
    halves = [structs.replace(unit(slot_s, plan=None), debit=ZCDP(most / 2)) for slot_s in (0, 1, 2)]
    assert book.record("city", limit, "name", "{}", halves[:2]).new == 2
    with pytest.raises(AccountRefusal, match="1 at delta 1e-06 would be exceeded"):
        book.record("city", limit, "name", "{}", halves[2:])
    with pytest.raises(AccountRefusal):
        book.record("city", limit, "name", "{}", [unit(3)])
    (spent,) = book.spent("city")
    assert limit.shown(spent.debited).describe() == "1 at delta 1e-06"
    assert book.verify().entries == 4
    pure = opened(f"sqlite:///{tmp_path / 'pure.sqlite'}", tmp_path / "pure.head")
    with pytest.raises(AccountRefusal):
        pure.record("city", PureLimit(Fraction(3)), "name", "{}", halves[:1])


def test_an_account_may_lower_its_delta_and_never_change_the_kind_of_its_limit(tmp_path):
    limit = DeltaLimit(Fraction(1), DELTA, pure=Fraction(1, 2))
    book = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head", limit=str(limit))
    lower = DeltaLimit(Fraction(1), DELTA / 2, pure=Fraction(1, 2))
    assert book.open_account(replace(ACCOUNT, limit=str(lower))) == "limit lowered"
    assert book.limit("city", limit) == lower
    for other in (limit, PureLimit(Fraction(1)), DeltaLimit(Fraction(1), DELTA / 2)):
        with pytest.raises(AccountRefusal, match="stays as it was set"):
            book.open_account(replace(ACCOUNT, limit=str(other)))


@pytest.mark.parametrize(("share", "fits"), [("3/4", True), ("7/10", True), ("19/20", False)])
def test_the_shares_of_a_periods_stages_are_added_up(share, fits):
    """A whole vector of norm 2**20 under noise of variance 5 costs 2**40 / 10."""
    total = ZCDP(Fraction(2**40, 10))
    shared = [STAGE, replace(STAGE, number=1, share=Fraction(share))]
    stages = [stage_unit(stage, debit=total, total=total) for stage in shared]
    with nullcontext() if fits else pytest.raises(LedgerError, match="claim more"):
        check_claims(map(claims_of, stages))


# --- Limits of spans of days: every window of consecutive days is within its limit, in any order of recording. --------


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
def test_no_window_is_exceeded_in_any_order_of_days(records, tmp_path_factory):
    assert violations(tmp_path_factory.mktemp("ledger"), records) == []


def ends_with_the_day(last: date, days: int) -> date:
    return last - timedelta(days=days - 1)


def begins_with_the_day(first: date, _: int) -> date:
    return first


def of_the_calendar(when: date, days: int) -> date:
    return when - timedelta(days=when.toordinal() % days)


@pytest.mark.parametrize("first_of", [ends_with_the_day, begins_with_the_day, of_the_calendar])
def test_a_window_of_another_kind_is_caught(first_of, tmp_path, monkeypatch):
    def fits(debits: dict[str, list[Debit]], limit: Limit, period: str) -> bool:
        return all(span.limit.fits(window(debits, period, span.days)) for span in limit.spans)

    def window(debits: dict[str, list[Debit]], period: str, days: int) -> Accountant:
        first = first_of(date.fromisoformat(period), days)
        inside = [(first + timedelta(days=step)).isoformat() for step in range(days)]
        return sum((spending._sum(debits.get(inner_day, [])) for inner_day in inside), Accountant())

    monkeypatch.setattr(spending, "_fits", fits)
    assert violations(tmp_path, [(number, 3) for number in (20, 19, 11, 12, 5, 4, 7, 8, 3, 9, 10, 18, 13, 6)])


def test_what_a_run_asks_for_earlier_days_counts_against_its_later_ones(tmp_path):
    book = book_of(tmp_path, PURE)
    wanted = {day(number): [Debit(UnitKey("a", number, 0), PureDP(Fraction(2)))] for number in range(6)}
    assert book.excess("city", PURE, wanted) == [day(3)]  # 0, 1, 2 fill four days; then there is room again
    assert book.excess("city", PURE, {day(0): wanted[day(0)], day(5): wanted[day(5)]}) == []


def test_a_rerun_of_a_full_window_is_free(tmp_path):
    book = book_of(tmp_path, PURE)
    assert all(is_recorded(book, PURE, number, 2) for number in (0, 1, 2))
    assert not is_recorded(book, PURE, 3, 1)
    assert all(is_recorded(book, PURE, number, 2) for number in (0, 1, 2))


def test_two_specifications_share_a_span(tmp_path):
    book = book_of(tmp_path, PURE)
    assert is_recorded(book, PURE, 0, 3, "one")
    assert is_recorded(book, PURE, 1, 3, "other")
    assert not is_recorded(book, PURE, 2, 1, "one")
    assert is_recorded(book, PURE, 4, 3, "one")


def test_rho_of_a_window_adds_up_to_that_of_its_total(tmp_path):
    total = DeltaLimit(Fraction(10), Fraction(1, 10**6))
    limit = SpanLimits((Span(1, DeltaLimit(Fraction("2.64"), Fraction(1, 10**6))), Span(28, total)))
    share = ZCDP(rho_within(total.epsilon, total.delta) / 28)
    book = book_of(tmp_path, limit)
    assert all(is_recorded(book, limit, number, share) for number in range(28))
    assert not is_recorded(book, limit, 3, ZCDP(Fraction(1, 10**9)), "another")
    assert is_recorded(book, limit, 28, share)
    assert not is_recorded(book, limit, 29, ZCDP(share.rho + Fraction(1, 10**9)))


def test_an_account_takes_further_spans_and_never_loses_one(tmp_path):
    book = book_of(tmp_path, PureLimit(Fraction(3)))
    assert book.open_account(replace(ACCOUNT, limit=str(PURE))) == "limit lowered"
    assert book.limit("city", PURE) == PURE
    for wider in ("3", "days=1:3;days=4:6", "days=1:3;days=4:6;days=9:11"):
        with pytest.raises(AccountRefusal, match="any 9 days"):
            book.open_account(replace(ACCOUNT, limit=wider))
    assert limit_of(str(PURE)) == PURE


def test_the_fullest_window_around_a_day_is_told(tmp_path):
    book = book_of(tmp_path, PURE)
    for number, epsilon in ((2, 1), (3, 2), (5, 2)):
        assert is_recorded(book, PURE, number, epsilon)
    told = book.spent_in_spans("city", PURE, day(3))
    assert [(window.span.days, window.spent.pure) for window in told] == [(1, 2), (4, 5), (9, 5)]
    assert (told[1].first, told[1].last) == (day(2), day(5))


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_the_fullest_window_is_told_by_noise_too(accounting, tmp_path):
    of_span = DeltaLimit(Fraction(10), Fraction(1, 10**6), accounting=accounting)
    limit = SpanLimits((Span(1, of_span), Span(2, of_span)))
    book = book_of(tmp_path, limit)
    for number, rho in ((2, 1), (3, 4), (4, 2)):
        assert is_recorded(book, limit, number, NOISE_CLAIMS[accounting](Fraction(rho, 100)))
    _, of_two = book.spent_in_spans("city", limit, day(3))
    assert (of_two.first, of_two.spent.concentrated) == (day(3), Fraction(6, 100))
