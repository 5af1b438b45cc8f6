"""The ledger: accounts, debits and releases, written once, chained by hash.

What is in it is imported when it is asked for: a process that only draws opens no ledger, and needs no database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transforms.ledger.head import LedgerError
    from transforms.ledger.ledger import Ledger
    from transforms.ledger.releases import Audit, Recorded
    from transforms.ledger.spending import Account, AccountRefusal, LimitExceeded, PeriodClosed, Spent

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

_WHERE = {
    "Account": "spending",
    "AccountRefusal": "spending",
    "Audit": "releases",
    "Ledger": "ledger",
    "LedgerError": "head",
    "LimitExceeded": "spending",
    "PeriodClosed": "spending",
    "Recorded": "releases",
    "Spent": "spending",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"transforms.ledger.{_WHERE[name]}"), name)
