"""Ledgers that are wrong about a limit of several days, each in one way: what must find that out is tried on them."""

from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from dpops.accountant import Accountant, Limit
from transforms.ledger import spending
from transforms.ledger.ledger import Ledger
from transforms.recorded.units import Debit
from transforms.time.calendar import Timetable

Wrong = Callable[[pytest.MonkeyPatch], object]


def midnight(day: date, zone: ZoneInfo) -> float:
    return Timetable(zone.key, "vehicle-day", 60).midnight(day).timestamp()


def knows_days_alone(patch: pytest.MonkeyPatch) -> None:
    _with_windows(patch, lambda day, _: [day])


def counts_by_month(patch: pytest.MonkeyPatch) -> None:
    _with_windows(
        patch, lambda day, _: [day.replace(day=index + 1) for index in range(monthrange(day.year, day.month)[1])]
    )


def counts_by_year(patch: pytest.MonkeyPatch) -> None:
    whole = spending._around

    def around(periods: list[str], days: int) -> list[str]:
        return [day for day in whole(periods, days) if any(day[:4] == period[:4] for period in periods)]

    def fits(debits: dict[str, list[Debit]], limit: Limit, period: str) -> bool:
        return all(
            span.limit.fits(_sum(debits, around([period], span.days)[: span.days])) for span in limit.spans
        ) and all(span.limit.fits(_sum(debits, around([period], span.days)[-span.days :])) for span in limit.spans)

    patch.setattr(spending, "_fits", fits)


def forgets_leap_days(patch: pytest.MonkeyPatch) -> None:
    def window(day: date, days: int) -> list[date]:
        return [earlier for step in range(days) if (earlier := day - timedelta(days=step)).strftime("%m-%d") != "02-29"]

    _with_windows(patch, window)


def counts_by_hours(patch: pytest.MonkeyPatch) -> None:
    """A window of 28 times 24 hours, in the zone of the test, that ends with the day."""
    zone = ZoneInfo("America/Chicago")

    def window(day: date, days: int) -> list[date]:
        end = midnight(day + timedelta(days=1), zone)
        return [
            earlier
            for step in range(days + 1)
            if end - midnight(earlier := day - timedelta(days=step), zone) <= days * 86_400
        ]

    _with_windows(patch, window)


def _with_windows(patch: pytest.MonkeyPatch, window: Callable[[date, int], list[date]]) -> None:
    def fits(debits: dict[str, list[Debit]], limit: Limit, period: str) -> bool:
        day = date.fromisoformat(period)
        days = {span: [inside.isoformat() for inside in window(day, span.days)] for span in limit.spans}
        days[limit.spans[0]] = [period]
        return all(span.limit.fits(_sum(debits, days[span])) for span in limit.spans)

    patch.setattr(spending, "_fits", fits)


def _sum(debits: dict[str, list[Debit]], days: list[str]) -> Accountant:
    return sum((spending._sum(debits.get(day, [])) for day in days), Accountant())


def counts_each_specification_alone(patch: pytest.MonkeyPatch) -> None:
    true = spending.periods_over

    def over(db: object, account: str, limit: Limit, wanted: dict[str, list[Debit]]) -> list[str]:
        spec_id = next(debit.unit.spec_id for debits in wanted.values() for debit in debits)
        whole = spending._debits_of
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                spending,
                "_debits_of",
                lambda *args: {
                    day: [debit for debit in debits if debit.unit.spec_id == spec_id]
                    for day, debits in whole(*args).items()
                },
            )
            return true(db, account, limit, wanted)

    patch.setattr(spending, "periods_over", over)


def looks_before_others_write(patch: pytest.MonkeyPatch) -> None:
    """What was seen of the account before the race is what it goes by."""
    patch.setattr(spending, "periods_over", lambda *_: [])


def forgets_its_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "_compare_with_head", lambda *_: True)
    patch.setattr(Ledger, "_home", lambda *_: None)
    patch.setattr("transforms.ledger.head.Head.advance", lambda *_: None)


def trusts_what_stands_in_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "verify_chain", lambda *_: None)


def lets_limits_rise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spending, "_lower", lambda _, asked: asked)
    patch.setattr(spending, "check_match", lambda *_: None)
    patch.setattr(spending, "limit_in_force", lambda _, __, asked: asked)
