"""`hatstream evaluate --learned` and `--live`: what they show of a small city, and how they refuse."""

import json
from pathlib import Path

import pytest

from tests import levels_city

SPEC = levels_city.SPEC.replace("vehicles = 50", "vehicles = 40")


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("city")
    levels_city.write(folder, spec=SPEC, lines=levels_city.rows(buses=40))
    return folder


def evaluate(feed: Path, *more: str) -> list[str]:
    spec, data = str(feed / "spec.toml"), str(feed / "feed.csv")
    return ["evaluate", "--data", data, "--spec", spec, "--not-private", "--totals", "2.64", "--runs", "1", *more]


def test_live_values_are_beside_the_forecast_and_the_days_end(feed, tmp_path, hatstream):
    code, out, _ = hatstream(*evaluate(feed, "--live", "--json", "--output", str(tmp_path)))
    assert code == 0
    document = json.loads(out)
    assert document == json.loads((tmp_path / "live.json").read_text())
    assert {error["day"] for error in document["errors"]} == set(levels_city.DAYS[1:])
    assert {storm["delta"] for storm in document["storms"]} == {None, "1e-06"}


def test_learned_estimates_are_beside_the_constant(feed, hatstream):
    code, out, _ = hatstream(*evaluate(feed, "--learned", "--json"))
    assert code == 0
    errors = json.loads(out)["errors"]
    assert {error["what"] for error in errors} > {"causal", "whole", "forecast"}
    assert all(error["rows"] is None or error["rows"] >= 0 for error in errors), "none where every day is held back"


def test_one_day_alone_has_no_live_slots(tmp_path, hatstream):
    levels_city.write(tmp_path, spec=SPEC, lines=levels_city.rows(levels_city.DAYS[:1]))
    code, _, err = hatstream(*evaluate(tmp_path, "--live"))
    assert code == 1
    assert "two days" in err


def test_a_range_of_dates_is_all_that_is_looked_at(feed, hatstream):
    code, out, _ = hatstream(
        *evaluate(feed, "--learned", "--json", "--from", levels_city.DAYS[1], "--to", levels_city.DAYS[2])
    )
    assert code == 0
    assert json.loads(out)["days"] == list(levels_city.DAYS[1:])


@pytest.mark.parametrize("more", [("--from", "2022-01-01"), ("--to", "2022-01-01")])
def test_a_range_has_two_ends(feed, hatstream, more):
    code, _, err = hatstream(*evaluate(feed, "--learned", *more))
    assert code == 1
    assert "--from and --to go together" in err
