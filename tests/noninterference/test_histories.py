"""One vehicle more, or at other speeds, in a history of several runs: nothing public differs after any of them."""

import pytest

from tests.noninterference.cases import PAST
from tests.noninterference.spans import Month

QUICK = ("another-input", "killed-between-stages")


@pytest.mark.slow
def test_nothing_public_follows_from_28_days_of_one_vehicle_and_they_are_within_their_total() -> None:
    """Half a minute."""
    assert Month().differences() == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in PAST])
def test_nothing_public_follows_from_one_vehicle_after_any_history(name: str) -> None:
    assert PAST[name]().differences() == []
