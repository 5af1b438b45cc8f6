"""Kinds of releases, found by the registry, and public facts of slots and days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from transforms.time.calendar import FirstDays


@dataclass(frozen=True)
class SlotFacts:
    """Public facts of a slot."""

    period: str
    start: str
    end: str
    plan: tuple[int, ...]  # sorted slots planned together, itself included
    plans: int  # number of plans that share a period's total


class DayShare(NamedTuple):
    """Part of the total that a day has, and its epsilon for display."""

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
