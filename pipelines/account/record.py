"""Verified ledger record of a specification, and missing slots."""

from typing import NamedTuple

from pipelines.specification import Specification
from transforms.ledger import Ledger
from transforms.recorded.stage_plan import is_complete
from transforms.time.calendar import Calendar


class LedgerRecord(NamedTuple):
    """Verified ledger. newest: hash of the specification's newest release, audit events aside."""

    newest: str
    is_signed: bool
    signatures: str
    head: str


def walked(book: Ledger, spec: Specification) -> LedgerRecord:
    """Verifies the ledger and returns its record. Raises LedgerError if it is damaged."""
    verified = book.verify()
    periods = {spent.period for spent in book.spent(spec.account.name)}
    newest = max((book.last_of(spec.spec_id, period) for period in periods), default=0)
    entry = book.hash_of(newest).partition(".")[0] if newest else ""
    return LedgerRecord(entry, verified.checked == verified.entries, verified.said(), book.head_said())


class Gap(NamedTuple):
    """Due slot without a complete release, in ISO times."""

    period: str
    slot_start: str
    slot_end: str
    shards: tuple[int, ...]


def is_due(spec: Specification, slot_s: int, now_s: int) -> bool:
    """Checks whether a slot and its allowed lateness ended."""
    return slot_s + spec.timetable.slot_s + spec.input.allowed_lateness_s <= now_s


def gaps(spec: Specification, calendar: Calendar, ledger: Ledger, now_s: int) -> list[Gap]:
    """Lists missing slots of a range that are due at `now_s`. Raises AccountRefusal."""
    if spec.is_learned:
        stages = ledger.stages(spec.account.name, spec.spec_id)
        recorded = {(slot.start_s, 0) for slot in calendar.slots if is_complete(stages, slot.period)}
    else:
        recorded = ledger.recorded_slots(spec.account.name, spec.spec_id, calendar.from_s, calendar.to_s)
    missing = []
    for slot in calendar.slots:
        lacking = tuple(shard for shard in range(spec.privacy.release_shards) if (slot.start_s, shard) not in recorded)
        if lacking and is_due(spec, slot.start_s, now_s):
            start, end = (spec.timetable.text(edge) for edge in (slot.start_s, slot.start_s + calendar.slot_s))
            missing.append(Gap(slot.period, start, end, lacking))
    return missing
