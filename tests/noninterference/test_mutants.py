"""The gate can fail: every mutant is found by the case that it names."""

import pytest

from tests.noninterference.cases import CASES, SLOW
from tests.noninterference.mutants import MUTANTS, SEEN, Mutant, watch_rows


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] * (mutant.case in SLOW)) for mutant in MUTANTS],
)
def test_a_mutant_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutant.breaks
    SEEN.clear()
    watch_rows(monkeypatch)
    mutant.apply(monkeypatch)
    assert ({**CASES, **SLOW}[mutant.case])().differences() != []
