"""Division of a specification's budget, and debits of slots.

No other module compares what a budget is of, or what is planned together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.suppression.clip_user import Weights, clip_user
from dpops.types import Int64s, Per, Scope


class PlanShare(NamedTuple):
    """Retained rows, a vehicle's most HATs, epsilon per HAT."""

    is_kept: NDArray[np.bool_]
    most_hats: int
    epsilon_hat: Fraction

    @property
    def bound(self) -> Fraction:
        """Maximum spending of a vehicle if every HAT draws (S2, composition)."""
        return self.epsilon_hat * self.most_hats


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A budget, and its division over HATs or slots.

    epsilon: of each HAT (per "hat": what a vehicle spends follows from its route), or of a vehicle in a period. scope:
    what is planned, debited and recorded together. most_hats: of a vehicle in a plan, fixed by a cap; None: counted.
    suppress: error that suppression must not worsen; None: no suppression.

    >>> day = Allocation(epsilon=Fraction(3), per="period")
    >>> day.hat_epsilon(most_hats=5, plan_count=day.plan_count(slots=24))
    Fraction(1, 40)
    """

    epsilon: Fraction
    per: Per = "hat"
    scope: Scope = "slot"
    most_hats: int | None = None
    suppress: Weights | None = None

    @property
    def total(self) -> Fraction | None:
        """Maximum spending per period; None where the route decides."""
        return self.epsilon if self.per == "period" else None

    @property
    def whole_periods(self) -> bool:
        """Whether all slots of a period are planned together."""
        return self.scope == "period"

    @property
    def needs_period(self) -> bool:
        """Whether anything depends on which slots a period has."""
        return self.whole_periods or self.total is not None

    def planned_with(self, slot_s: int, period: tuple[int, ...]) -> tuple[int, ...]:
        """Lists the slots that are planned together with one."""
        return period if self.whole_periods else (slot_s,)

    def plan_count(self, slots: int) -> int:
        """Counts the plans that share a period's spending."""
        return 1 if self.whole_periods else slots

    def hat_epsilon(self, most_hats: int, plan_count: int) -> Fraction:
        """Computes epsilon per HAT for plans of a period, `most_hats` >= 1."""
        return self.epsilon if self.total is None else self.total / plan_count / most_hats

    def divide(self, hat: Int64s, vehicle: Int64s, counts: Int64s, reported: Int64s, plan_count: int) -> PlanShare:
        """Divides a vehicle's budget over HATs, after suppression.

        One row per vehicle and HAT, int64 (rows,). hat, vehicle: codes from 0 in any order. counts, reported: samples
        after a cap (0: not kept) and before it. plan_count: of plans in a period. CLIP-USER suppresses at the epsilon
        that a HAT has before it, and is not repeated at the larger one after it. Source: S2; algorithms 9.2.
        """
        is_kept = counts > 0
        if self.most_hats is not None:  # a cap on HATs fixes epsilon beforehand: nothing is counted or suppressed
            epsilon = self.hat_epsilon(max(self.most_hats, 1), plan_count)
            return PlanShare(is_kept, self.most_hats if counts.size else 0, epsilon)  # 0: no HATs at all
        rows = np.flatnonzero(is_kept)
        most_hats = int(np.bincount(vehicle[rows]).max(initial=0))  # of a vehicle
        if self.suppress is not None and most_hats:
            hats, hat_code = np.unique(hat[rows], return_inverse=True)
            vehicle_code = np.unique(vehicle[rows], return_inverse=True)[1]
            samples = np.bincount(hat, reported).astype(np.int64)[hats]  # exact: below 2**53
            epsilon = self.hat_epsilon(most_hats, plan_count)
            is_kept[rows], most_hats = clip_user(hat_code, vehicle_code, counts[rows], samples, epsilon, self.suppress)
        return PlanShare(is_kept, most_hats, self.hat_epsilon(max(most_hats, 1), plan_count))  # 1: without any HAT

    def debits(self, share: PlanShare, slots: Sequence[Fraction], total: Fraction) -> list[tuple[Fraction, Fraction]]:
        """Lists each slot's maximum spending and its debit.

        slots, total: the most that a vehicle spends in each slot and in all, counted from what is drawn. Under a cap on
        HATs, if anything is drawn, what the cap allows, `share.bound`. A whole period is debited at its first slot.
        """
        debit = share.bound if self.most_hats is not None and total else total
        if not self.whole_periods:
            return [(debit, debit)] * len(slots)  # a plan covers one slot: its debit is also its maximum
        return list(zip(slots, [debit, *[Fraction(0)] * (len(slots) - 1)], strict=True))
