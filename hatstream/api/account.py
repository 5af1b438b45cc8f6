"""Public facts of a specification and its account's ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from dpops.accountant import DeltaLimit, Limit
from pipelines.account import guarantee as guarantees
from pipelines.account import location
from pipelines.account.location import AccountLocation
from pipelines.inputs import range_of
from pipelines.job import value_meaning
from pipelines.runs.estimates import answer_afterwards
from pipelines.specification import Specification
from transforms.sinks.published import COLUMNS, ResultColumn


@dataclass(frozen=True, kw_only=True)
class AccountReport:
    """Guarantee, spending and missing slots of a verified ledger.

    guarantee: one sentence. spent: privacy loss by period over all claims. limit: the one in force. bounds: of losses
    in spans of days. record: newest release, signatures, head. costs: of days in a row; standing: of daily presence at
    one place of a map. slots: number in the requested dates; gaps: due ones among them that are not fully released.
    """

    spec: Specification
    place: AccountLocation
    guarantee: str
    spent: Mapping[str, guarantees.Loss]
    limit: Limit
    bounds: Sequence[guarantees.SpanBound]
    record: guarantees.LedgerRecord
    costs: Sequence[guarantees.Cost]
    standing: Sequence[guarantees.Cost]
    slots: int
    gaps: Sequence[guarantees.Gap]

    @property
    def most(self) -> guarantees.Loss:
        """Privacy loss of the period with the largest spending."""
        return max(self.spent.values(), default=guarantees.Loss())

    @property
    def has_delta(self) -> bool:
        """Whether a limit has a delta."""
        return any(isinstance(bound.limit, DeltaLimit) for bound in self.bounds)

    def usable(self, hats: pa.Table, days: pa.Table) -> str:
        """Describes which rows of HATs and of places' days are usable."""
        return answer_afterwards(self.spec, self.place, hats, days)

    @classmethod
    def read(
        cls,
        spec: Specification,
        place: AccountLocation | str,
        dates: tuple[str, str] | None = None,
        days: Sequence[int] = guarantees.DAYS,
    ) -> "AccountReport":
        """Verifies a ledger and reports its account.

        Raises UsageError for dates that are no range, and LedgerError for a ledger that is missing or not intact.

        Args:
            place: Location of the account, from the option `account`; or its ledger, with the key beside it.
            dates: First and last local date of the slots to check, or ISO times on slot edges; None checks no slot.
            days: Numbers of consecutive days whose costs are reported.
        """
        calendar = range_of(spec.timetable, *dates) if dates else None
        place = location.find(place, key=None) if isinstance(place, str) else place
        book = place.read()
        record = guarantees.verify_record(book, spec)
        limit, by_period = book.limit(spec.account.name), book.debited(spec.account.name)
        bounds = guarantees.span_bounds(limit, by_period)
        spent = {period: guarantees.loss_of(total, limit) for period, total in by_period.items()}
        largest_loss, now_s = max(spent.values(), default=guarantees.Loss()), int(datetime.now(UTC).timestamp())
        return cls(
            spec=spec,
            place=place,
            guarantee=guarantees.sentence(spec, bounds, hat=spec.privacy.allocation.epsilon, spent=largest_loss),
            spent=spent,
            limit=limit,
            bounds=bounds,
            record=record,
            costs=guarantees.costs(spec.account.unit, limit, by_period, days) if by_period else [],
            standing=guarantees.costs_at_places(spec, bounds),
            slots=len(calendar.slots) if calendar else 0,
            gaps=guarantees.gaps(spec, calendar, book, now_s) if calendar else [],
        )


def result_columns(spec: Specification) -> Mapping[str, ResultColumn]:
    """Returns a specification's possible result columns, by name.

    Each has an Arrow type (`kind`), `presence`, `unit` and `meaning`.

    >>> from hatstream.api import load
    >>> result_columns(load("examples/hourly-means.toml"))["lower95"].unit
    'column unit'
    """
    proved = "end of the interval that holds the true value with a probability of 95 % or more"
    learned = "end of an interval that about 95 % of the rows with status ok, and fewer of others, have the truth in"
    words = {  # that fill the braces in the columns' meanings
        "value": value_meaning(spec),
        "interval": learned if spec.is_learned else proved,
        "learned": learned,
        "resolution": spec.cells.resolution,
    }
    return {column.name: column._replace(meaning=column.meaning.format(**words)) for column in COLUMNS}
