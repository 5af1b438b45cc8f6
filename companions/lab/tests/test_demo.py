"""`hatstream demo`, which is what `make run` runs, and the sentence that a newspaper could print."""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from dpops.allocation import Allocation
from hatstream_lab.commands.demo import demo
from hatstream_lab.demo import steps
from hatstream_lab.made_up_fleet import MadeUpFleet
from pipelines.account.guarantee import Loss, sentence
from pipelines.cli import main
from pipelines.specification import load

MEANS = Path(__file__).parents[3] / "examples" / "hourly-means.toml"


@pytest.fixture
def small(monkeypatch):
    """Two days of a fleet that is soon driven."""
    fleets = [MadeUpFleet(vehicles=12, report_every_s=60.0, seed=day, day=date(2026, 5, 13 + day)) for day in range(2)]
    monkeypatch.setattr("hatstream_lab.commands.demo.made_up_fleets", lambda: fleets)


def test_the_summary_words_the_account_as_guarantees_do() -> None:
    loss, again = Loss(Fraction("2.635"), Fraction(1, 10**6), 1e-6), SimpleNamespace(digests=1, files=2)
    account = SimpleNamespace(most=loss, standing=[SimpleNamespace(days=28, loss=loss)])
    facts = {"account": account, "classes": [], "city_kmh": 18.2, "errors": None, "again": again, "pages": ""}
    lines = steps.summary(facts)
    assert lines[0].endswith(f"by {loss.factor_text()}.")
    assert lines[1].startswith(f"Days add up, those of 28 to {loss.rounded_up().factor_text()}")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_says_in_fifteen_lines_how_near_the_truth_it_is(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 15
    shown = " ".join(printed.split())
    for part in (
        "estimate",
        "constant",
        "holds the truth",
        "epsilon 2.64",
        "that it drove at all",
        "hexagons and of streets open",
        "streets: what is usual on them",
        "Days add up, those of 28 to at most a factor of 118,000,000 (epsilon 18.58), so large that the vehicle is "
        "hardly protected, but for a chance of ",
        "the same 3 digests",
    ):
        assert part in shown
    table = load(tmp_path / "town.toml").timetable
    hours = len(table.service_minutes)
    assert len(list((tmp_path / "hats").glob("hats-*"))) == 2 * hours
    assert len(list((tmp_path / "hats").glob("place-standing-*"))) == 2
    assert (tmp_path / "streets.html").stat().st_size < 500_000
    assert "Road at" in (tmp_path / "town-places.geojson").read_text()
    assert (tmp_path / "map.html").stat().st_size < 6_000_000


@pytest.mark.parametrize(
    ("hat", "spent", "text"),
    [
        (Fraction(1), Fraction(2), ["factor of 2.72 (epsilon 1)", "about one day", "factor of 7.39 (epsilon 2)"]),
        (Fraction(1, 10), Fraction(141), ["factor of 1.11", "10^62 (epsilon 141), so large that the"]),
    ],
)
def test_the_sentence_says_what_one_figure_and_all_of_them_give_away(hat, spent, text):
    for part in text:
        assert part in sentence(load(MEANS), (), hat, Loss(spent))


def test_per_period_the_sentence_names_the_total_that_was_asked_for():
    spec = load(MEANS)
    spec = replace(spec, privacy=replace(spec.privacy, allocation=Allocation(epsilon=Fraction(3), per="period")))
    assert "(epsilon 3)" in sentence(spec, (), Fraction(1, 100), Loss(Fraction(2)))


def test_per_period_the_sentence_counts_what_other_specifications_of_the_account_spent():
    spec = load(MEANS)
    spec = replace(spec, privacy=replace(spec.privacy, allocation=Allocation(epsilon=Fraction(3), per="period")))
    assert "(epsilon 5)" in sentence(spec, (), Fraction(1, 100), Loss(Fraction(5)))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_stops_where_a_second_run_counts_otherwise(tmp_path, monkeypatch):
    """The check must be able to fail: the second run is given the day's file without its last hundred reports."""
    again = steps.release

    def shorter(spec, ledger, pattern, *arguments):
        return again(spec, ledger, pattern if "*" in pattern else _shortened(Path(pattern)), *arguments)

    monkeypatch.setattr(steps, "release", shorter)
    with pytest.raises(RuntimeError, match="0 stages are new, 3 of 3 digests and 0 of"):
        demo.callback(output=tmp_path, as_json=False)


def _shortened(sample):
    table = pq.read_table(sample)
    path = sample.parent / "shorter" / sample.name
    path.parent.mkdir()
    pq.write_table(table.slice(0, table.num_rows - 100), path)
    return str(path)
