"""What somebody who drives on many days gives away: an account's spending over days in a row, by the accountant."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from typing import NamedTuple

from dpops.accountant import Accountant, Limit
from dpops.claims import ApproxDP
from dpops.loss import chance_beyond

DAYS = (1, 7, 30)
_WEEK = 7


class Cost(NamedTuple):
    """Cost of a vehicle that drives on so many days in a row, alike on each. chance: as `Loss` has it."""

    days: int
    total: ApproxDP
    chance: float = 0.0

    @property
    def chance_said(self) -> str:
        return said(self.chance)


def costs(unit: str, limit: Limit, by_period: Mapping[str, Accountant], days: Sequence[int] = DAYS) -> list[Cost]:
    """Says what so many days in a row cost. unit: of the account. by_period: what was debited; the dearest period
    stands for each."""
    dearest = Accountant()
    for total in by_period.values():
        dearest = dearest.largest(total)
    return [_cost(many, Accountant().compose(dearest.claims() * periods_in(unit, many)), limit) for many in days]


def _cost(days: int, spent: Accountant, limit: Limit) -> Cost:
    total = limit.shown(spent)
    return Cost(days, total, chance_beyond(total.epsilon, spent))


def periods_in(unit: str, days: int) -> int:
    """Counts the periods that so many days in a row touch at most."""
    if unit == "vehicle-ever":
        return 1
    return days if unit == "vehicle-day" else (days + _WEEK - 2) // _WEEK + 1


def said(chance: float) -> str:
    """Writes a chance with two digits, rounded up."""
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(chance)):g}"
