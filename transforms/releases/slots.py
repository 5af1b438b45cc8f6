"""What is public about slots and days, whatever is released of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import NamedTuple


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


def share_of(period: str, by_weekday: Sequence[DayShare]) -> DayShare:
    """What a local day has."""
    return by_weekday[date.fromisoformat(period).weekday()]
