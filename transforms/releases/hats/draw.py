"""Slots' public plans, their noisy integers, and vehicles' spending.

`rows`: a tally, an entry per slot, cell and vehicle, with numbers of samples: `kept`, and `dropped` by a cap or by
suppression. A claimed unit has the `distinct` lists of claims that HATs have, a claim per statistic, and by cell the
index of its list. `factorize` gives sorted distinct `values` and each entry's `code`, the index of its value; `changes`
marks entries that differ from the one before.
"""

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby, islice, pairwise, repeat, starmap
from operator import itemgetter, mul
from typing import NamedTuple

import numpy as np

from dpops.accountant import Accountant
from dpops.allocation import Allocation, PlanShare
from dpops.claims import ZERO, Claim, PureDP
from dpops.mechanism import Drawn, Hats, Totals
from dpops.noise import Noise
from dpops.statistics import SQUARES, SUMS, Column, RequestedStatistic, columns_of
from dpops.suppression.clip_user import Weights
from dpops.types import Grid, Int64s
from transforms.ledger.claims import ClaimedUnit, check_claims, claims_of
from transforms.order import changes, factorize, packed_keys, scatter
from transforms.places.ground import texts_of
from transforms.recorded.units import HatUnit, Released
from transforms.records import SlotShard
from transforms.releases import SlotFacts
from transforms.releases.base import DrawnUnit
from transforms.value import Value
from transforms.wire import Exposure, Tally

TOGETHER_ROWS = 1 << 16  # rows of slots planned together: enough for matrices, few enough for a core's cache
PLAIN = (SUMS, SQUARES)


def is_plain(digest: str) -> bool:
    """Checks for a plain digest, without column names."""
    return ":" not in digest


def digest_of(rows: Tally, label: str, key: bytes, *, is_old_form: bool) -> str:
    """Computes a keyed digest, as one without a key is guessable.

    It shows later runs that an input differs. It covers the label, names of sums and all columns. is_old_form: as older
    ledgers have it, with sums and squares alone, without names.
    """
    names = ",".join(rows.sums)
    columns: Sequence[Int64s] = [*rows.keys(), *rows.sums.values()]
    if is_old_form:
        columns = (rows.slot_s, rows.vehicle, rows.cell, rows.kept, *(rows.sums[c.name] for c in PLAIN), rows.dropped)
    digest = hmac.new(key, label.encode() if is_old_form else f"{label}{names}/".encode(), "sha256")
    for column in columns:
        digest.update(np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest() if is_old_form else f"{names}:{digest.hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Policy of HATs' release; cells of `region` get rows."""

    spec_id: str
    value: Value
    statistics: tuple[RequestedStatistic, ...]
    allocation: Allocation
    shards: int
    region: Sequence[int] | None
    digest_key: bytes = field(repr=False)
    plain_digests: bool = False  # digests as older ledgers have them, of sums and squares

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the statistics."""
        return tuple(stat.name for stat in self.statistics)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Shares of the epsilon of a HAT, by statistic."""
        return tuple(stat.share for stat in self.statistics)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies, for statistics and for plain digests."""
        required = columns_of(self.statistics, self.value.grid)
        return (*required, *(column for column in PLAIN if column not in required)) if self.plain_digests else required


def draw_releases(
    groups: Mapping[SlotShard, Tally], slots: Mapping[int, SlotFacts], policy: Policy, noise: Noise
) -> list[DrawnUnit]:
    """Plans and releases slots' HATs, those of equal epsilon as vectors.

    groups: tallies of all vehicles, by a plan's first slot and shard. Returns units in order, with vehicles' exposures.
    Raises LedgerError if plans claim more of a vehicle than their debit.
    """
    divided = []  # (rows, share, `_Slot`s) by group; rows align with `reported`: suppressed ones stay, with 0 kept
    for (plan_s, shard), tally in groups.items():
        facts, by_slot = slots[plan_s], []  # joint_slots_s: starts of the plan's slots
        # Rows by slot, cell and vehicle, so that each slot's are a stretch of them.
        hat = tally.cell if len(facts.joint_slots_s) == 1 else packed_keys(tally.slot_s, tally.cell)
        reported = tally.take(np.argsort(packed_keys(hat, tally.vehicle)))
        rows, share = divide(reported, facts.plan_count, policy.allocation)  # share: with each HAT's epsilon
        ends = np.searchsorted(rows.slot_s, facts.joint_slots_s, side="right").tolist()
        for slot_s, stretch in zip(facts.joint_slots_s, starmap(slice, pairwise([0, *ends])), strict=True):
            label = f"{policy.spec_id}/{slot_s}/{shard}/"  # equal rows elsewhere have another digest
            digest = digest_of(reported.take(stretch), label, policy.digest_key, is_old_form=policy.plain_digests)
            by_slot.append(_Slot(slot_s, shard, rows.take(stretch), share.epsilon_hat, digest))
        divided.append((rows, share, by_slot))
    drawn = iter(_drawn([slot for _, _, by_slot in divided for slot in by_slot], policy, noise))
    units = list[DrawnUnit]()
    for rows, share, by_slot in divided:
        units += _units_of(rows, share, by_slot, [*islice(drawn, len(by_slot))], slots, policy)
    return units


class _Slot(NamedTuple):
    """Rows of a slot and shard, with HATs' epsilon."""

    slot_s: int
    shard: int
    rows: Tally  # by cell and vehicle
    epsilon: Fraction
    digest: str  # of the rows as reported


_SlotDrawn = tuple[list[Released], Exposure]  # a slot's HATs, by ascending cell and statistic, and vehicles' spending


def _units_of(
    rows: Tally,
    share: PlanShare,
    by_slot: Sequence[_Slot],
    drawn: Sequence[_SlotDrawn],
    slots: Mapping[int, SlotFacts],
    policy: Policy,
) -> Iterator[DrawnUnit]:
    """Creates a plan's units. Raises LedgerError if claims exceed a debit."""
    allocation, hat_costs = policy.allocation, [share.epsilon_hat * stat_share for stat_share in policy.shares]
    exposures = [exposure for _, exposure in drawn]
    in_slot = [most_spent([exposure], hat_costs) for exposure in exposures]  # the most that any vehicle spends in each
    debits = allocation.debits(share, in_slot, most_spent(exposures, hat_costs))  # each slot's (most spent, debit)
    units = []
    for slot, (released, _), (spent, debit) in zip(by_slot, drawn, debits, strict=True):
        facts = slots[slot.slot_s]
        unit = HatUnit(
            spec_id=policy.spec_id,
            period=facts.period,
            slot_s=slot.slot_s,
            slot_start=facts.start,
            slot_end=facts.end,
            shard=slot.shard,
            per_hat=PureDP(share.epsilon_hat),
            spent=PureDP(spent),
            unit=policy.value.unit,
            released=released,
            digest=slot.digest,
            is_of_whole_period=allocation.whole_periods,
            debit=PureDP(debit),
            total=None if allocation.total is None else PureDP(allocation.total),
        )
        units.append(unit)
    claimed = [claims_of(unit) for unit in units]
    check_claims(claimed, most_claimed(claimed, rows, policy.region))
    return map(DrawnUnit, units, exposures)


def divide(rows: Tally, plan_count: int, allocation: Allocation) -> tuple[Tally, PlanShare]:
    """Divides a vehicle's budget among its HATs, and counts suppressed samples as dropped.

    rows: sorted by slot and cell. plan_count: number of plans among which a period's budget is divided.
    """
    hat = np.cumsum(changes(rows.slot_s, rows.cell)) - 1  # of each row
    reported = rows.kept + rows.dropped
    share = allocation.divide(hat, factorize(rows.vehicle).code, rows.kept, reported, plan_count)
    retained = np.where(share.is_kept, rows.kept, 0)
    return replace(rows, kept=retained, dropped=reported - retained), share


def _drawn(by_slot: Sequence[_Slot], policy: Policy, noise: Noise) -> list[_SlotDrawn]:
    """Draws slots' releases, planning HATs of equal epsilon together, as vectors.

    A statistic is drawn for up to about TOGETHER_ROWS rows at a time, which bounds memory.
    """
    occupied = [hats_of(slot.rows) for slot in by_slot]
    with_users = [hats.with_users() for hats in occupied]  # without HATs whose samples are all dropped
    drawn: list[list[Drawn]] = [[] for _ in by_slot]
    by_epsilon: dict[Fraction, list[int]] = {}  # numbers of slots, their indices in `by_slot`
    for number, slot in enumerate(by_slot):
        by_epsilon.setdefault(slot.epsilon, []).append(number)
    for numbers in by_epsilon.values():
        start = np.cumsum([0, *(by_slot[number].rows.cell.size for number in numbers[:-1])])  # each slot's first row
        for _, pairs in groupby(zip(numbers, start // TOGETHER_ROWS, strict=True), key=itemgetter(1)):
            chosen = [number for number, _ in pairs]  # slots that begin within the same TOGETHER_ROWS rows
            hats = SlotHats.joined([with_users[number] for number in chosen])
            ends = np.cumsum([with_users[number].cell.size for number in chosen]).tolist()  # of each slot's HATs
            for stat in policy.statistics:
                epsilon, grid = by_slot[chosen[0]].epsilon * stat.share, policy.value.grid
                needed = {field: hats.columns[column.name] for field, column in stat.columns(grid).items()}  # of Totals
                hats_for_stat = replace(hats.hats, totals=Totals(hats.hats.totals.counts, **needed))
                mechanisms, plans, integers = stat.mechanism.draw(hats_for_stat, grid, epsilon, noise)
                for number, hats_of_slot in zip(chosen, starmap(slice, pairwise([0, *ends])), strict=True):
                    drawn[number].append(Drawn(mechanisms[hats_of_slot], plans[hats_of_slot], integers[hats_of_slot]))
    return [_slot_drawn(*columns, policy) for columns in zip(by_slot, occupied, with_users, drawn, strict=True)]


def _slot_drawn(
    slot: _Slot, occupied: "SlotHats", with_users: "SlotHats", by_statistic: Sequence[Drawn], policy: Policy
) -> _SlotDrawn:
    """Lists a slot's releases by cell and statistic, and its vehicles' exposures.

    Cells are the region's in the slot's shard; without a region, occupied ones. occupied: HATs with reports;
    with_users: those that keep a sample, which alone were drawn: `by_statistic` lists their draws.
    """
    cell, published = with_users.cell, occupied.cell
    if policy.region is not None:
        region = np.array(policy.region, np.int64)
        published = region[release_shard(region, policy.shards) == slot.shard]
    positions = np.where(np.isin(published, cell), np.searchsorted(cell, published), cell.size).tolist()
    names, released = texts_of(policy.region, published), []
    for stat, drawn in zip(policy.statistics, by_statistic, strict=True):
        # A cell without data has the position after the last HAT: there no plan, and no integer, is appended.
        columns = [*drawn.mechanisms, stat.mechanism.name], [*drawn.plans, None], [*drawn.integers, None]
        of_each = (map(column.__getitem__, positions) for column in columns)
        released.append(map(Released, names, repeat(stat.name), *of_each))
    is_drawn = [[plan["epsilon"] != "0" for plan in drawn.plans] for drawn in by_statistic]  # "0": a public constant
    exposure = exposure_of(slot.rows, cell, np.array(is_drawn, np.int64).T)
    return [hat for of_cell in zip(*released, strict=True) for hat in of_cell], exposure


class SlotHats(NamedTuple):
    """HATs of slots in sequence; one whose samples are all dropped has no users."""

    cell: Int64s  # int64 (HATs,), ascending within a slot
    hats: Hats  # users' totals, (users,), and by HAT the first user, numbers of users and of samples
    columns: Mapping[str, Int64s]  # a tally's sums by name, (users,), in the order of the totals

    @classmethod
    def joined(cls, slots: Sequence["SlotHats"]) -> "SlotHats":
        """Concatenates the HATs of slots."""
        if len(slots) == 1:
            return slots[0]
        hats = [slot.hats for slot in slots]
        # Indices of first users move by the number of users of all slots before.
        offsets = np.cumsum([0, *(item.totals.counts.size for item in hats[:-1])]).tolist()
        users = [(item.first + offset, item.users, item.reported) for item, offset in zip(hats, offsets, strict=True)]
        columns = {name: np.concatenate([slot.columns[name] for slot in slots]) for name in slots[0].columns}
        totals = Totals(*map(np.concatenate, zip(*(item.totals for item in hats), strict=True)))
        joined = Hats(totals, *map(np.concatenate, zip(*users, strict=True)))
        return cls(np.concatenate([slot.cell for slot in slots]), joined, columns)

    def with_users(self) -> "SlotHats":
        """Drops HATs without vehicles."""
        is_occupied = self.hats.users > 0
        return SlotHats(self.cell[is_occupied], self.hats.take(is_occupied), self.columns)


def hats_of(rows: Tally) -> SlotHats:
    """Groups a slot's rows by cell, its vehicles by descending count, for mechanisms."""
    if (rows.cell[1:] < rows.cell[:-1]).any():
        rows = rows.take(np.argsort(rows.cell, kind="stable"))
    is_first = changes(rows.cell)
    first = np.flatnonzero(is_first)
    users = np.add.reduceat((rows.kept > 0).astype(np.int64), first)  # (HATs,), vehicles with a kept sample
    reported = np.add.reduceat(rows.kept + rows.dropped, first)  # (HATs,), samples
    max_kept = int(rows.kept.max(initial=0))
    descending = np.cumsum(is_first) * (max_kept + 1) - rows.kept  # a key by cell, then count; dropped rows come last
    narrow = descending.astype(np.min_scalar_type(descending.max(initial=0)))  # which numpy sorts by counting
    order = np.argsort(narrow, kind="stable")  # keeps vehicles of equal counts in order
    columns = {name: column[order] for name, column in rows.sums.items()}
    totals = Totals(rows.kept[order], **{name: columns[name] for name in Totals._fields if name in columns})
    return SlotHats(rows.cell[first], Hats(totals, first, users, reported), columns)


def exposure_of(rows: Tally, cell: Int64s, is_drawn: Int64s) -> Exposure:
    """Counts each vehicle's draws. cell: HATs, ascending. is_drawn: (HATs, statistics), 0 or 1."""
    is_kept = rows.kept > 0
    vehicle, code = factorize(rows.vehicle[is_kept])
    return Exposure(vehicle, _sums_by_vehicle(code, is_drawn[np.searchsorted(cell, rows.cell[is_kept])]))


def most_spent(exposures: Sequence[Exposure], costs: Sequence[Fraction]) -> Fraction:
    """Computes a vehicle's largest spending over slots; `costs`: of a HAT's draw, by statistic."""
    if len(exposures) == 1:  # a vehicle has one row of `drawn`, its numbers of HATs by statistic
        return _dearest(exposures[0].drawn, costs)
    vehicle = factorize(np.concatenate([exposure.vehicle for exposure in exposures])).code
    return _dearest(_sums_by_vehicle(vehicle, np.concatenate([of_slot.drawn for of_slot in exposures])), costs)


def most_claimed(units: Sequence[ClaimedUnit], rows: Tally, region: Sequence[int] | None = None) -> Fraction:
    """Computes the most epsilon that a vehicle's HATs claim."""
    is_kept = rows.kept > 0
    slot_of, cell_of = rows.slot_s[is_kept], rows.cell[is_kept]
    first = np.flatnonzero(changes(slot_of, cell_of))  # row of each HAT: rows are sorted by slot, as `units`, and cell
    slot_s, cell = slot_of[first], cell_of[first]
    # A vehicle's HATs are counted by kind: by lists of claims, one for each statistic, of which few are distinct.
    kinds: dict[tuple[Claim, ...], int] = {}
    kind_of: list[int] = []  # by HAT
    for claimed in units:
        numbers = [kinds.setdefault(claims, len(kinds)) for claims in claimed.distinct]
        texts = texts_of(region, cell[slot_s == claimed.unit.slot_s])
        kind_of += [numbers[claimed.code_by_cell[text]] for text in texts]
    kind = np.repeat(np.array(kind_of, np.int64), np.diff(first, append=cell_of.size))  # by row
    prices = [Accountant().compose(claims).pure for claims in kinds]  # epsilon of a HAT, by kind
    vehicles, vehicle = factorize(rows.vehicle[is_kept])
    hats = np.bincount(vehicle * len(kinds) + kind, minlength=vehicles.size * len(kinds))  # by vehicle, then kind
    return _dearest(hats.reshape(vehicles.size, len(kinds)), prices)  # what the dearest vehicle's HATs cost


def _dearest(numbers: Int64s, prices: Sequence[Fraction]) -> Fraction:
    """Computes the largest exact cost of a row of `numbers`, (vehicles, prices)."""
    sums = (sum(map(mul, counts, prices), ZERO) for counts in set(map(tuple, numbers.tolist())))
    return max(sums, default=ZERO)


def _sums_by_vehicle(code: Int64s, values: Int64s) -> Int64s:
    """Adds up rows of `values` (rows, columns) of equal code, from 0: (codes, columns)."""
    columns = [np.bincount(code, column) for column in values.T]  # exact: below 2**53
    return np.stack(columns, axis=-1).astype(np.int64)


def release_shard(cell: Int64s, shards: int) -> Int64s:
    """Computes cells' release shards from hashes of their ids, made non-negative by >> 1."""
    return (scatter(cell) >> 1) % shards if shards > 1 else np.zeros(cell.size, np.int64)


def weights_of(grid: Grid, statistics: Iterable[RequestedStatistic]) -> Weights:
    """Sums shares of epsilon by kind of error: weights by which suppression counts errors."""
    shares = {"mean": Fraction(0), "variance": Fraction(0)}
    for stat in statistics:
        shares[stat.statistic.weighs_as] += stat.share
    return Weights(upper=grid.upper, **shares)
