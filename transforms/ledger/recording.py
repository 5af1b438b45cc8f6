"""The ledger as releases use it, and recording units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpops.accountant import Limit
from transforms import counters
from transforms.counters import Count
from transforms.errors import reason_of, recorded_but
from transforms.recorded.units import Unit, column_of, decode
from transforms.records import RecordedSlot

if TYPE_CHECKING:
    from transforms.ledger.chain import Signature
    from transforms.ledger.ledger import Ledger


@dataclass(frozen=True)
class LedgerAccount:
    """Ledger, account and specification that units are recorded under."""

    url: str = field(repr=False)  # may hold a password
    head: Path
    name: str
    limit: Limit
    spec_name: str
    spec_text: str
    signature: "Signature | None" = None
    unattended: bool = False  # also stops where a period stopped another run

    def open(self) -> "Ledger":
        """Opens the ledger."""
        from transforms.ledger.ledger import Ledger  # who opens none needs no database

        return Ledger(self.url, self.head, self.signature)


def decoded(units: Iterable[bytes]) -> list[Unit]:
    """Decodes a transaction's units, in the order of recording."""
    return sorted(map(decode, units), key=lambda unit: (unit.slot_s, column_of(unit.key)))


def record_units(units: Sequence[Unit], account: LedgerAccount, count: Count) -> list[RecordedSlot]:
    """Records a period's units in one transaction.

    Returns slots as the ledger has them, none if refused. Raises LedgerError, or StepError for the head file.
    """
    from transforms.ledger.spending import LimitExceeded, PeriodClosed  # who records nothing needs no database

    try:
        record = account.open().record(account.name, account.limit, account.spec_name, account.spec_text, units)
    except LimitExceeded:
        count(counters.UNITS_LOST, len(units))
        return []
    except PeriodClosed:
        count(counters.MISSED, len(units))
        return []
    except OSError as error:  # of the head file, written after the commit: units are recorded, not published
        raise recorded_but(f"{error.filename or account.head}: {reason_of(error)}") from None
    by_slot: dict[int, RecordedSlot] = {}
    for unit, sequence in zip(record.units, record.sequences, strict=True):
        slot = by_slot.setdefault(unit.slot_s, RecordedSlot(units=[], sequences=[]))
        slot.units.append(unit)
        slot.sequences.append(sequence)
    count(counters.NEW + record.units[0].period, record.new)  # a counter per period
    count(counters.UNITS_CHANGED, record.changed)
    count(counters.UNITS_REDRAWN, record.redrawn)
    return list(by_slot.values())
