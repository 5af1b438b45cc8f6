"""What the ledger keeps of a release: every plan and noisy integer of a slot and release shard, and what they cost."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from dpops.accountant import Accountant
from dpops.allocation import Scope
from dpops.claims import Claim, claim_of
from transforms.public import EntryNumber

LIVE_SHARD = -1
"""Stands in the place of a release shard where a slot is released live; a period's stages have others."""
LEVELS = "levels"
"""The mechanism of a period's stages."""


Transaction = Literal["period", "slot"]
"""What the ledger records in one transaction."""


class Released(msgspec.Struct, frozen=True, gc=False):
    """One statistic of one HAT: its whole public plan and its noisy integers; both null where there is no data."""

    cell: str
    statistic: str
    mechanism: str
    plan: dict[str, Any] | None
    integers: list[int] | None


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """All that is released of one slot and release shard: what the ledger keeps and publishing reads.

    slot_start, slot_end: ISO 8601 with the zone's offset. epsilon_hat, epsilon_slot: rational text, of each HAT and
    the most that any vehicle spends in the slot. digest: keyed, of the input, for the operator alone. scope: what was
    planned, and is sealed, together. debit: what the account is debited, where that is not epsilon_slot: with scope
    "period" the first slot stands for all, with "stage" the unit is one look at a period, numbered by `shard`, and
    with "live" it is a look at one slot before its period's stages, of shard `LIVE_SHARD`.
    epsilon_total: what the plan allows a vehicle in the whole period, where the specification gives a total.
    """

    spec_id: str
    period: str
    slot_s: int
    slot_start: str
    slot_end: str
    shard: int
    epsilon_hat: str
    epsilon_slot: str
    unit: str
    released: list[Released]
    digest: str
    scope: Scope | Literal["stage", "live"] = "slot"
    debit: str | None = None
    epsilon_total: str | None = None

    @property
    def is_of_whole_period(self) -> bool:
        """Whether it was planned, and is debited and sealed, together with all slots of its period."""
        return self.scope == "period"

    @property
    def is_stage(self) -> bool:
        """Whether it is one look at a whole period, in which every vehicle takes part once."""
        return self.scope == "stage"

    @property
    def is_live(self) -> bool:
        """Whether it is a look at one slot of a period of which stages will follow; both spend of one total."""
        return self.scope == "live"


class Sequenced(NamedTuple):
    """A recorded unit and its sequence number in the ledger."""

    sequence: EntryNumber
    unit: Sealed


def counted(entries: Sequence[Sequenced]) -> dict[EntryNumber, int]:
    """Of each sequence number, the place of its entry among a specification's stages: 1, 2, .. ; of 0, no entry, 0.

    entries: all of the specification, in the order of the ledger. Sequence numbers count audit events too, which say
    whether an input is the same as before: places are public, sequence numbers are for the operator alone.
    """
    return {EntryNumber(0): 0} | {entry.sequence: at for at, entry in enumerate(entries, 1)}


class Spending(msgspec.Struct, frozen=True):
    """The part of an encoded Sealed that says what it spends; decoding skips the rest."""

    spec_id: str
    slot_s: int
    shard: int
    epsilon_hat: str
    epsilon_slot: str
    debit: str | None = None


SpecSlot = tuple[str, int, bool]
"""A specification's id, the start of a slot, and whether it is the slot's live release: that has a debit of its own."""


def debit_of(unit: Sealed | Spending) -> str:
    """What the account is debited for a unit, as `dpops.claims.claim_of` reads it."""
    return unit.epsilon_slot if unit.debit is None else unit.debit


class Debit(NamedTuple):
    """What one unit asks of the account. unit: its specification, slot and shard."""

    unit: tuple[str, int, int]
    claim: Claim


def debit(unit: Sealed | Spending) -> Debit:
    return Debit((unit.spec_id, unit.slot_s, unit.shard), claim_of(debit_of(unit)))


def debits_by_slot(debits: Iterable[Debit]) -> dict[SpecSlot, Accountant]:
    """Debit per (specification, slot), live ones apart: a slot's shards share the largest."""
    found: dict[SpecSlot, Accountant] = {}
    for (spec_id, slot_s, shard), claim in debits:
        mine, key = Accountant().compose([claim]), (spec_id, slot_s, shard == LIVE_SHARD)
        found[key] = mine.largest(found.get(key, Accountant()))
    return found
