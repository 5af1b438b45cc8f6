"""What the ledger proves of a specification's releases, once it was walked."""

from typing import NamedTuple

from pipelines.specification import Specification
from transforms.ledger import Ledger


class LedgerRecord(NamedTuple):
    """A ledger that was found whole.

    newest: hash of the specification's newest release, which tells all entries before it and is the same whatever audit
    events follow; empty where nothing was released. is_signed: the signatures of all entries were compared;
    signatures: that in words, of those that there are. head: what the head file shows, in words.
    """

    newest: str
    is_signed: bool
    signatures: str
    head: str


def walked(book: Ledger, spec: Specification) -> LedgerRecord:
    """Walks the ledger before anything else of it is read. Raises LedgerError where it is not whole."""
    verified = book.verify()
    periods = {spent.period for spent in book.spent(spec.account.name)}
    newest = max((book.last_of(spec.spec_id, period) for period in periods), default=0)
    entry = book.hash_of(newest).partition(".")[0] if newest else ""
    return LedgerRecord(entry, verified.checked == verified.entries, verified.said(), book.head_said())
