"""The gate can fail: every mutant is found by the case that it names."""

import pytest

from tests.noninterference import mutants, mutants_by_key, mutants_published
from tests.noninterference.cases import CASES, PAST, SLOW
from tests.noninterference.machine import Found
from tests.noninterference.mutating import MUTANTS, Mutant, broken
from tests.noninterference.neighbours import heavy
from tests.noninterference.sealed import SEALED
from tests.noninterference.spans import Month

REGISTERED = (mutants, mutants_by_key, mutants_published)
ALL = {**CASES, **PAST, **SLOW, **SEALED, "neighbours": lambda: heavy("jsonl", 200), "machine": Found, "28-days": Month}
QUICK = (
    "type-of-a-batch",
    "noise-by-the-data",
    "clipped-over-vehicles",
    "log-line",
    "sequence-numbers",
    "digest-without-a-key",
)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] * (mutant.name not in QUICK)) for mutant in MUTANTS],
)
def test_a_mutant_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutant.breaks
    broken(mutant, monkeypatch)
    assert ALL[mutant.case]().differences() != []
