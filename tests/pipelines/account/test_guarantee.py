"""The guarantee's sentence says the chance that the noise has, not delta, and the pair as a definition."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpops.accountant import Accountant, DeltaLimit
from pipelines.account.guarantee import SpanBound, costs_at_places, levels_sentence, loss_of, sentence, span_bounds
from pipelines.specification import Specification, load
from tests import city, levels_city

LIMIT = DeltaLimit(Fraction("2.64"), Fraction(1, 10**6))


def unspent(spec: Specification) -> tuple[SpanBound, ...]:
    """Bounds of an account that has the specification's limit and spent nothing."""
    return span_bounds(spec.account.limit, {})


def levels_said(folder: Path, total: str, delta: str = "", adjacency: str = "add-remove") -> str:
    spec = levels_city.SPEC.replace("epsilon = 2.64", f"epsilon = {total}\n{delta}").replace("add-remove", adjacency)
    loaded = city.loaded(folder, spec)
    assert loaded.levels is not None
    return levels_sentence(loaded, unspent(loaded))


@pytest.mark.parametrize(("total", "chance"), [("1", "5e-06"), ("2.64", "2.1e-06"), ("10", "7.2e-07")])
def test_a_total_with_delta_names_the_chance_of_its_noise(tmp_path: Path, total: str, chance: str) -> None:
    text = levels_said(tmp_path, total, "delta = 1e-6")
    assert "raise the odds of a true guess about one vehicle" in text
    assert f"(epsilon {total}), but for a chance of {chance} under the noise that is drawn;" in text
    assert "times as likely with the vehicle as without it, plus 1e-06, and vice versa." in text
    assert "chance of 1e-06" not in text


def test_claims_of_each_hat_on_an_account_with_delta_say_it_too(tmp_path: Path) -> None:
    spec = city.loaded(tmp_path)
    spent = loss_of(Accountant(pure=Fraction("0.5")), LIMIT)
    text = sentence(spec, unspent(spec), Fraction("0.5"), spent)
    assert f"but for a chance of {spent.chance_text} under the noise" in text
    assert "with any other speeds of it, plus 1e-06" in text


PLACES = "[places]\nresolution = 8\n"


def test_of_a_total_that_the_limit_adds_up_none_of_nothing_is_said_of_places(tmp_path: Path) -> None:
    """A limit without delta, and a total with one: nothing of it will be released, and a plan says so."""
    spec = load(
        city.write(tmp_path, spec=levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2\ndelta = 1e-6") + PLACES)[0]
    )
    assert spec.levels is not None
    assert "map of places" not in levels_sentence(spec, unspent(spec))
    assert costs_at_places(spec, unspent(spec)) == []


def test_a_map_of_places_says_what_it_tells_of_a_van_in_its_depot(tmp_path: Path) -> None:
    """Without a delta 28 days add up to 28 totals; the sentence is there where there are places alone."""
    spec = city.loaded(tmp_path, levels_city.SPEC + PLACES)
    assert spec.levels is not None
    said_of_places = levels_sentence(spec, unspent(spec))
    assert said_of_places.endswith(
        "such as a van at its depot, 28 days change the odds of any guess by at most a factor of 10^33 "
        "(epsilon 73.92), so large that the vehicle is hardly protected."
    )
    assert "at one place every day" not in levels_said(tmp_path, "2.64")


LIMITS = """limits = [
  { days = 1, epsilon = 2.64, delta = 1e-6 },
  { days = 28, epsilon = 10, delta = 1e-6 },
]"""


def test_a_limit_of_28_days_is_what_a_van_in_its_depot_can_lose(tmp_path: Path) -> None:
    """One day's release has all of its own limit; the ledger refuses what 28 of them would have beyond theirs."""
    spec = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace("limit = 2.64", LIMITS)
    loaded = city.loaded(tmp_path, spec + PLACES)
    assert loaded.levels is not None
    day, several = costs_at_places(loaded, unspent(loaded))
    assert (day.days, float(day.loss.epsilon)) == (1, 2.64)
    assert (several.days, *several.loss[:2]) == (28, Fraction(10), Fraction(1, 10**6))
    assert several.loss.chance >= 1e-7
    assert "28 days raise the odds of a true guess by at most a factor of 22,100" in levels_sentence(
        loaded, unspent(loaded)
    )
    (_, unbounded) = costs_at_places(loaded, unspent(loaded)[:1])
    assert 15 < float(unbounded.loss.epsilon) < 28 * 2.64


@pytest.mark.few(1)
@pytest.mark.parametrize(("adjacency", "guess"), [("add-remove", "them"), ("counts-public", "its speeds on them")])
def test_a_span_hides_days_driven_only_where_counts_are_secret(tmp_path: Path, adjacency: str, guess: str) -> None:
    spec = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace("limit = 2.64", LIMITS)
    loaded = city.loaded(tmp_path, spec.replace("add-remove", adjacency))
    said_of_span = levels_sentence(loaded, unspent(loaded)).partition("about any 28 consecutive days")[2]
    assert f"raises the odds of a true guess about {guess} by at most a factor of 22,100" in said_of_span
