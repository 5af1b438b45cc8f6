"""What the ledger keeps of a release: one unit for each slot and shard of HATs, stage of a period, or live slot."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
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
    """One statistic of one HAT: its whole public plan and its noisy integers; both null where there is no data."""

    cell: str
    statistic: str
    mechanism: str
    plan: dict[str, Any] | None
    integers: list[int] | None


class UnitKey(NamedTuple):
    """Names a unit in the ledger. shard: of release shards or of stages; None of a live slot, which has one unit."""

    spec_id: str
    slot_s: int
    shard: int | None


class DebitGroup(NamedTuple):
    """Names the units that share a debit. slot_s: None where a period was planned, and is debited, as a whole."""

    spec_id: str
    period: str
    slot_s: int | None
    is_live: bool


class _Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that every unit has. slot_start, slot_end: ISO 8601 with the zone's offset.

    digest: keyed, of the input, for the operator alone. total: what the specification gives a vehicle in the whole
    period, where it gives a total. stands_for_period: whether it is recorded for all slots of its period.
    """

    spec_id: str
    period: str
    slot_s: int
    slot_start: str
    slot_end: str
    unit: str
    digest: str
    debit: Claim
    total: Claim | None = None
    stands_for_period: ClassVar[bool] = False


class HatUnit(_Unit, frozen=True, kw_only=True):
    """All HATs of a slot and shard. is_of_whole_period: the first slot of its period is debited for all."""

    shard: int
    per_hat: PureDP
    spent: PureDP
    released: list[Released]
    is_of_whole_period: bool = False

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.spec_id, self.slot_s, self.shard)

    @property
    def group(self) -> DebitGroup:
        return DebitGroup(self.spec_id, self.period, None if self.is_of_whole_period else self.slot_s, False)

    @property
    def scope(self) -> UnitScope:
        return "period" if self.is_of_whole_period else "slot"

    @property
    def rate(self) -> Fraction | None:
        """The epsilon of each HAT."""
        return self.per_hat.epsilon

    @property
    def draws(self) -> list[tuple[tuple[str, ...], dict[str, Any] | None]]:
        """What is drawn: places and names, each with its plan."""
        return [((released.cell, released.statistic, released.mechanism), released.plan) for released in self.released]

    @property
    def has_data(self) -> bool:
        """Whether any of its HATs has data."""
        return any(released.plan is not None for released in self.released)


class _VectorUnit(_Unit, frozen=True, kw_only=True):
    """The noisy sum of all vehicles' vectors. plan: public, as `transforms.recorded.stage_plan` reads it."""

    plan: dict[str, Any]
    integers: list[int]

    @property
    def per_hat(self) -> Claim | None:
        """What the vector costs, as its HATs share it."""
        return self.debit

    @property
    def spent(self) -> Claim | None:
        """What a vehicle spends at most, which is in all HATs of the vector."""
        return self.per_hat

    @property
    def released(self) -> list[Released]:
        """The vector, as a HAT of no cell."""
        return [Released("", "mean", VECTOR, self.plan, self.integers)]

    @property
    def rate(self) -> Fraction | None:
        """A vector has HATs of no epsilon of their own."""
        return None

    @property
    def draws(self) -> list[tuple[tuple[str, ...], dict[str, Any] | None]]:
        """What is drawn: one vector, with its plan."""
        return [((), self.plan)]

    @property
    def has_data(self) -> bool:
        """Counts are secret: there is a vector in any case."""
        return True


class StageUnit(_VectorUnit, frozen=True, kw_only=True):
    """One look at a whole period, in which every vehicle takes part once. slot_s: of the period's first slot."""

    stage: int
    scope: ClassVar[UnitScope] = "stage"
    stands_for_period: ClassVar[bool] = True

    @property
    def per_hat(self) -> Claim | None:
        """The total of the period: its stages share it."""
        return self.total

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.spec_id, self.slot_s, self.stage)

    @property
    def group(self) -> DebitGroup:
        return DebitGroup(self.spec_id, self.period, self.slot_s, False)


class LiveUnit(_VectorUnit, frozen=True, kw_only=True):
    """A look at one slot of a period of which stages will follow; both spend of one total."""

    scope: ClassVar[UnitScope] = "live"

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.spec_id, self.slot_s, None)

    @property
    def group(self) -> DebitGroup:
        return DebitGroup(self.spec_id, self.period, self.slot_s, True)


Unit = HatUnit | StageUnit | LiveUnit
_OfKind = TypeVar("_OfKind", bound=Unit)
_Kept = TypeVar("_Kept", bound=Unit, covariant=True)


class Sequenced(NamedTuple, Generic[_Kept]):
    """A recorded unit and its sequence number in the ledger."""

    sequence: EntryNumber
    unit: _Kept


StageEntry = Sequenced[StageUnit]
LiveEntry = Sequenced[LiveUnit]


def counted(entries: Sequence[StageEntry]) -> dict[EntryNumber, int]:
    """Counts the place of each entry among all stages of a specification, from 1; 0 stands for no entry.

    Sequence numbers count audit events too, which say whether an input is the same as before: places are public,
    sequence numbers are for the operator alone.
    """
    return {EntryNumber(0): 0} | {entry.sequence: index for index, entry in enumerate(entries, 1)}


def all_of(kind: type[_OfKind], units: Iterable[Unit]) -> list[_OfKind]:
    """Checks that units are all of one kind. Raises TypeError."""
    checked: list[_OfKind] = []
    for unit in units:
        if not isinstance(unit, kind):
            raise TypeError(f"a unit is no {kind.__name__} but a {type(unit).__name__}")
        checked.append(unit)
    return checked


class Debit(NamedTuple):
    """What one unit asks of the account."""

    unit: UnitKey
    claim: Claim


def debit(unit: Unit) -> Debit:
    return Debit(unit.key, unit.debit)


SpecSlot = tuple[str, int, bool]
"""A specification's id, the start of a slot, and whether it is the slot's live release: that has a debit of its own."""


def debits_by_slot(debits: Iterable[Debit]) -> dict[SpecSlot, Accountant]:
    """Computes the debit of each (specification, slot), live ones apart: the largest of its shards."""
    largest: dict[SpecSlot, Accountant] = {}
    for unit, claim in debits:
        slot = unit.spec_id, unit.slot_s, unit.shard is None
        largest[slot] = Accountant().compose([claim]).largest(largest.get(slot, Accountant()))
    return largest
