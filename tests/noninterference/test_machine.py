"""Whatever happens on an account, in whatever order: one vehicle more, or at other speeds, is seen nowhere."""

import pytest
from hypothesis import settings

from tests.noninterference.machine import RELAXED, Histories


class TestShortHistories(Histories.TestCase):
    settings = settings(RELAXED, max_examples=1, stateful_step_count=5)


@pytest.mark.slow
class TestLongHistories(Histories.TestCase):
    """Some minutes."""

    settings = settings(RELAXED, max_examples=60, stateful_step_count=10)
