"""What vehicles spent in a period: exact where one run recorded all of it, and kept in the ledger for later runs."""

from collections.abc import Sequence
from fractions import Fraction

from dpops.accountant import Accountant
from pipelines.account.guarantee import Loss, loss_of
from pipelines.outcome import Outcome, Spend
from pipelines.specification import Specification
from transforms.ledger import Ledger, Spent


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
    limit, spent = ledger.limit(spec.account.name, spec.account.limit), ledger.spent(spec.account.name, period)
    total = sum((by.debited for by in spent), Accountant())
    debits = loss_of(total, limit)
    noted = ledger.noted(spec.account.name, spec.spec_id, period)
    if noted is None or noted.pop("units") != str(_units(spent, spec)):
        return debits, None
    return debits, Spend(**{name: Fraction(value) for name, value in noted.items()})


def _units(spent: Sequence[Spent], spec: Specification) -> int | None:
    """Counts the units that are recorded of a period; None if the account has some of another specification."""
    if {by.spec_id for by in spent} - {spec.spec_id}:
        return None
    return sum(by.units for by in spent) * spec.privacy.release_shards
