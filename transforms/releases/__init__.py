"""Kinds of releases, and public facts of their slots."""

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
    """A day's part of the total, and its epsilon."""

    part: Fraction
    epsilon: Fraction


class DayShares(NamedTuple):
    """Days' shares of a week's epsilon, others in `first_days`."""

    by_weekday: Sequence[DayShare]
    first: Sequence[DayShare] = ()
    first_days: FirstDays | None = None

    def of(self, period: str) -> DayShare:
        """Returns a local day's share of epsilon. period: its ISO date."""
        day = date.fromisoformat(period)
        is_first = self.first_days is not None and self.first_days.has(day)
        return (self.first if is_first else self.by_weekday)[day.weekday()]
