"""Ledger: accounts, debits and releases, chained by hashes.

Submodules are imported on use: a process that only draws needs no database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transforms.ledger.head import LedgerError
    from transforms.ledger.ledger import Ledger
    from transforms.ledger.spending import Account, AccountRefusal, LimitExceeded, PeriodClosed, Spent

__all__ = [
    "Account",
    "AccountRefusal",
    "Ledger",
    "LedgerError",
    "LimitExceeded",
    "PeriodClosed",
    "Spent",
]

_NAMES = {
    "head": "LedgerError",
    "ledger": "Ledger",
    "spending": "Account AccountRefusal LimitExceeded PeriodClosed Spent",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"transforms.ledger.{_WHERE[name]}"), name)
