"""The ledger that a release uses, as its steps carry it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpops.accountant import Limit

if TYPE_CHECKING:
    from transforms.ledger import Ledger
    from transforms.ledger.chain import Signature


@dataclass(frozen=True)
class LedgerAccount:
    """Where and under which account a specification's slots are recorded.

    unattended: whether a period that stopped a run stops this one too: only a run that somebody looks at goes on.
    """

    url: str = field(repr=False)  # may hold a password
    head: Path
    name: str
    limit: Limit
    spec_name: str
    spec_text: str
    signature: "Signature | None" = None
    unattended: bool = False

    def open(self) -> "Ledger":
        from transforms.ledger import Ledger  # who opens none needs no database

        return Ledger(self.url, self.head, self.signature)
