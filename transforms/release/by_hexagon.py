"""By hexagon: the public plan of a slot from counts alone, then noisy integers; the result is ready to be recorded."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpops.allocation import Share, SlotDebit
from dpops.mechanism import Totals
from dpops.noise import Noise
from dpops.types import Int64s
from transforms.count.wire import Exposure, Tally
from transforms.ledger.claims import check_claims
from transforms.observe.hexagons import cell_text
from transforms.release.digest import digest_of
from transforms.release.exposure import exposure_of, most_claimed, most_spent
from transforms.release.policy import Policy, SlotFacts, release_shard
from transforms.release.recorded import Released, Sealed


def draw_releases(
    plan_s: int, shard: int, tally: Tally, slots: Mapping[int, SlotFacts], policy: Policy, noise: Noise
) -> list[tuple[Sealed, Exposure]]:
    """Plans and releases all HATs of one plan and shard: of a slot, or with scope "period" of a whole period.

    plan_s: its first slot. tally: in any order, of all vehicles. Returns its slots in order, each with what a vehicle
    spends there. Raises LedgerError if their plans claim more of a vehicle than their debit.
    """
    facts = slots[plan_s]
    reported = tally.take(np.lexsort((tally.vehicle, tally.cell, tally.slot_s)))
    rows, share = divide(reported, facts.plans, policy)
    masks = [rows.slot_s == slot_s for slot_s in facts.plan]
    drawn = [_release(rows.take(mine), shard, share.epsilon_hat, policy, noise) for mine in masks]
    exposures = [exposure_of(rows.take(mine), each.cell, each.drawn) for mine, each in zip(masks, drawn, strict=True)]
    costs = [share.epsilon_hat * of for of in policy.shares]
    in_slot = [most_spent([exposure], costs) for exposure in exposures]
    debits = policy.allocation.debits(share, in_slot, most_spent(exposures, costs))
    sealed = []
    for slot_s, mine, each, debit in zip(facts.plan, masks, drawn, debits, strict=True):
        digest = _digest(reported.take(mine), slot_s, shard, policy)
        sealed.append(_unit(slot_s, shard, slots[slot_s], each.released, share, debit, digest, policy))
    check_claims(sealed, most_claimed(sealed, rows))
    return list(zip(sealed, exposures, strict=True))


def _unit(
    slot_s: int,
    shard: int,
    facts: SlotFacts,
    released: list[Released],
    share: Share,
    debit: SlotDebit,
    digest: str,
    policy: Policy,
) -> Sealed:
    """What the ledger keeps of a slot's shard."""
    total = policy.allocation.total
    return Sealed(
        spec_id=policy.spec_id,
        period=facts.period,
        slot_s=slot_s,
        slot_start=facts.start,
        slot_end=facts.end,
        shard=shard,
        epsilon_hat=str(share.epsilon_hat),
        epsilon_slot=str(debit.spent),
        unit=policy.unit,
        released=released,
        digest=digest,
        scope=policy.allocation.scope,
        debit=None if debit.debited is None else str(debit.debited),
        epsilon_total=None if total is None else str(total),
    )


class Divided(NamedTuple):
    """rows: less what suppression drops. share: what their HATs get."""

    rows: Tally
    share: Share


def divide(rows: Tally, plans: int, policy: Policy) -> Divided:
    """How the HATs of a plan share what a vehicle may spend.

    rows: by slot, cell and vehicle; slot and cell number the HATs, and ascending hash the vehicles. plans: how many
    such plans share the period.
    """
    hat = np.cumsum((np.diff(rows.slot_s, prepend=-1) != 0) | (np.diff(rows.cell, prepend=-1) != 0)) - 1
    reported = rows.kept + rows.dropped
    share = policy.allocation.divide(hat, rows.vehicle, rows.kept, reported, plans)
    left = np.where(share.kept, rows.kept, 0)
    return Divided(replace(rows, kept=left, dropped=reported - left), share)


class SlotDrawn(NamedTuple):
    """What was released of a slot. cell: int64 (HATs,), ascending, of those with vehicles. drawn: see `exposure_of`."""

    released: list[Released]
    cell: Int64s
    drawn: Int64s


def _release(rows: Tally, shard: int, hat_epsilon: Fraction, policy: Policy, noise: Noise) -> SlotDrawn:
    """rows: of one slot."""
    hats = hats_of(rows)
    some = [hat for hat in hats if hat.totals.counts.size]
    totals, reported = [hat.totals for hat in some], [hat.reported for hat in some]
    of = {hat.cell: at for at, hat in enumerate(some)}
    cells = [hat.cell for hat in hats]
    by_statistic = [
        stat.mechanism.draw(totals, reported, policy.grid, hat_epsilon * stat.share, noise)
        for stat in policy.statistics
    ]
    drawn = [[each.plan["epsilon"] != "0" for each in done] for done in by_statistic]
    released = [
        Released(
            cell_text(cell),
            stat.name,
            *(done[of[cell]] if cell in of else (stat.mechanism.name, None, None)),
        )
        for cell in _rows_to_publish(cells, shard, policy)
        for stat, done in zip(policy.statistics, by_statistic, strict=True)
    ]
    return SlotDrawn(released, np.array(list(of), np.int64), np.array(drawn, np.int64).T)


class Hat(NamedTuple):
    """One HAT: its cell, what its vehicles sum up to (none where all were dropped), and the samples reported in it."""

    cell: int
    totals: Totals
    reported: int


def hats_of(rows: Tally) -> list[Hat]:
    """The HATs of one slot by cell; their vehicles in canonical order."""
    rows = rows.take(np.lexsort((rows.vehicle, -rows.kept, rows.cell)))  # dropped rows come last
    first = np.flatnonzero(np.diff(rows.cell, prepend=-1))
    if not first.size:
        return []
    last = first + np.add.reduceat((rows.kept > 0).astype(np.int64), first)
    reported = np.add.reduceat(rows.kept + rows.dropped, first)
    return [
        Hat(cell, Totals(rows.kept[start:stop], **{name: c[start:stop] for name, c in rows.sums.items()}), samples)
        for cell, start, stop, samples in zip(
            rows.cell[first].tolist(), first.tolist(), last.tolist(), reported.tolist(), strict=True
        )
    ]


def _rows_to_publish(occupied: list[int], shard: int, policy: Policy) -> list[int]:
    if policy.region is None:
        return occupied
    region = np.array(policy.region, np.int64)
    mine: list[int] = region[release_shard(region, policy.release_shards) == shard].tolist()
    return mine


def _digest(rows: Tally, slot_s: int, shard: int, policy: Policy) -> str:
    where = f"{policy.spec_id}/{slot_s}/{shard}/"
    return digest_of(rows, where, policy.digest_key, plain=policy.plain_digests)
