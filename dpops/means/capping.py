"""Users capped at m samples by scaling their moments.

A user of c > m samples keeps the average of all of them, with the weight of m: its sums times m / c. With L users, n
samples kept and R reported it counts k = min(c, m) of K samples, the sum of these. A plan's facts hold m, `m_ub`, and
K, `kept`, if anybody is capped, else the largest count, `heaviest`, and n, `samples`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from dpops.mechanism import Plan, Stacked
from dpops.suppression.search import Ratio
from dpops.types import Float64s, Int64s

CapRule = Literal["none", "opt"] | int  # choice of m from public counts: no cap, the least worst case, or m itself


class CountCap(NamedTuple):
    """One cap of one HAT: `max_count` is m, `samples` is K.

    moved_weight: exact ratio, the sum over users of max(0, k / K - c / R); (R - n) / R if nobody is capped. Weights k /
    K and the true ones, which both add up to 1, agree but for this share (dpops.forecast.transport_bias).
    """

    max_count: int
    samples: int
    moved_weight: Ratio
    is_uncapped: bool

    @property
    def share_moved(self) -> float:
        """Fraction of weight that the cap moves."""
        return self.moved_weight[0] / self.moved_weight[1]

    def facts(self) -> dict[str, int]:
        """Lists a cap's facts for the plan, if capped."""
        return {} if self.is_uncapped else {"m_ub": self.max_count, "kept": self.samples}


def chosen(m_ub: CapRule, counts: Int64s, reported: int, cost: Callable[[CountCap], float]) -> CountCap:
    """Chooses a HAT's cap; "opt" minimises `cost`, worst bias plus noise.

    counts: int64 (users,), >= 1. reported: samples before any cap. Of costs equal to 1e-12 the largest cap wins.
    Source: algorithms 9.4, second stage.
    """
    heaviest = int(counts.max())
    if m_ub == "opt":
        caps = _caps(np.unique(counts), counts, reported)
        costs = [cost(cap) for cap in caps]
        near = min(costs) * (1 + 1e-12)
        return next(cap for cap, of_cap in zip(reversed(caps), reversed(costs), strict=True) if of_cap <= near)
    return _caps(np.array([heaviest if m_ub == "none" else min(m_ub, heaviest)], np.int64), counts, reported)[0]


def _caps(limits: Int64s, counts: Int64s, reported: int) -> list[CountCap]:
    """Makes a cap per ascending limit m; sums fit into int64 (check_plan_input)."""
    values, repeats = np.unique(counts, return_counts=True)
    users = np.concatenate([[0], np.cumsum(repeats)])  # number with one of the i smallest counts, by i
    samples = np.concatenate([[0], np.cumsum(values * repeats)])  # theirs
    below = np.searchsorted(values, limits, side="right")  # number of distinct counts that a cap leaves alone
    samples_kept = samples[below] + limits * (counts.size - users[below])
    # `moved_weight` times K R, an integer: sums k R - c K over users who gain weight: of the capped, k = m, those of
    # the `gaining` smallest counts, where c K < m R; of the others, k = c, all, if samples were dropped.
    gaining = np.maximum(np.searchsorted(values, (limits * reported - 1) // samples_kept, side="right"), below)
    moved = limits * reported * (users[gaining] - users[below]) - samples_kept * (samples[gaining] - samples[below])
    moved += (reported - samples_kept) * samples[below]
    by_limit = zip(limits.tolist(), samples_kept.tolist(), moved.tolist(), strict=True)
    caps = [CountCap(limit, kept, (weight, kept * reported), is_uncapped=False) for limit, kept, weight in by_limit]
    if caps[-1].max_count == values[-1]:  # it caps nobody
        total = int(samples[-1])
        caps[-1] = CountCap(int(values[-1]), total, (reported - total, reported), is_uncapped=True)
    return caps


def weights(plan: Plan, counts: Int64s) -> Float64s:
    """Computes users' shares k / K in the release."""
    samples = plan.facts.get("kept", plan.facts["samples"])
    return np.minimum(counts, plan.facts.get("m_ub", plan.facts["heaviest"])) / samples


Retained = tuple[int, list[int]]  # a HAT's sums over retained samples: a denominator, and totals to divide by it


def retained(users: Stacked, columns: Sequence[Int64s], plans: Sequence[Plan]) -> list[Retained]:
    """Sums columns by HAT over retained samples; scales capped users' sums. Raises ValueError.

    columns: int64 (users,), such as sums of speeds. A capped user's sum counts m / c times, exactly: over the least
    common multiple of the HAT's capped counts, which is returned first (1 without one), then the sums times it.
    """
    user_counts = np.diff(users.start, append=users.counts.size)  # (HATs,)
    limits = np.array([plan.facts.get("m_ub", plan.facts["heaviest"]) for plan in plans], np.int64)  # else no cap
    planned = np.array([plan.facts.get("kept", plan.facts["samples"]) for plan in plans], np.int64)
    limit = np.repeat(limits, user_counts)
    if not np.array_equal(np.add.reduceat(np.minimum(users.counts, limit), users.start), planned):
        raise ValueError("totals do not fit their plans: another number of samples is left by the cap")
    capped = users.counts > limit
    uncapped = [np.add.reduceat(np.where(capped, 0, column), users.start).tolist() for column in columns]
    sums: list[Retained] = [(1, list(totals)) for totals in zip(*uncapped, strict=True)]
    hat_of_user = np.repeat(np.arange(len(plans)), user_counts)
    for hat in np.unique(hat_of_user[capped]).tolist():  # exact shares, in Python's integers
        first = int(users.start[hat])
        rows = first + np.flatnonzero(capped[first : first + int(user_counts[hat])])
        counts = users.counts[rows].tolist()
        denominator = math.lcm(*counts)
        shares = [int(limits[hat]) * (denominator // count) for count in counts]
        scaled = [sum(map(int.__mul__, shares, column[rows].tolist())) for column in columns]
        totals = [denominator * total + extra for total, extra in zip(sums[hat][1], scaled, strict=True)]
        sums[hat] = denominator, totals
    return sums
