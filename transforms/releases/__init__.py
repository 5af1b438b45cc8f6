"""Kinds of releases by name, loaded lazily, and public facts of their slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.time.calendar import FirstDays

if TYPE_CHECKING:
    from transforms.releases.base import ReleaseKind, Request


@dataclass(frozen=True)
class SlotFacts:
    """Public facts of a slot."""

    period: str
    start: str
    end: str
    joint_slots_s: tuple[int, ...]  # sorted starts of the slots that are planned together, itself included
    plan_count: int  # number of plans that share a period's total


class DayShare(NamedTuple):
    """A day's share of the total, and its epsilon."""

    share: Fraction
    epsilon: Fraction


class DayShares(NamedTuple):
    """Days' shares, relative to the largest day's, Monday first; `first`: on days in `first_days`."""

    by_weekday: Sequence[DayShare]
    first: Sequence[DayShare] = ()
    first_days: FirstDays | None = None

    def of(self, period: str) -> DayShare:
        """Returns a local day's share and epsilon. period: its ISO date."""
        day = date.fromisoformat(period)
        is_first = self.first_days is not None and self.first_days.has(day)
        return (self.first if is_first else self.by_weekday)[day.weekday()]


class Kind(NamedTuple):
    """Classes of a kind of release (module:name), and traits."""

    closed: str
    slots: str | None = None  # for a stream's slots, if another
    learned: bool = False  # rows by inference from all entries up to theirs, a period at a time

    def of(self, request: "Request", *, in_slots: bool = False) -> "ReleaseKind":
        """Creates the release of a range, or of slots."""
        release: ReleaseKind = resolve_name((self.slots if in_slots else None) or self.closed).of(request)
        return release

    def why_no_stream(self, allocation: Any, options: Any) -> str | None:
        """Explains why a stream cannot release slots, or None."""
        why: str | None = resolve_name(self.slots or self.closed).why_no_stream(allocation, options)
        return why


KINDS = {
    "hats": Kind("transforms.releases.hats.release:HatRelease"),
    "levels": Kind(
        "transforms.releases.periods.release:PeriodRelease",
        "transforms.releases.live.release:LiveRelease",
        learned=True,
    ),
    "counts": Kind("transforms.releases.periods.release:CountRelease"),
}
