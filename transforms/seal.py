"""By hexagon: the public plan of a slot from counts alone, then noisy integers; the result is ready to be recorded."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from dpops.mechanism import Mechanism, Plan, Totals
from dpops.noise import Noise
from dpops.privacy import Composition, slot_debit
from dpops.types import Grid, Int64s
from transforms.hexagons import cell_text
from transforms.scatter import scatter
from transforms.wire import Tally


class Released(msgspec.Struct, frozen=True):
    """One statistic of one HAT: its whole public plan and its noisy integers; both null where there is no data."""

    cell: str
    statistic: str
    mechanism: str
    plan: dict[str, Any] | None
    integers: list[int] | None


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """All that is released of one slot and release shard: what the ledger keeps and publishing reads.

    slot_start, slot_end: ISO 8601 with the zone's offset. epsilon_hat, epsilon_slot: rational text, of each HAT and
    the most that any vehicle spends in the slot. digest: keyed, of the input, for the operator alone.
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


class Spending(msgspec.Struct, frozen=True):
    """The part of an encoded Sealed that says what it spends; decoding skips the rest."""

    spec_id: str
    slot_s: int
    epsilon_hat: str
    epsilon_slot: str


SpecSlot = tuple[str, int]
"""A specification's id and the start of a slot."""


def debits_by_slot(units: Iterable[tuple[str, int, str]]) -> dict[SpecSlot, Fraction]:
    """Debit per (specification, slot), from (spec_id, slot_s, epsilon_slot) of units: its shards share the largest."""
    debits: dict[SpecSlot, Fraction] = {}
    for spec_id, slot_s, epsilon in units:
        debits[spec_id, slot_s] = max(Fraction(epsilon), debits.get((spec_id, slot_s), Fraction(0)))
    return debits


@dataclass(frozen=True)
class Statistic:
    """One released statistic. share: its part of the HAT's epsilon; the shares of a specification add up to 1."""

    name: str
    mechanism: Mechanism
    share: Fraction


@dataclass(frozen=True)
class SlotFacts:
    """What is public about a slot before any data: its period, its bounds as text, the slots of its whole period."""

    period: str
    start: str
    end: str
    period_slots: int


@dataclass(frozen=True)
class Policy:
    """How HATs are released. most_cells: fixed by a cap where shards cannot see the whole slot, else None.

    region: the cells that get a row in any case, or None for those with reports.
    """

    spec_id: str
    grid: Grid
    unit: str
    statistics: tuple[Statistic, ...]
    composition: Composition
    release_shards: int
    most_cells: int | None
    region: tuple[int, ...] | None
    digest_key: bytes = field(repr=False)


def release_shard(cell: Int64s, shards: int) -> Int64s:
    """Which release shard a cell belongs to: by the cell alone, int64 (cells,)."""
    return (scatter(cell) >> 1) % shards if shards > 1 else np.zeros(cell.size, np.int64)


def seal(slot_s: int, shard: int, tally: Tally, facts: SlotFacts, policy: Policy, noise: Noise) -> Sealed:
    """Plans and releases all HATs of one slot and shard. tally: in any order, of all vehicles of the slot."""
    order = np.lexsort((tally.vehicle, -tally.kept, tally.cell))
    rows = Tally(*(column[order] for column in tally))
    most_cells = policy.most_cells if policy.most_cells is not None else _most_cells(rows)
    hat_epsilon = policy.composition.hat(max(most_cells, 1), facts.period_slots)
    return Sealed(
        spec_id=policy.spec_id,
        period=facts.period,
        slot_s=slot_s,
        slot_start=facts.start,
        slot_end=facts.end,
        shard=shard,
        epsilon_hat=str(hat_epsilon),
        epsilon_slot=str(slot_debit(hat_epsilon, most_cells if rows.cell.size else 0)),
        unit=policy.unit,
        released=_release(rows, shard, hat_epsilon, policy, noise),
        digest=_digest(rows, slot_s, shard, policy),
    )


def _release(rows: Tally, shard: int, hat_epsilon: Fraction, policy: Policy, noise: Noise) -> list[Released]:
    first = np.flatnonzero(np.diff(rows.cell, prepend=-1))
    last = np.append(first, rows.cell.size)[1:]
    cells = rows.cell[first].tolist()
    reported = np.add.reduceat(rows.kept + rows.dropped, first).tolist() if cells else []
    totals: list[tuple[Totals, int]] = []
    of: dict[int, int] = {}
    for cell, start, stop, samples in zip(cells, first.tolist(), last.tolist(), reported, strict=True):
        kept = start + int(np.count_nonzero(rows.kept[start:stop]))  # sorted by count: dropped rows come last
        if kept > start:
            of[cell] = len(totals)
            totals.append((Totals(rows.kept[start:kept], rows.total[start:kept]), samples))
    by_statistic = [_release_statistic(stat, totals, hat_epsilon, policy, noise) for stat in policy.statistics]
    return [
        Released(
            cell_text(cell),
            stat.name,
            *(done[of[cell]] if cell in of else (stat.mechanism.name, None, None)),
        )
        for cell in _rows_to_publish(cells, shard, policy)
        for stat, done in zip(policy.statistics, by_statistic, strict=True)
    ]


def _release_statistic(
    stat: Statistic, totals: list[tuple[Totals, int]], hat_epsilon: Fraction, policy: Policy, noise: Noise
) -> list[tuple[str, dict[str, Any], list[int]]]:
    """Per HAT the mechanism that released it (of `auto`, the one it chose), its plan and its integers."""
    epsilon = hat_epsilon * stat.share
    known: dict[tuple[int, bytes], tuple[Plan, dict[str, Any]]] = {}  # equal counts have equal plans
    plans = []
    for total, samples in totals:
        key = (samples, total.counts.tobytes())
        if key not in known:
            plan = stat.mechanism.plan(total.counts, samples, policy.grid, epsilon)
            known[key] = plan, plan.public()
        plans.append(known[key])
    released = stat.mechanism.release([total for total, _ in totals], [plan for plan, _ in plans], noise)
    return [(plan.mechanism, public, integers) for (plan, public), integers in zip(plans, released, strict=True)]


def _rows_to_publish(occupied: list[int], shard: int, policy: Policy) -> list[int]:
    if policy.region is None:
        return occupied
    region = np.array(policy.region, np.int64)
    mine: list[int] = region[release_shard(region, policy.release_shards) == shard].tolist()
    return mine


def _most_cells(rows: Tally) -> int:
    """The most HATs that one vehicle takes part in."""
    kept = rows.vehicle[rows.kept > 0]
    return int(np.unique(kept, return_counts=True)[1].max(initial=0))


def _digest(rows: Tally, slot_s: int, shard: int, policy: Policy) -> str:
    """Keyed: a plain hash of small totals would be found by trying all totals."""
    where = f"{policy.spec_id}/{slot_s}/{shard}/".encode()
    return hmac.digest(policy.digest_key, where + b"".join(c.astype("<i8").tobytes() for c in rows), "sha256").hex()
