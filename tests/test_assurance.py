"""measurements/assurance.md says what was measured, and names tests that are there."""

import json
from pathlib import Path

from benchmarks import assurance

ROOT = Path(__file__).parents[1]


def test_every_leak_that_is_listed_was_found() -> None:
    results = json.loads(assurance.RESULTS.read_text())
    assert len(results["mutants"]) >= 25
    assert [mutant["name"] for mutant in results["mutants"] if not mutant["found"]] == []


def test_every_sentence_of_the_guarantee_has_a_test_that_is_there() -> None:
    claims = assurance.CLAIMS.read_text().splitlines()[2:]
    named = {claim: assurance.tests_of(claim) for claim in claims}
    assert len(claims) > 20
    assert [claim for claim, tests in named.items() if not tests] == []
    assert {test for tests in named.values() for test in tests if not (ROOT / test).exists()} == set()


def test_the_page_is_made_of_results_and_claims() -> None:
    made = assurance.page(json.loads(assurance.RESULTS.read_text()), assurance.CLAIMS.read_text())
    assert made == assurance.PAGE.read_text()
