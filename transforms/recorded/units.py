"""Units of the ledger: HATs, stages, or live slots."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from dpops.accountant import Accountant
from dpops.claims import Claim, PureDP
from dpops.types import Scope
from transforms.public import EntryNumber

Transaction = Literal["range", "period", "slot"]  # what the ledger records in one transaction


UnitScope = Scope | Literal["stage", "live"]
"""What was planned at once: HATs of a slot or of a whole period, a stage of a period, or a slot that is live."""
VECTOR = "levels"  # the mechanism of stages and live slots


class Released(msgspec.Struct, frozen=True, gc=False):
    """A HAT's public plan and noisy integers, perhaps null."""

    cell: str
    statistic: str
    mechanism: str
    plan: dict[str, Any] | None
    integers: list[int] | None


class UnitKey(NamedTuple):
    """Key of a unit in the ledger."""

    spec_id: str
    slot_s: int
    shard: int | None  # of HATs or of stages; None for a live slot


class _Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Facts common to all units."""

    spec_id: str
    period: str
    slot_s: int
    slot_start: str  # ISO 8601 with offset
    slot_end: str
    unit: str
    digest: str  # keyed digest of the input, for the operator alone
    debit: Claim
    total: Claim | None = None  # a vehicle's total in the period
    is_live: ClassVar[bool] = False


class HatUnit(_Unit, frozen=True, kw_only=True):
    """HATs of a slot and shard."""

    shard: int
    per_hat: PureDP
    spent: PureDP
    released: list[Released]
    is_of_whole_period: bool = False  # debited once for all slots of its period

    @property
    def key(self) -> UnitKey:
        """Key of the unit."""
        return UnitKey(self.spec_id, self.slot_s, self.shard)

    @property
    def scope(self) -> UnitScope:
        """Scope of the debit: a slot or period."""
        return "period" if self.is_of_whole_period else "slot"


class _VectorUnit(_Unit, frozen=True, kw_only=True):
    """Noisy sum of all vehicles' vectors, with its plan."""

    plan: dict[str, Any]
    integers: list[int]
    is_of_whole_period: ClassVar[bool] = False  # a stage is debited as its period's first slot

    @property
    def per_hat(self) -> Claim | None:
        """Claim of the vector, which its HATs share."""
        return self.debit

    @property
    def spent(self) -> Claim | None:
        """Maximum spending of a vehicle in the vector's HATs."""
        return self.per_hat

    @property
    def released(self) -> list[Released]:
        """The vector, as a HAT of no cell."""
        return [Released(cell="", statistic="mean", mechanism=VECTOR, plan=self.plan, integers=self.integers)]


class StageUnit(_VectorUnit, frozen=True, kw_only=True):
    """Stage of a period, in which vehicles participate once."""

    stage: int
    scope: ClassVar[UnitScope] = "stage"

    @property
    def per_hat(self) -> Claim | None:
        """The total of the period: its stages share it."""
        return self.total

    @property
    def key(self) -> UnitKey:
        """Key of the unit."""
        return UnitKey(self.spec_id, self.slot_s, self.stage)


class LiveUnit(_VectorUnit, frozen=True, kw_only=True):
    """Live slot, which shares the total of later stages."""

    scope: ClassVar[UnitScope] = "live"
    is_live: ClassVar[bool] = True

    @property
    def key(self) -> UnitKey:
        """Key of the unit."""
        return UnitKey(self.spec_id, self.slot_s, shard=None)


Unit = HatUnit | StageUnit | LiveUnit


class DebitGroup(NamedTuple):
    """Key of the units that share a debit."""

    spec_id: str
    period: str
    slot_s: int | None  # None where the period is debited at once
    is_live: bool

    @classmethod
    def of(cls, unit: Unit) -> "DebitGroup":
        """Makes the key of a unit's debit."""
        slot_s = None if unit.is_of_whole_period else unit.slot_s
        return cls(unit.spec_id, unit.period, slot_s, unit.is_live)


_OfKind = TypeVar("_OfKind", bound=Unit)
_Kept = TypeVar("_Kept", bound=Unit, covariant=True)


class Sequenced(NamedTuple, Generic[_Kept]):
    """A recorded unit with its sequence number."""

    sequence: EntryNumber
    unit: _Kept


StageEntry = Sequenced[StageUnit]
LiveEntry = Sequenced[LiveUnit]


def counted(entries: Sequence[StageEntry]) -> dict[EntryNumber, int]:
    """Numbers a specification's stages from 1; 0: no entry.

    Ordinals are public. Sequence numbers, which count audit events too, are for the operator alone.
    """
    return {EntryNumber(0): 0} | {entry.sequence: index for index, entry in enumerate(entries, 1)}


def all_of(kind: type[_OfKind], units: Iterable[Unit]) -> list[_OfKind]:
    """Checks that units are of one kind. Raises TypeError."""
    checked: list[_OfKind] = []
    for unit in units:
        if not isinstance(unit, kind):
            raise TypeError(f"a unit is no {kind.__name__} but a {type(unit).__name__}")
        checked.append(unit)
    return checked


class Debit(NamedTuple):
    """Debit of one unit."""

    unit: UnitKey
    claim: Claim


SpecSlot = tuple[str, int, bool]
"""A specification's id, the start of a slot, and whether it is the slot's live release: that has a debit of its own."""


def debits_by_slot(debits: Iterable[Debit]) -> dict[SpecSlot, Accountant]:
    """Computes debits per slot: the maximum over its shards."""
    largest: dict[SpecSlot, Accountant] = {}
    for unit, claim in debits:
        slot = unit.spec_id, unit.slot_s, unit.shard is None  # None: a live slot, whose debit stands beside a stage's
        largest[slot] = Accountant().compose([claim]).largest(largest.get(slot, Accountant()))
    return largest
