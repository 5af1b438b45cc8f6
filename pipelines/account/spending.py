"""What vehicles spent in a period: exact where one run recorded all of it, and kept in the ledger for later runs."""

from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction

from dpops.accountant import Accountant
from pipelines.account.guarantee import Loss, SpanBound, loss_of
from pipelines.outcome import Outcome, Spend
from pipelines.specification import Specification
from transforms.ledger import Ledger, Spent
from transforms.recorded.units import Debit, UnitKey


def note_spending(ledger: Ledger, spec: Specification, outcome: Outcome) -> None:
    """Keeps what vehicles spent in the periods of which this run recorded all that the account has.

    Only where counts are public: what the busiest vehicle spent follows from them. An outcome without what was spent is
    of a release in which every vehicle may spend the total.
    """
    if not spec.counts_are_public or not outcome.spent:
        return
    for period, new in outcome.new.items():
        units = _units(ledger.spent(spec.account.name, period), spec)
        if units is not None and units == new:
            spend = {name: str(value) for name, value in outcome.spent[period]._asdict().items()}
            ledger.note(spec.account.name, spec.spec_id, period, spend | {"units": str(units)})


def spending(ledger: Ledger, spec: Specification, period: str) -> tuple[Loss, Spend | None]:
    """Adds up the debits of a period on the account; tells exactly what vehicles spent, if that was noted and nothing
    came after."""
    limit, spent = ledger.limit(spec.account.name), ledger.spent(spec.account.name, period)
    total = sum((by.debited for by in spent), Accountant())
    debits = loss_of(total, limit)
    noted = ledger.noted(spec.account.name, spec.spec_id, period)
    if noted is None or noted.pop("units") != str(_units(spent, spec)):
        return debits, None
    return debits, Spend(**{name: Fraction(value) for name, value in noted.items()})


def fits_again(ledger: Ledger, spec: Specification, bounds: Sequence[SpanBound]) -> str | None:
    """Finds the first day after all windows over a limit of which the least that the specification asks fits.

    Returns:
        The day; None where no window is over a limit, the unit is no day, or no such day comes.
    """
    ends = [date.fromisoformat(bound.since) + timedelta(days=bound.days - 2) for bound in bounds if bound.since]
    if not ends or spec.account.unit != "vehicle-day":
        return None
    days = [(max(ends) + timedelta(days=step)).isoformat() for step in range(1, bounds[-1].days + 1)]
    asked = Debit(UnitKey(spec.spec_id, 0, 0), spec.least[0])
    refused = ledger.excess(spec.account.name, spec.account.limit, {day: [asked] for day in days})
    return next((day for day in days if day not in refused), None)


def _units(spent: Sequence[Spent], spec: Specification) -> int | None:
    """Counts the units that are recorded of a period; None if the account has some of another specification."""
    if {by.spec_id for by in spent} - {spec.spec_id}:
        return None
    return sum(by.units for by in spent) * spec.privacy.release_shards
