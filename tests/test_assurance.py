"""docs/assurance.md says what was measured, and names tests that are there."""

import json
from pathlib import Path

from benchmarks import assurance

ROOT = Path(__file__).parents[1]


def test_every_leak_that_is_listed_was_found() -> None:
    results = json.loads(assurance.RESULTS.read_text())
    assert len(results["mutants"]) >= 25
    assert [mutant["name"] for mutant in results["mutants"] if not mutant["found"]] == []


def test_every_sentence_of_the_guarantee_has_a_test_that_is_there() -> None:
    sentences = list(assurance._sentences(assurance.GUARANTEE.read_text()))
    named = {name for line in sentences for name in line.split("`")[1::2] if name.startswith("tests/")}
    assert len(named) > 20
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_page_is_made_of_results_and_sentences() -> None:
    made = assurance.page(json.loads(assurance.RESULTS.read_text()), "| code | a sentence | `tests/a/test_b.py` |")
    assert "| a sentence | `tests/a/test_b.py` |" in made
