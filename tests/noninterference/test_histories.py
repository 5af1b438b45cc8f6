"""One vehicle more, or at other speeds, in a history of several runs: nothing public differs after any of them.

A look is sealed with fresh noise, its day's share and a keyed digest.
"""

import pytest
from hypothesis import settings

from tests.noninterference.cases import PAST
from tests.noninterference.machine import RELAXED, Histories
from tests.noninterference.sealed import SEALED
from tests.noninterference.spans import Month

QUICK = ("another-input", "killed-between-stages")


@pytest.mark.slow
def test_nothing_public_follows_from_28_days_of_one_vehicle_and_they_are_within_their_total() -> None:
    """Half a minute."""
    assert Month().differences() == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in PAST])
def test_nothing_public_follows_from_one_vehicle_after_any_history(name: str) -> None:
    assert PAST[name]().differences() == []


class TestShortHistories(Histories.TestCase):
    """Whatever happens on an account, in whatever order."""

    settings = settings(RELAXED, max_examples=1, stateful_step_count=5)


@pytest.mark.slow
class TestLongHistories(Histories.TestCase):
    """Some minutes."""

    settings = settings(RELAXED, max_examples=60, stateful_step_count=10)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SEALED)
def test_a_look_is_sealed_as_it_should_be(name: str) -> None:
    assert SEALED[name]().differences() == []
