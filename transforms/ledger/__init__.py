"""The ledger: accounts, debits and releases, written once, chained by hash."""

from transforms.ledger.accounts import Account, AccountRefusal, LimitExceeded, PeriodClosed
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.releases import Audit, Recorded
from transforms.ledger.spending import Spent

__all__ = [
    "Account",
    "AccountRefusal",
    "Audit",
    "Ledger",
    "LedgerError",
    "LimitExceeded",
    "PeriodClosed",
    "Recorded",
    "Spent",
]
