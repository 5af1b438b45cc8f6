"""`hatstream demo`, which is what `make run` runs, and the sentence that a newspaper could print."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpops.allocation import Allocation
from pipelines.account.guarantee import sentence
from pipelines.cli import main
from pipelines.specification import load

DEMO_SPEC = Path(__file__).parents[3] / "pipelines" / "demo" / "demo.toml"


def test_the_demo_ends_with_a_table_the_guarantee_and_the_paths_of_its_files(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "mean km/h" in shown
    assert "Guarantee: No single figure" in shown
    files = sorted((tmp_path / "hats").iterdir())
    assert len(files) == 19 * 2
    assert files[1].name in shown
    assert files[-2].name in shown


def test_the_demo_twice_returns_the_same_numbers(tmp_path, capsys):
    seen = []
    for _ in range(2):
        assert main(["demo", "--output", str(tmp_path)]) == 0
        means = capsys.readouterr().out.partition("most spent")[0]
        seen.append(({path.name: path.read_bytes() for path in (tmp_path / "hats").iterdir()}, means))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("hat", "spent", "said"),
    [
        (Fraction(1), Fraction(2), ["factor of 2.72 (epsilon 1)", "about one day", "factor of 7.39 (epsilon 2)"]),
        (Fraction(1, 10), Fraction(141), ["factor of 1.11", "e^141 (epsilon 141, which is little protection)"]),
    ],
)
def test_the_sentence_says_what_one_figure_and_all_of_them_give_away(hat, spent, said):
    for part in said:
        assert part in sentence(load(DEMO_SPEC), hat, spent)


def test_per_period_the_sentence_names_the_total_that_was_asked_for():
    spec = replace(load(DEMO_SPEC), allocation=Allocation(epsilon=Fraction(3), per="period"))
    assert "(epsilon 3)" in sentence(spec, Fraction(1, 100), Fraction(2))


def test_per_period_the_sentence_counts_what_other_specifications_of_the_account_spent():
    spec = replace(load(DEMO_SPEC), allocation=Allocation(epsilon=Fraction(3), per="period"))
    assert "(epsilon 5)" in sentence(spec, Fraction(1, 100), Fraction(5))
