"""The gate can fail: every mutant is found by the case that it names."""

from pkgutil import resolve_name

import apache_beam as beam
import pytest

import hatstream
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


def test_what_mutants_break_is_there() -> None:
    assert all(resolve_name(place) is not None for mutant in MUTANTS for place in mutant.where)


@pytest.mark.parametrize("name", hatstream.__all__)
def test_every_public_transform_has_a_mutant_of_its_own(name: str) -> None:
    found = [mutant.name for mutant in MUTANTS if any(f":{name}." in place for place in mutant.where)]
    is_transform = isinstance(public := getattr(hatstream, name), type) and issubclass(public, beam.PTransform)
    assert bool(found) >= is_transform, "add one to tests/noninterference/mutants_by_key.py"
