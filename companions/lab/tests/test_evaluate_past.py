"""`hatstream evaluate --past`: what it shows of a small city, and of what specifications it can show nothing."""

import json
from pathlib import Path

import pytest

from hatstream_lab.evaluation import past
from tests import city, levels_city
from tests.pipelines.commands.forty_buses import LINES, SPEC
from tests.statistical.checks import seeded


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("city")
    city.write(folder, spec=SPEC, lines=LINES)
    return folder


def evaluate(feed: Path, *more: str) -> list[str]:
    spec, data = str(feed / "spec.toml"), str(feed / "feed.csv")
    return ["evaluate", "--data", data, "--spec", spec, "--not-private", "--past", "--runs", "1", *more]


def test_the_model_stands_beside_what_was_released_and_the_constant(feed, hatstream, monkeypatch):
    monkeypatch.setattr(past, "Noise", lambda: seeded(4))
    code, out, _ = hatstream(*evaluate(feed, "--totals", "36", "--json"))
    assert code == 0
    document = json.loads(out)
    whole, *days = document["errors"]
    assert whole["held_back"] == 0
    assert whole["model"][0] < min(whole["raw"][0], whole["constant"][0])
    assert [error["day"] for error in days] == list(city.DAYS)
    assert document["coverage"][0]["hats"] == 18


def test_where_nothing_is_known_nothing_is_compared(feed, hatstream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = hatstream(*evaluate(feed, "--totals", "0.01"))
    assert code == 0
    assert "1.00" in out
    assert "NOT PRIVATE" in out


def test_what_is_not_released_hat_by_hat_is_refused(tmp_path, hatstream):
    levels_city.write(tmp_path)
    code, _, err = hatstream(*evaluate(tmp_path))
    assert code == 1
    assert "HAT by HAT" in err
