"""A total of several days: each day has a fixed share of it, and everything that tells a promise tells both."""

import json
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpops.accountant import DeltaLimit, Span, SpanLimits
from dpops.claims import ZCDP, rho_within
from pipelines.specification import SpecificationError, load
from tests import city, levels_city
from tests.pipelines.commands.releases import Run, rows_in

DAYS = tuple((date(2022, 1, 1) + timedelta(days=day)).isoformat() for day in range(6))
LIMITS = """limits = [
  { days = 1, epsilon = 2.64, delta = 1e-6 },
  { days = 4, epsilon = 5, delta = 1e-6 },
]"""
TOTAL = "epsilon = 5\ndelta = 1e-6\nspan_days = 4"
SPEC = city.changed(levels_city.SPEC, ("epsilon = 2.64", TOTAL), ("limit = 2.64", LIMITS))
FIRST = "first_days = { since = 2022-01-01, days = 2,"
DELTA = Fraction(1, 10**6)
RHO = rho_within(Fraction(5), DELTA)


def made(folder: Path, hatstream: Run, spec: str = SPEC) -> Path:
    return levels_city.opened(folder, hatstream, spec=spec, lines=levels_city.rows(DAYS))


def release(folder: Path, first: str, last: str) -> list[str]:
    """The command."""
    return city.release(folder, "--json", start=first, end=last)


def debited(folder: Path) -> dict[str, Fraction]:
    spec = load(folder / "spec.toml")
    book = city.account(folder).ledger
    return {spent.period: spent.debited.rho for spent in book.spent(spec.account.name)}


@pytest.mark.slow
def test_each_day_is_debited_the_same_share_whatever_was_released_before(tmp_path, hatstream):
    made(tmp_path, hatstream)
    for day in (DAYS[4], DAYS[0], DAYS[1]):
        out = city.done(hatstream, *release(tmp_path, day, day))
    shares = debited(tmp_path)
    assert len({*shares.values()}) == 1
    share = shares[DAYS[0]]
    assert RHO / 4 * Fraction(999_999, 1_000_000) < share <= RHO / 4
    assert ZCDP(4 * share).approx(DELTA).epsilon <= 5
    assert "about any 4 consecutive days of one vehicle raises the odds of a true guess about them by at most" in out
    assert "a factor of 148 (epsilon 5), but for a chance of " in out


def test_a_day_that_would_exceed_a_span_is_refused_with_the_span(tmp_path, hatstream):
    spec = SPEC.replace("days = 4", "days = 2").replace("2.64", "3.5").replace("vehicles = 50", "vehicles = 12")
    made(tmp_path, hatstream, spec)
    assert hatstream(*release(tmp_path, DAYS[0], DAYS[1]))[0] == 0
    (tmp_path / "spec.toml").write_text(spec.replace("vehicles = 12", "vehicles = 13"))
    err = city.refused(hatstream, *release(tmp_path, DAYS[1], DAYS[1]), code=3)
    assert "allows a vehicle 3.5 at delta 1e-06 in a day, 5 at delta 1e-06 in any 2 days; nothing was released" in err
    assert f"the 2 days {DAYS[0]} to {DAYS[1]} have spent 5 at delta 1e-06 of 5 at delta 1e-06" in err


@pytest.mark.slow
def test_the_ledger_tells_what_each_span_has_left_by_day(tmp_path, hatstream):
    made(tmp_path, hatstream)
    assert hatstream(*release(tmp_path, DAYS[0], DAYS[1]))[0] == 0
    (account,) = city.told(hatstream, "ledger", "show", "--ledger", tmp_path / "ledger.sqlite")
    told = [(use["first"], use["last"], round(use["part"], 4)) for use in account["spans"]]
    assert told == [("2022-01-01", "2022-01-04", 0.5), ("2022-01-05", "2022-01-05", 0.25)]


WEEKENDS, FIRST_DAYS = (
    SPEC.replace("span_days = 4", f"span_days = 4\n{weights}").replace("2.64", "3.5")
    for weights in ("day_weights = { sat = 2, sun = 2.0 }", f"{FIRST} weight = 2 }}")
)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [WEEKENDS, FIRST_DAYS], ids=["weekends", "first days"])
def test_days_have_the_shares_that_the_specification_gives_them(spec, tmp_path, hatstream):
    made(tmp_path, hatstream, spec)
    out = city.done(hatstream, *release(tmp_path, DAYS[0], DAYS[3]))  # a Saturday to a Tuesday
    shares = debited(tmp_path)
    saturday = shares[DAYS[0]]
    assert RHO / 3 * Fraction(999_999, 1_000_000) < saturday <= RHO / 3
    assert [share / saturday for share in shares.values()] == [1, 1, Fraction(1, 2), Fraction(1, 2)]
    told = [(period["period"], round(period["epsilon"], 2)) for period in json.loads(out)["periods"]]
    assert told == [(DAYS[0], 2.72), (DAYS[1], 2.72), (DAYS[2], 1.86), (DAYS[3], 1.86)]
    rows = rows_in(tmp_path / "out")
    assert {(row["slot_start"][:10], round(float(row["epsilon_slot"]), 2)) for row in rows} == {*told}
    if spec == FIRST_DAYS:
        assert hatstream(*release(tmp_path, DAYS[4], DAYS[4]))[0] == 0, "the first day has left the window"
        out = city.done(hatstream, "spec", "check", tmp_path / "spec.toml")
        assert "; the first 2, from 2022-01-01 on: sat, sun with 2.72" in " ".join(out.split())
        return
    (tmp_path / "spec.toml").write_text(spec.replace("vehicles = 50", "vehicles = 51"))
    for day in DAYS[:4]:
        assert hatstream(*release(tmp_path, day, day))[0] == 3


def planned_spans(folder: Path, hatstream: Run, spec: str) -> list[dict[str, Any]]:
    """What a plan says of the total as that of several days."""
    levels_city.write(folder, spec=spec, lines=[])
    spans: list[dict[str, Any]] = city.told(hatstream, "plan", "--spec", folder / "spec.toml")["spans"]
    return spans


def test_equal_weights_are_the_specification_without_them(tmp_path):
    ids = []
    every = ", ".join(f"{day} = 3" for day in ("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
    once = f"{FIRST} weight = 1 }}"
    for given in (
        "",
        f"day_weights = {{ {every} }}",
        once,
        "day_weights = { sat = 2, sun = 2 }",
        *(once.replace("1 }", f"{weight} }}") for weight in ("2", "0.5", "0.25")),
        once.replace("2022-01-01", "2022-01-08").replace("1 }", "2 }"),
        once.replace("days = 2", "days = 1").replace("1 }", "0.5 }"),
    ):
        spec = SPEC.replace("span_days = 4", f"span_days = 4\n{given}")
        ids.append(city.loaded(tmp_path, spec.replace("epsilon = 2.64", "epsilon = 3.5")).spec_id)
    assert ids[0] == ids[1] == ids[2]
    assert len(set(ids)) == len(ids) - 2


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("span_days = 4", "day_weights = { sat = 2 }", "privacy.day_weights goes with privacy.span_days"),
        ("span_days = 4", "span_days = 4\nday_weights = { sat = 0 }", "day_weights must be above 0: a day without"),
        ("span_days = 4", "span_days = 4\nday_weights = { sat = 101 }", "must give no day more than 100 times another"),
        ("span_days = 4", "span_days = 4\nday_weights = { saturday = 2 }", "saturday"),
        ("span_days = 4", "span_days = 4\nday_weights = { sat = '2' }", "expected a number"),
        ("span_days = 4", f"{FIRST} weight = 2 }}", "privacy.first_days goes with privacy.span_days"),
        ("span_days = 4", f"span_days = 4\n{FIRST} weight = 0 }}", "first_days.weight must be from 1/100 to 100"),
        (
            "span_days = 4",
            f"span_days = 4\n{FIRST.replace('2,', '5,')} weight = 2 }}",
            "days must be from 1 to span_days",
        ),
        ("span_days = 4", f"span_days = 4\n{FIRST.replace('2022-01-01', '3')} weight = 2 }}", "first_days.since"),
        ("span_days = 4", "span_days = 5", "privacy.span_days must be one of the account's limits"),
        ("epsilon = 5\ndelta = 1e-6\nspan", "epsilon = 5.01\ndelta = 1e-6\nspan", "privacy.epsilon must be within"),
        ("epsilon = 2.64", "epsilon = 1", "privacy.epsilon must give each day what the account allows"),
        ("days = 4,", "days = 1,", "account.limits must name each length once"),
        ("days = 4,", "days = 0,", "account.limits must be of 1 to"),
        ("limits = [", "limit = 3\nlimits = [", "account.limits stands in place of account.limit"),
        ('"vehicle-day"', '"vehicle-week"', "account.limits goes with account.unit = 'vehicle-day'"),
        (LIMITS, "", "account.limit or account.limits must be set"),
        ("delta = 1e-6 },\n  { days = 4", "pure = 1 },\n  { days = 4", "pure only beside delta"),
        ("[slot]", "[slot]\nweekdays = []", "slot.weekdays must name at least one day"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(tmp_path, old, new, named):
    assert old in SPEC
    with pytest.raises(SpecificationError, match=named):
        city.loaded(tmp_path, SPEC.replace(old, new, 1))


def test_limits_and_spans_read_as_they_are_written(tmp_path):
    spec = city.loaded(tmp_path, SPEC)
    day, span = DeltaLimit(Fraction("2.64"), DELTA), DeltaLimit(Fraction(5), DELTA)
    assert spec.account.limit == SpanLimits((Span(1, day), Span(4, span)))
    assert "span_days" in spec.text
    assert "limits" not in spec.text


@pytest.mark.slow
def test_an_account_of_days_alone_takes_a_span_of_weeks_later(tmp_path, hatstream):
    before = SPEC.replace(LIMITS, "limit = { epsilon = 2.64, delta = 1e-6 }").replace("\nspan_days = 4", "")
    before = before.replace("epsilon = 5\n", "epsilon = 2.64\n")
    made(tmp_path, hatstream, before)
    assert hatstream(*release(tmp_path, DAYS[0], DAYS[0]))[0] == 0
    (tmp_path / "spec.toml").write_text(SPEC.replace("epsilon = 5", "epsilon = 3"))
    assert "limit lowered" in city.done(hatstream, *city.init(tmp_path))
    assert hatstream(*release(tmp_path, DAYS[1], DAYS[1]))[0] == 3  # the day before counts
    assert hatstream(*release(tmp_path, DAYS[4], DAYS[4]))[0] == 0


@pytest.mark.slow
def test_a_plan_tells_what_the_total_is_worth_for_longer_spans(tmp_path, hatstream):
    large = SPEC.replace("vehicles = 50", "vehicles = 300")
    spans = planned_spans(tmp_path, hatstream, large)
    assert [span["days"] for span in spans] == [1, 4, 7, 28, 91, 365]
    shares = [span["epsilon_a_day"] for span in spans]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 5
    for day in range(7):
        errors = [span["error"][day] for span in spans]
        assert errors == sorted(errors), "a smaller share of a day never tells more"
    assert [span["days"] for span in spans if span["as_specified"]] == [4]
    _, out, _ = hatstream("plan", "--spec", str(tmp_path / "spec.toml"))
    assert "This total as that of several days" in out
    assert "From the first released day on values are expected to be published" in " ".join(out.split())


def test_a_plan_says_which_days_are_expected_to_be_held_back_and_why(tmp_path, hatstream):
    small = WEEKENDS.replace("vehicles = 50", "vehicles = 40").replace("days = 4", "days = 91")
    levels_city.write(tmp_path, spec=small, lines=[])
    plan = city.told(hatstream, "plan", "--spec", tmp_path / "spec.toml")
    first = next(span["first_published"] for span in plan["spans"] if span["as_specified"])
    assert first > 1
    (said,) = [answer for answer in plan["answers"] if "held back" in answer]
    assert said.startswith(f"The first {first - 1} released days are expected to be held back: with a share of")
    assert "Fewer days behind one total, a larger total, a larger fleet or" in said
