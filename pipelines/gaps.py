"""Which slots of a specification's timetable the ledger has no release of."""

from typing import NamedTuple

from pipelines.spec import Specification
from transforms.calendar import Calendar
from transforms.ledger import Ledger


class Gap(NamedTuple):
    """A slot that is over and not released whole. slot_start, slot_end: ISO 8601, as `--from` and `--to` take them.

    shards: the release shards that are missing.
    """

    period: str
    slot_start: str
    slot_end: str
    shards: tuple[int, ...]


def gaps(spec: Specification, when: Calendar, ledger: Ledger, now_s: int) -> list[Gap]:
    """The missing slots of a range that are over at `now_s`. Raises AccountRefusal for an account it does not know."""
    sealed = ledger.sealed(spec.account.name, spec.spec_id, when.from_s, when.to_s)
    found = []
    for slot in when.slots:
        lacking = tuple(shard for shard in range(spec.release_shards) if (slot.start_s, shard) not in sealed)
        end_s = slot.start_s + when.slot_s
        if lacking and end_s <= now_s:
            found.append(Gap(slot.period, spec.timetable.text(slot.start_s), spec.timetable.text(end_s), lacking))
    return found
