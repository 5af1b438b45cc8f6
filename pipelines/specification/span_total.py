"""Total privacy loss of a span, and days' shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpops.claims import NOISE_CLAIMS, Accounting
from transforms.releases import DayShare, DayShares
from transforms.time.calendar import WEEKDAYS, FirstDays, Timetable, Weekday

ONE = Fraction(1)


@dataclass(frozen=True)
class SpanTotal:
    """Total of consecutive days; delta None for pure privacy.

    parts: maximum of a span's sum of shares, in units of the largest share. shares: of weekdays from Monday, relative
    to the largest; empty if uniform. first: the account's first days. ordinary: largest relative share of any later
    day.
    """

    days: int
    parts: Fraction
    epsilon: Fraction
    delta: Fraction | None
    shares: tuple[Fraction, ...] = ()
    first: FirstDays | None = None
    ordinary: Fraction = ONE
    accounting: Accounting = "zcdp"

    @classmethod
    def of(
        cls,
        days: int,
        timetable: Timetable,
        weights: Mapping[Weekday, Fraction],
        total: tuple[Fraction, Fraction | None],
        first: FirstDays | None = None,
        accounting: Accounting = "zcdp",
    ) -> "SpanTotal":
        """Divides a total. weights: of weekdays, default 1. total: epsilon, delta of the span."""
        every = {weekday: weights.get(weekday, ONE) for weekday in WEEKDAYS}
        ordinary = largest = max(every[weekday] for weekday in timetable.weekdays)
        if first is not None:
            early = first.weekdays.intersection(timetable.weekdays)
            largest = max(ordinary, *(first.times * every[weekday] for weekday in early))
        shares = {weekday: weight / largest for weekday, weight in every.items()}
        is_uniform = first is None and all(shares[weekday] == 1 for weekday in timetable.weekdays)
        parts, by_weekday = timetable.heaviest(days, shares, first), () if is_uniform else (*shares.values(),)
        return cls(days, parts, *total, by_weekday, first, ordinary / largest, accounting)

    def of_a_day(self, part: Fraction = ONE) -> tuple[Fraction, Fraction | None]:
        """Computes a day's epsilon, and with delta its rho; epsilon then rounded up.

        part: relative to the largest share.
        """
        if self.delta is None:
            return part * self.epsilon / self.parts, None
        share = NOISE_CLAIMS[self.accounting].within(self.epsilon, self.delta).times(part / self.parts)
        return self.epsilon if part == self.parts else share.approx(self.delta).epsilon, share.rho

    @property
    def least(self) -> Fraction:
        """The smallest share of a day, relative to the largest."""
        return min(self.shares, default=ONE) * (ONE if self.first is None else min(self.first.times, ONE))

    @property
    def by_day(self) -> DayShares | None:
        """Shares of each day; None if all are equal."""
        if not self.shares:
            return None
        first = () if self.first is None else tuple(self.first.times * part for part in self.shares)
        ordinary, early = ([DayShare(part, self.of_a_day(part)[0]) for part in parts] for parts in (self.shares, first))
        return DayShares(ordinary, early, self.first)
