"""The guarantee of a release, translated from unit to unit."""

from typing import Literal

import msgspec

from pipelines.plan.composed import Composed, ComposedTotal
from pipelines.specification import Specification

WEEK = 7


class Guarantee(msgspec.Struct, frozen=True):
    """Epsilon where two feeds differ in the speeds of `unit`: of this release, and of all that the account may hold."""

    unit: str
    release: ComposedTotal
    account: float


def translated(spec: Specification, composed: Composed) -> list[Guarantee]:
    """Says one release as epsilon per HAT, and per vehicle and slot, day, (calendar) week, and period if that is
    longer.

    What differs in less is protected by at least as much. What differs in several periods costs the sum of them, so a
    week under `vehicle-day` is seven days.
    """
    limit, period = float(spec.account.limit.epsilon), composed.vehicle_and_period
    is_day = spec.account.unit == "vehicle-day"
    within = ComposedTotal(period.epsilon, "unknown" if period.epsilon is None else "at most")
    week = ComposedTotal(None if period.epsilon is None else WEEK * period.epsilon, _of_alike_days(period))
    guarantees = [
        Guarantee("a vehicle in one HAT", ComposedTotal(composed.epsilon_per_hat_most, "exact"), limit),
        Guarantee("a vehicle in one slot", composed.vehicle_and_slot, limit),
        Guarantee("a vehicle on one day", period if is_day else within, limit),
    ]
    if is_day:
        return [*guarantees, Guarantee("a vehicle in one week", week, WEEK * limit)]
    is_week = spec.account.unit == "vehicle-week"
    guarantees.append(Guarantee("a vehicle in one week", period if is_week else within, limit))
    return guarantees if is_week else [*guarantees, Guarantee("a vehicle, ever", period, limit)]


def _of_alike_days(day: ComposedTotal) -> Literal["at most", "if alike", "unknown"]:
    if day.known == "exact":
        return "if alike"
    return "at most" if day.known == "at most" else "unknown"
