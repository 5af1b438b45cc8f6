"""Which range of time a scheduled job is asked for, and that it is over."""

from datetime import UTC, datetime

import pytest

from pipelines.errors import UsageError
from pipelines.inputs import closed_range, yesterday
from transforms.time.calendar import Timetable

KOLKATA = Timetable("Asia/Kolkata", "vehicle-day", 60)
MIDNIGHT = datetime(2026, 3, 1, 18, 30, tzinfo=UTC)  # in Kolkata, when 1 March ends


def test_a_day_can_be_released_as_soon_as_it_is_over():
    assert closed_range(KOLKATA, "2026-03-01", "2026-03-01", MIDNIGHT).to_s == MIDNIGHT.timestamp()
    before = datetime(2026, 3, 1, 18, 29, 59, tzinfo=UTC)
    with pytest.raises(UsageError, match=r"2026-03-02T00:00:00\+05:30, which is still to come"):
        closed_range(KOLKATA, "2026-03-01", "2026-03-01", before)


def test_yesterday_is_a_day_on_the_clock_of_the_zone():
    assert yesterday(KOLKATA, MIDNIGHT) == closed_range(KOLKATA, "2026-03-01", "2026-03-01", MIDNIGHT)
    assert yesterday(KOLKATA, MIDNIGHT).periods == ("2026-03-01",)
