"""Text of units in ledgers, compatible with old ones.

A stage is written as a HAT without cell and a live slot as release shard -1; no other module knows that.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from dpops.claims import PureDP, claim_of
from transforms.recorded.units import VECTOR, HatUnit, LiveUnit, Released, StageUnit, Unit, UnitKey, UnitScope

LIVE_COLUMN = -1  # stands in the ledger's column of shards where a slot is released live
_SHARED_FIELDS = ("spec_id", "period", "slot_s", "slot_start", "slot_end", "unit", "digest")  # fields of every unit


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
    """Encodes the unit as JSON, unchanged in all versions."""
    stored = Stored(
        **_shared_fields(unit),
        shard=column_of(unit.key),
        epsilon_hat=str(unit.per_hat),
        epsilon_slot=str(unit.spent),
        released=unit.released,
        scope=unit.scope,
        debit=None if unit.scope == "slot" and unit.debit == unit.spent else str(unit.debit),  # as old ledgers have it
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
        if stored.scope not in ("slot", "period"):  # "stage" or "live"
            return _vector(stored, facts)
        epsilons = {"per_hat": PureDP(Fraction(stored.epsilon_hat)), "spent": PureDP(Fraction(stored.epsilon_slot))}
        facts |= epsilons | {"is_of_whole_period": stored.scope == "period"}
        return HatUnit(**facts, shard=stored.shard, released=stored.released)
    except ArithmeticError:
        raise ValueError("a claim is no number") from None


def key_of(spec_id: str, slot_s: int, column: int) -> UnitKey:
    """Makes a unit's key from the ledger's columns."""
    return UnitKey(spec_id, slot_s, shard=None if column == LIVE_COLUMN else column)


def column_of(key: UnitKey) -> int:
    """Returns the value of the ledger's column of shards."""
    return LIVE_COLUMN if key.shard is None else key.shard


def _vector(stored: Stored, facts: Mapping[str, Any]) -> StageUnit | LiveUnit:
    """Decodes a stage or live slot, stored as one HAT; facts: common fields."""
    (released,) = stored.released
    if released.mechanism != VECTOR or released.plan is None or released.integers is None:
        raise ValueError("a stage or live slot has a plan and integers of levels")
    of_vector = {**facts, "plan": released.plan, "integers": released.integers}
    return StageUnit(stage=stored.shard, **of_vector) if stored.scope == "stage" else LiveUnit(**of_vector)


def _shared_fields(either: Unit | Stored) -> dict[str, Any]:
    """Copies the fields that both forms of units share."""
    return {name: getattr(either, name) for name in _SHARED_FIELDS}
