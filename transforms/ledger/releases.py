"""Releases, each written once, and audit events of differences.

Units of a DebitGroup share a debit: those of one slot (stages have their period's first), or of a whole period.
`column_of`: a unit's value in the column `shard`: its release shard, its stage's number, or LIVE_COLUMN.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from transforms.ledger import chain
from transforms.ledger.chain import ENTRY, Entry, Signature
from transforms.ledger.claims import check_claims, claims_of
from transforms.ledger.spending import AccountRefusal, PeriodClosed
from transforms.recorded.units import LIVE_COLUMN, DebitGroup, Unit, UnitKey, column_of, decode, encode, key_of


class Recorded(NamedTuple):
    """A period's units after recording, and what was new."""

    units: list[Unit]
    new: int
    changed: int  # units whose input or code now differs from the release
    redrawn: int  # units whose noise was drawn again, in vain
    sequences: list[int]  # of each unit's entry


class Audit(NamedTuple):
    """Numbers of units that changed or were drawn again."""

    changed: int
    redrawn: int


def record_missing(
    db: sa.Connection, signature: Signature | None, account: str, spec_name: str, spec_text: str, units: Sequence[Unit]
) -> Recorded:
    """Appends a period's units that are not recorded yet, if debits cover all claims.

    A recorded unit stays as it is; that it was drawn again, or now has another input or code, is an audit event. Raises
    PeriodClosed for a live slot that comes too late, AccountRefusal if a whole period has other slots than recorded.
    """
    spec_id, period, slots = units[0].spec_id, units[0].period, [unit.slot_s for unit in units]
    is_of_whole_period = DebitGroup.of(units[0]).slot_s is None
    of_slots = None if is_of_whole_period else (min(slots), max(slots))  # None: all of the period
    recorded = recorded_units(db, signature, spec_id, period, slots=of_slots)
    if is_of_whole_period and recorded and recorded.keys() != {unit.key for unit in units}:
        raise AccountRefusal(
            f"period {period} was planned and sealed as a whole with {len(recorded)} slots; "
            f"a release of {len(units)} slots of it is another one"
        )
    pairs = [(unit, recorded.get(unit.key)) for unit in units]  # offered, and as recorded before
    missing = [unit for unit, former in pairs if former is None]
    differing = [(unit, cause) for unit, former in pairs if former and (cause := _difference(former, unit))]
    redrawn = [unit for unit, former in pairs if former and former != unit]
    of_release = (ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)
    stages = sa.select(ENTRY.c.seq).where(*of_release, ENTRY.c.shard != LIVE_COLUMN)  # the first closes the period
    if any(unit.is_live for unit in missing) and db.execute(stages).first() is not None:
        raise PeriodClosed(f"period {period} of {spec_id} is released: its live slots that are not recorded are missed")
    groups = set(map(DebitGroup.of, missing))  # units that share a debit are compared with it together
    check_claims(map(claims_of, [*(unit for unit in recorded.values() if DebitGroup.of(unit) in groups), *missing]))
    new: list[Entry] = []
    specs = sa.select(ENTRY.c.seq).where(ENTRY.c.kind == "spec", ENTRY.c.spec_id == spec_id)
    if db.execute(specs.where(ENTRY.c.account == account)).first() is None:
        text = json_of({"name": spec_name, "spec": spec_text})
        new.append({"kind": "spec", "account": account, "spec_id": spec_id, "body": text})
    new += [
        {"kind": "release", "account": account, **_columns_of(unit), "epsilon": str(unit.debit)}
        | {"body": encode(unit).decode(), "release_id": f"{spec_id}/{unit.slot_s}/{column_of(unit.key)}"}
        for unit in missing
    ]
    new += _changes(db, account, differing)
    if redrawn:  # one audit event for all of this attempt; a draw equal to the recorded one is not in `redrawn`
        columns = _columns_of(redrawn[0]) if len(redrawn) == 1 else {"spec_id": spec_id, "period": period}
        new.append({"kind": "redrawn", "account": account, **columns, "body": json_of({"units": len(redrawn)})})
    chain.append(db, signature, *new)
    query = sa.select(ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.seq).where(*of_release)
    sequences = {key_of(spec_id, row.slot_s, row.shard): row.seq for row in db.execute(query)}
    return Recorded(
        units=[former or unit for unit, former in pairs],
        new=len(missing),
        changed=len(differing),
        redrawn=len(redrawn),
        sequences=[sequences[unit.key] for unit in units],
    )


def _columns_of(unit: Unit) -> Entry:
    return {"spec_id": unit.spec_id, "period": unit.period, "slot_s": unit.slot_s, "shard": column_of(unit.key)}


def _difference(recorded: Unit, offered: Unit) -> str | None:
    """Returns why a unit differs from the recorded one: "input", "code", or None."""
    if recorded.digest != offered.digest:
        return "input"
    is_same = len(recorded.released) == len(offered.released) and all(
        (hat.cell, hat.statistic, hat.mechanism) == (hat_now.cell, hat_now.statistic, hat_now.mechanism)
        and _repeats_plan(hat.plan, hat_now.plan)
        for hat, hat_now in zip(recorded.released, offered.released, strict=True)
    )
    return None if is_same else "code"


def _repeats_plan(recorded: Any, offered: Any) -> bool:
    """Checks that a plan, or value in it, has all recorded items, perhaps more."""
    if isinstance(recorded, dict) and isinstance(offered, dict):
        return all(name in offered and _repeats_plan(value, offered[name]) for name, value in recorded.items())
    return bool(recorded == offered)


def _changes(db: sa.Connection, account: str, differing: Sequence[tuple[Unit, str]]) -> list[Entry]:
    """Creates an audit event per differing unit, but none that is recorded already."""
    if not differing:
        return []
    unit, _ = differing[0]
    earlier = (ENTRY.c.kind == "changed", ENTRY.c.spec_id == unit.spec_id, ENTRY.c.period == unit.period)
    query = sa.select(ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.body).where(*earlier)
    recorded = {tuple(row) for row in db.execute(query)}
    bodies = [(unit, json_of({"what": cause, "digest": unit.digest})) for unit, cause in differing]
    return [
        {"kind": "changed", "account": account, **_columns_of(unit), "body": body}
        for unit, body in bodies
        if (unit.slot_s, column_of(unit.key), body) not in recorded
    ]


def recorded_units(
    db: sa.Connection, signature: Signature | None, spec_id: str, period: str, slots: tuple[int, int] | None = None
) -> dict[UnitKey, Unit]:
    """Reads a period's released units, optionally of some slots."""
    criteria = [ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period]
    if slots is not None:
        criteria.append(ENTRY.c.slot_s.between(*slots))
    return {unit.key: unit for unit in (decode(entry["body"]) for entry in chain.checked(db, signature, *criteria))}


def json_of(value: Any) -> str:
    """Encodes a value as JSON text."""
    return msgspec.json.encode(value).decode()
