"""Units of the ledger and their text, compatible with old ledgers.

A stage is written as a HAT without cell and a live slot as release shard -1; no other module knows that. `column`: what
the ledger's column `shard` has: a release shard, a stage's number, or LIVE_COLUMN.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from dpops.accountant import Accountant
from dpops.claims import Claim, PureDP, claim_of
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
    """Maps entries' sequence numbers to their ordinals from 1; 0, no entry, to 0.

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
        # All stages of a period have its first slot and its whole debit each: the maximum takes that once.
        slot = unit.spec_id, unit.slot_s, unit.shard is None  # None: a live slot, whose debit is added to the stages'
        largest[slot] = Accountant().compose([claim]).largest(largest.get(slot, Accountant()))
    return largest


LIVE_COLUMN = -1  # stands in the ledger's column of shards where a slot is released live


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Stored form of a unit, fixed for old ledgers; claims are text."""

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
    scope: UnitScope = "slot"
    debit: str | None = None  # null where it is epsilon_slot
    epsilon_total: str | None = None


def encode(unit: Unit) -> bytes:
    """Encodes the unit as JSON, equal in all versions."""
    stored = Stored(
        **_shared_fields(unit),
        shard=column_of(unit.key),
        epsilon_hat=str(unit.per_hat),
        epsilon_slot=str(unit.spent),
        released=unit.released,
        scope=unit.scope,
        debit=None if unit.scope == "slot" and unit.debit == unit.spent else str(unit.debit),  # None: as old ledgers do
        epsilon_total=None if unit.total is None else str(unit.total),
    )
    return msgspec.json.encode(stored)


def decode(data: bytes | str) -> Unit:
    """Decodes a unit. Raises msgspec.MsgspecError or ValueError."""
    stored = msgspec.json.decode(data, type=Stored)
    try:
        total = None if stored.epsilon_total is None else claim_of(stored.epsilon_total)
        debit = stored.epsilon_slot if stored.debit is None else stored.debit  # None: it is what the slot spends
        facts = _shared_fields(stored) | {"debit": claim_of(debit), "total": total}
        if stored.scope in ("slot", "period"):
            epsilons = {"per_hat": PureDP(Fraction(stored.epsilon_hat)), "spent": PureDP(Fraction(stored.epsilon_slot))}
            facts |= epsilons | {"is_of_whole_period": stored.scope == "period"}
            return HatUnit(**facts, shard=stored.shard, released=stored.released)
    except ArithmeticError:
        raise ValueError("a claim is no number") from None
    (released,) = stored.released  # a stage or live slot is stored as one HAT
    if released.mechanism != VECTOR or released.plan is None or released.integers is None:
        raise ValueError("a stage or live slot has a plan and integers of levels")
    facts |= {"plan": released.plan, "integers": released.integers}
    return StageUnit(stage=stored.shard, **facts) if stored.scope == "stage" else LiveUnit(**facts)


def key_of(spec_id: str, slot_s: int, column: int) -> UnitKey:
    """Makes a unit's key from the ledger's columns."""
    return UnitKey(spec_id, slot_s, shard=None if column == LIVE_COLUMN else column)


def column_of(key: UnitKey) -> int:
    """Returns the value of the ledger's column of shards."""
    return LIVE_COLUMN if key.shard is None else key.shard


def _shared_fields(either: Unit | Stored) -> dict[str, Any]:
    """Copies the fields that both forms of units share."""
    names = ("spec_id", "period", "slot_s", "slot_start", "slot_end", "unit", "digest")
    return {name: getattr(either, name) for name in names}
