"""What a vehicle spends over a span of days, and what each released day has of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpops.claims import ZCDP, rho_within
from transforms.releases.slots import DayShare
from transforms.time.calendar import WEEKDAYS, Timetable, Weekday

ONE = Fraction(1)


@dataclass(frozen=True)
class SpanTotal:
    """The total of any so many consecutive days; delta None where it is pure.

    parts: how many times the share of the day with the largest one all that are released have together, at most; the
    days' number where all have the same. shares: of the weekdays from Monday on, as parts of the largest; none where
    all have the same.
    """

    days: int
    parts: Fraction
    epsilon: Fraction
    delta: Fraction | None
    shares: tuple[Fraction, ...] = ()

    @classmethod
    def of(
        cls,
        days: int,
        timetable: Timetable,
        weights: Mapping[Weekday, Fraction],
        total: tuple[Fraction, Fraction | None],
    ) -> "SpanTotal":
        """weights: of weekdays, 1 where there is none. total: epsilon, delta of so many days."""
        every = {weekday: weights.get(weekday, ONE) for weekday in WEEKDAYS}
        most = max(every[weekday] for weekday in timetable.weekdays)
        shares = {weekday: weight / most for weekday, weight in every.items()}
        alike = all(shares[weekday] == 1 for weekday in timetable.weekdays)
        return cls(days, timetable.heaviest(days, shares), *total, shares=() if alike else (*shares.values(),))

    def of_a_day(self, part: Fraction = ONE) -> tuple[Fraction, Fraction | None]:
        """Computes a day's share: its epsilon (with delta at the same delta, rounded up), and with delta its rho.

        part: of the largest share.
        """
        if self.delta is None:
            return part * self.epsilon / self.parts, None
        rho = part * rho_within(self.epsilon, self.delta) / self.parts
        return self.epsilon if part == self.parts else ZCDP(rho).approx(self.delta).epsilon, rho

    def by_weekday(self) -> tuple[DayShare, ...]:
        """Lists the shares of the weekdays from Monday on; none where all days have the same."""
        return tuple(DayShare(part, self.of_a_day(part)[0]) for part in self.shares)
