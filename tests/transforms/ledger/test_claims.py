"""A debit below what its plans claim stops a release before anything is recorded, and is found in a stored ledger."""

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from msgspec import structs

from dpops.accountant import DeltaLimit, PureLimit
from dpops.claims import NOISE_CLAIMS, ZCDP, PureDP, rho_within
from dpops.levels.stages import Part, PublicHats, Stage
from tests.transforms.ledger.entries import ACCOUNT, PLAN, opened, record, stage_unit, unit, whole
from transforms.ledger import releases
from transforms.ledger.claims import check_claims, claims_of
from transforms.ledger.head import LedgerError
from transforms.ledger.spending import AccountRefusal
from transforms.recorded.units import Released

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
).on(PublicHats(parents=(0,), grandparents=(0,), hours=(0,)), np.full((1, 1), 2_000), Fraction(1, 100))


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
