"""By hexagon: the public plan of a slot from counts alone, then noisy integers; the result is ready to be recorded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, islice, pairwise, repeat, starmap
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from dpops.allocation import Allocation, PlanShare, SlotDebit
from dpops.claims import PureDP
from dpops.mechanism import Drawn, Hats, Totals
from dpops.noise import Noise
from dpops.statistics import RequestedStatistic
from dpops.types import Grid, Int64s
from transforms.ledger.claims import check_claims, claims_of
from transforms.order import by_both, packed_keys, places
from transforms.places.hierarchy import texts_of
from transforms.recorded.units import HatUnit, Released
from transforms.records import SlotShard
from transforms.releases.hats.digest import digest_of
from transforms.releases.hats.exposure import exposure_of, most_claimed, most_spent
from transforms.releases.hats.policy import Policy, release_shard
from transforms.releases.slots import SlotFacts
from transforms.wire import Exposure, Tally

TOGETHER_ROWS = 1 << 16
"""Rows of slots that are planned together: enough for matrices, few enough for a core's cache."""


def draw_releases(
    groups: Mapping[SlotShard, Tally], slots: Mapping[int, SlotFacts], policy: Policy, noise: Noise
) -> list[tuple[HatUnit, Exposure]]:
    """Plans and releases all HATs of plans and shards: of slots, or with scope "period" of whole periods.

    groups: tallies of all vehicles, in any order, by the first slot of the plan and the shard. Returns their slots in
    order, each with what a vehicle spends there. HATs of all slots that get the same epsilon are planned together.
    Raises LedgerError if the plans of a group claim more of a vehicle than their debit.
    """
    divided = [_group(shard, tally, slots[plan_s], policy) for (plan_s, shard), tally in groups.items()]
    drawn = iter(_drawn([slot for group in divided for slot in group.slots], policy, noise))
    return [done for group in divided for done in _sealed(group, [*islice(drawn, len(group.slots))], slots, policy)]


class _Slot(NamedTuple):
    """rows: of one slot and shard. epsilon: of each HAT."""

    rows: Tally
    shard: int
    epsilon: Fraction


class _Group(NamedTuple):
    """A plan and shard. starts: of its slots. rows: its reports less what suppression drops, by slot, cell and vehicle.
    slots: those of each. digests: of what was reported in each."""

    shard: int
    starts: Sequence[int]
    rows: Tally
    share: PlanShare
    slots: Sequence[_Slot]
    digests: Sequence[str]


def _group(shard: int, tally: Tally, facts: SlotFacts, policy: Policy) -> _Group:
    reported = tally.take(_order(tally, len(facts.plan)))
    rows, share = divide(reported, facts.plans, policy.allocation)
    ends = np.searchsorted(rows.slot_s, facts.plan, side="right").tolist()
    stretches = [slice(start, end) for start, end in pairwise([0, *ends])]
    by_slot = [_Slot(rows.take(stretch), shard, share.epsilon_hat) for stretch in stretches]
    pairs = zip(facts.plan, stretches, strict=True)
    digests = [_digest(reported.take(stretch), slot_s, shard, policy) for slot_s, stretch in pairs]
    return _Group(shard, facts.plan, rows, share, by_slot, digests)


def _sealed(
    group: _Group, drawn: Sequence["SlotDrawn"], slots: Mapping[int, SlotFacts], policy: Policy
) -> Iterator[tuple[HatUnit, Exposure]]:
    """Seals the slots of a group, whose claims are held against their debits. drawn: of each of its slots."""
    share = group.share
    pairs = zip(group.slots, drawn, strict=True)
    exposures = [exposure_of(slot.rows, its.cell, its.drawn) for slot, its in pairs]
    costs = [share.epsilon_hat * of for of in policy.shares]
    in_slot = [most_spent([exposure], costs) for exposure in exposures]
    debits = policy.allocation.debits(share, in_slot, most_spent(exposures, costs))
    columns = zip(group.starts, drawn, debits, group.digests, strict=True)
    sealed = [
        _unit(slot_s, group.shard, slots[slot_s], its.released, share, debit, digest, policy)
        for slot_s, its, debit, digest in columns
    ]
    claimed = [claims_of(unit) for unit in sealed]
    check_claims(claimed, most_claimed(claimed, group.rows, policy.region))
    return zip(sealed, exposures, strict=True)


def _order(tally: Tally, slots: int) -> Int64s:
    """Sorts by slot, cell and vehicle. slots: of the plan."""
    hat = tally.cell if slots == 1 else packed_keys(tally.slot_s, tally.cell)
    return by_both(places(hat), tally.vehicle)


def _unit(
    slot_s: int,
    shard: int,
    facts: SlotFacts,
    released: list[Released],
    share: PlanShare,
    debit: SlotDebit,
    digest: str,
    policy: Policy,
) -> HatUnit:
    """Makes the unit that the ledger keeps of a slot's shard."""
    total = policy.allocation.total
    return HatUnit(
        spec_id=policy.spec_id,
        period=facts.period,
        slot_s=slot_s,
        slot_start=facts.start,
        slot_end=facts.end,
        shard=shard,
        per_hat=PureDP(share.epsilon_hat),
        spent=PureDP(debit.spent),
        unit=policy.value.unit,
        released=released,
        digest=digest,
        is_of_whole_period=policy.allocation.whole_periods,
        debit=PureDP(debit.spent if debit.debited is None else debit.debited),
        total=None if total is None else PureDP(total),
    )


class Divided(NamedTuple):
    """rows: less what suppression drops. share: what their HATs get."""

    rows: Tally
    share: PlanShare


def divide(rows: Tally, plans: int, allocation: Allocation) -> Divided:
    """Divides what a vehicle may spend among the HATs of a plan.

    rows: by slot, cell and vehicle; slot and cell number the HATs, and ascending hash the vehicles. plans: how many
    such plans share the period.
    """
    hat = np.cumsum((np.diff(rows.slot_s, prepend=-1) != 0) | (np.diff(rows.cell, prepend=-1) != 0)) - 1
    reported = rows.kept + rows.dropped
    share = allocation.divide(hat, places(rows.vehicle).of, rows.kept, reported, plans)
    left = np.where(share.kept, rows.kept, 0)
    return Divided(replace(rows, kept=left, dropped=reported - left), share)


class SlotDrawn(NamedTuple):
    """What was released of a slot. cell: int64 (HATs,), ascending, of those with vehicles. drawn: see `exposure_of`."""

    released: list[Released]
    cell: Int64s
    drawn: Int64s


def _drawn(asked: Sequence[_Slot], policy: Policy, noise: Noise) -> list[SlotDrawn]:
    """Draws what is released of each slot."""
    occupied = [hats_of(slot.rows) for slot in asked]
    some = [hats.with_users() for hats in occupied]
    drawn: list[list[Drawn]] = [[] for _ in asked]
    for alike in _alike(asked):
        hats = SlotHats.joined([some[slot] for slot in alike])
        ends = np.cumsum([some[slot].cell.size for slot in alike]).tolist()
        for stat in policy.statistics:
            epsilon = asked[alike[0]].epsilon * stat.share
            together = stat.mechanism.draw(hats.seen_by(stat, policy.value.grid), policy.value.grid, epsilon, noise)
            for slot, its in zip(alike, starmap(slice, pairwise([0, *ends])), strict=True):
                drawn[slot].append(Drawn(together.mechanisms[its], together.plans[its], together.integers[its]))
    return [_slot_drawn(*columns, policy) for columns in zip(asked, occupied, some, drawn, strict=True)]


def _alike(asked: Sequence[_Slot]) -> Iterator[list[int]]:
    """Yields the slots that are planned together: those of the same epsilon, in their order."""
    by_epsilon: dict[Fraction, list[int]] = {}
    for place, slot in enumerate(asked):
        by_epsilon.setdefault(slot.epsilon, []).append(place)
    for some in by_epsilon.values():
        before = np.cumsum([0, *(asked[place].rows.cell.size for place in some[:-1])])
        for _, alike in groupby(zip(some, before // TOGETHER_ROWS, strict=True), key=itemgetter(1)):
            yield [place for place, _ in alike]


def _slot_drawn(
    slot: _Slot, occupied: "SlotHats", some: "SlotHats", by_statistic: Sequence[Drawn], policy: Policy
) -> SlotDrawn:
    """Puts a slot's draws together. occupied: its HATs. some: those with users, of which `by_statistic` tells."""
    published = _rows_to_publish(occupied.cell, slot.shard, policy)
    places = np.where(np.isin(published, some.cell), np.searchsorted(some.cell, published), some.cell.size).tolist()
    names = texts_of(policy.region, published)
    released = [
        _published(names, places, stat, drawn) for stat, drawn in zip(policy.statistics, by_statistic, strict=True)
    ]
    is_drawn = [[plan["epsilon"] != "0" for plan in drawn.plans] for drawn in by_statistic]
    by_cell = [released_hat for hat in zip(*released, strict=True) for released_hat in hat]
    return SlotDrawn(by_cell, some.cell, np.array(is_drawn, np.int64).T)


def _published(
    names: Sequence[str], places: Sequence[int], stat: RequestedStatistic, drawn: Drawn
) -> Iterator[Released]:
    """Releases one statistic of every cell that gets a row.

    places: where `drawn` has it; behind its end where there is no data.
    """
    columns = [*drawn.mechanisms, stat.mechanism.name], [*drawn.plans, None], [*drawn.integers, None]
    of_each = (map(column.__getitem__, places) for column in columns)
    return map(Released, names, repeat(stat.name), *of_each)


class SlotHats(NamedTuple):
    """The HATs of a slot, or of several one behind another. cell: int64 (HATs,), ascending in a slot. hats: without
    users where all vehicles were dropped. columns: all that statistics need, by name, in the order of the totals."""

    cell: Int64s
    hats: Hats
    columns: Mapping[str, Int64s]

    @classmethod
    def joined(cls, slots: Sequence["SlotHats"]) -> "SlotHats":
        if len(slots) == 1:
            return slots[0]
        hats = [slot.hats for slot in slots]
        before = np.cumsum([0, *(its.totals.counts.size for its in hats[:-1])]).tolist()
        starts = [(its.first + entries, its.users, its.reported) for its, entries in zip(hats, before, strict=True)]
        columns = {name: np.concatenate([slot.columns[name] for slot in slots]) for name in slots[0].columns}
        totals = Totals(*map(np.concatenate, zip(*(its.totals for its in hats), strict=True)))
        joined = Hats(totals, *map(np.concatenate, zip(*starts, strict=True)))
        return cls(np.concatenate([slot.cell for slot in slots]), joined, columns)

    def with_users(self) -> "SlotHats":
        some = self.hats.users > 0
        return SlotHats(self.cell[some], self.hats.take(some), self.columns)

    def seen_by(self, stat: RequestedStatistic, grid: Grid) -> Hats:
        """Gives the HATs the columns that one statistic needs."""
        needed = {field: self.columns[column.name] for field, column in stat.columns(grid).items()}
        return replace(self.hats, totals=Totals(self.hats.totals.counts, **needed))


def hats_of(rows: Tally) -> SlotHats:
    """Groups the HATs of one slot by cell; their vehicles in canonical order. rows: those of a cell by vehicle."""
    if (rows.cell[1:] < rows.cell[:-1]).any():
        rows = rows.take(np.argsort(rows.cell, kind="stable"))
    is_first = np.diff(rows.cell, prepend=-1) != 0
    first = np.flatnonzero(is_first)
    users, reported = (
        np.add.reduceat(column, first) if first.size else first
        for column in ((rows.kept > 0).astype(np.int64), rows.kept + rows.dropped)
    )
    most = int(rows.kept.max(initial=0))
    descending = np.cumsum(is_first) * (most + 1) - rows.kept  # dropped rows come last
    narrow = descending.astype(np.min_scalar_type(descending.max(initial=0)))  # which numpy sorts by counting
    order = np.argsort(narrow, kind="stable")  # keeps vehicles of equal counts in order
    columns = {name: column[order] for name, column in rows.sums.items()}
    totals = Totals(rows.kept[order], **{name: columns[name] for name in Totals._fields if name in columns})
    return SlotHats(rows.cell[first], Hats(totals, first, users, reported), columns)


def _rows_to_publish(occupied: Int64s, shard: int, policy: Policy) -> Int64s:
    if policy.region is None:
        return occupied
    region = np.array(policy.region, np.int64)
    cells_of_shard: Int64s = region[release_shard(region, policy.release_shards) == shard]
    return cells_of_shard


def _digest(rows: Tally, slot_s: int, shard: int, policy: Policy) -> str:
    where = f"{policy.spec_id}/{slot_s}/{shard}/"
    return digest_of(rows, where, policy.digest_key, plain=policy.plain_digests)
