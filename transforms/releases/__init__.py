"""Releases of each kind, found by the registry; and what is public about slots and days, whatever is released."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from transforms.time.calendar import FirstDays


@dataclass(frozen=True)
class SlotFacts:
    """What is public about a slot before any data. start, end: as text. plan: the slots that are planned together with
    it, itself included, ascending. plans: how many such plans share what a vehicle may spend in the whole period."""

    period: str
    start: str
    end: str
    plan: tuple[int, ...]
    plans: int


class DayShare(NamedTuple):
    """What a day has of a total: a part, and its epsilon as people read it."""

    part: Fraction
    epsilon: Fraction


class DayShares(NamedTuple):
    """Shares of a total by weekday, Monday first, and in an account's `first_days`."""

    by_weekday: Sequence[DayShare]
    first: Sequence[DayShare] = ()
    first_days: FirstDays | None = None

    def of(self, period: str) -> DayShare:
        """Returns the share of a local day. period: its date."""
        day = date.fromisoformat(period)
        is_first = self.first_days is not None and self.first_days.has(day)
        return (self.first if is_first else self.by_weekday)[day.weekday()]
