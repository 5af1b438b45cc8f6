"""The ledger: accounts, debits and releases, written once, chained by hash."""

from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Account, AccountRefusal, Audit, Ledger, LimitExceeded, Recorded, Spent

__all__ = ["Account", "AccountRefusal", "Audit", "Ledger", "LedgerError", "LimitExceeded", "Recorded", "Spent"]
