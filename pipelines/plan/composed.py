"""HATs of a plan under public counts, and a vehicle's composed epsilon.

A period's total, if it has one (`allocation.total`), is shared equally by its plans, which are of a slot or of the
period: `plan_count`. Counts whose slots are named by their starts know their `days`.
"""

import math
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from typing import Any, Literal, NamedTuple, cast

import msgspec
import numpy as np

from dpops.accountant import Accountant
from dpops.mechanisms.constant import Constant
from dpops.types import Int64s
from pipelines.plan.counts import SampleCounts
from pipelines.specification import Specification
from transforms.count.tally import ContributionBound
from transforms.order import changes, rank_in_group
from transforms.releases.hats.draw import divide, hats_of
from transforms.time.calendar import CalendarError, Timetable
from transforms.wire import Tally, by_slot

_EXAMPLE_DAY = date(2026, 5, 13)  # periods of one unit are equally long, clock changes apart
WEEK = 7  # days

Known = Literal["exact", "at most", "if alike", "unknown"]
"""Counted exactly; an upper bound; extrapolated to uncounted days like the counted ones; no number."""


class ComposedTotal(msgspec.Struct, frozen=True):
    """An epsilon, and how it is known."""

    epsilon: float | None
    known: Known


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """Epsilons that a vehicle's HATs add up to."""

    epsilon_per_hat_least: float
    epsilon_per_hat_most: float
    most_hats_of_a_vehicle_in_a_slot: int | None
    most_hats_of_a_vehicle_in_a_period: int | None
    vehicle_and_slot: ComposedTotal  # the largest of any vehicle and slot
    vehicle_and_period: ComposedTotal
    debit_of_a_period: ComposedTotal  # from the account: bounds of slots, of whichever vehicles, added up
    account_limit: float
    within_limit: bool | None


class PlannedHat(NamedTuple):
    """Sample counts of a HAT to plan."""

    samples: Int64s  # of its vehicles, descending
    reported: int  # total before a cap
    epsilon: Fraction  # of the HAT


def lay_out(spec: Specification, counts: SampleCounts) -> tuple[list[PlannedHat], Composed]:
    """Plans the HATs of all periods; each total is the largest of any period."""
    laid_out = [_lay_out(spec, period) for period in counts.by_period()]
    hats, periods = ([hat for plans, _ in laid_out for hat in plans], [composed for _, composed in laid_out])

    def epsilon_of(total: ComposedTotal) -> float:
        return math.inf if total.epsilon is None else total.epsilon  # an unknown one may be the largest

    numbers = ("epsilon_per_hat_most", "most_hats_of_a_vehicle_in_a_slot", "most_hats_of_a_vehicle_in_a_period")
    # Of numbers, the largest that is known; None if none is, as 0 is no number of HATs.
    largest: dict[str, Any] = {name: max(getattr(period, name) or 0 for period in periods) or None for name in numbers}
    for name in ("vehicle_and_slot", "vehicle_and_period", "debit_of_a_period"):
        largest[name] = max((getattr(period, name) for period in periods), key=epsilon_of)
    dearest = max(periods, key=lambda period: epsilon_of(period.debit_of_a_period))  # a limit holds for each period
    lowest = min(period.epsilon_per_hat_least for period in periods)
    return hats, msgspec.structs.replace(dearest, epsilon_per_hat_least=lowest, **largest)


def _lay_out(spec: Specification, counts: SampleCounts) -> tuple[list[PlannedHat], Composed]:
    """Plans one period's HATs as a release does, and composes a vehicle's totals."""
    allocation, cap = spec.privacy.allocation, spec.privacy.cap
    samples, slot = _within_cap(counts, cap), np.unique(counts.slot, return_inverse=True)[1]  # slot: an index from 0
    unsorted = Tally(slot, counts.vehicle, counts.place, kept=samples, dropped=counts.samples - samples, sums={})
    planned = rows = unsorted.take(np.lexsort((counts.vehicle, counts.place, slot)))  # in order of a release's tallies
    # Without both names it is unknown which rows of a slot are one vehicle's: each is planned as a vehicle by itself.
    if not (counts.slots_named and counts.vehicles_named):
        planned = replace(rows, vehicle=np.arange(rows.vehicle.size))
        if cap:  # then the cap stands for the most HATs of a vehicle
            allocation = replace(allocation, most_hats=cap.max_cells)
    # A release divides the total slot by slot, or over a whole period's HATs.
    tallies = [planned] if allocation.whole_periods else [of_slot for _, of_slot in by_slot(planned)]
    slots = (_period_days(spec) or 0) * len(spec.timetable.service_minutes)  # service_minutes: starts of a day's slots
    plan_count = allocation.plan_count(slots or 1)  # parts of a period's total; 1 if it never ends
    # By plan: tally with suppressed rows at 0; share: epsilon of a HAT, and bound of what a vehicle spends.
    divided = [divide(tally, plan_count, allocation) for tally in tallies]
    # A code of each pair (slot, vehicle), and its number of cells with samples; without names `_composed` uses neither.
    has_samples = np.concatenate([tally.kept for tally, _ in divided]) > 0  # by row of `rows`, in the same order
    vehicles = int(rows.vehicle.max()) + 1
    codes, cells = np.unique((rows.slot_s * vehicles + rows.vehicle)[has_samples], return_counts=True)
    vehicle_hats = (*np.divmod(codes, vehicles), cells.astype(np.int64))
    debit = sum((share.bound for _, share in divided), Fraction(0))  # bound: most that a vehicle spends in a plan
    hats, epsilons = list[PlannedHat](), list[Fraction]()  # epsilons: of a HAT, by slot
    for tally, share in divided:
        for _, of_slot in by_slot(tally):
            epsilons.append(share.epsilon_hat)
            with_vehicles = hats_of(of_slot).with_users().hats  # a cap may leave a HAT without any
            for totals, reported in zip(with_vehicles, with_vehicles.reported.tolist(), strict=True):
                hats.append(PlannedHat(totals.counts, reported, share.epsilon_hat))
    return hats, _composed(spec, counts, vehicle_hats, epsilons, debit)


def _period_days(spec: Specification) -> int | None:
    """Counts a usual period's days; None in endless accounts."""
    with suppress(CalendarError):
        return len(spec.timetable.period_days(_EXAMPLE_DAY, spec.account.since, spec.account.until))
    return None


_VehicleHats = tuple[Int64s, Int64s, Int64s]
"""Columns (rows,), one row per vehicle and slot: the slot's index, the vehicle's, and its number of HATs there."""


def _within_cap(counts: SampleCounts, cap: ContributionBound | None) -> Int64s:
    """Counts rows' samples within a cap, (rows,), which keeps HATs at random."""
    if cap is None:
        return counts.samples.copy()
    samples = np.minimum(counts.samples, cap.max_samples)
    if not (counts.slots_named and counts.vehicles_named):  # a vehicle's HATs in a slot are not known
        return samples
    order = np.lexsort((counts.slot, counts.vehicle))
    vehicle_slot = np.cumsum(changes(counts.vehicle[order], counts.slot[order]), dtype=np.int64)  # number of the pair
    drawn = np.random.default_rng(0).random(samples.size)[order]  # seeded: equal counts have equal plans
    samples[order[rank_in_group(vehicle_slot, drawn) >= cap.max_cells]] = 0  # HATs beyond the cap, in drawn order
    return samples


def _composed(
    spec: Specification, counts: SampleCounts, vehicle_hats: _VehicleHats, epsilons: list[Fraction], debited: Fraction
) -> Composed:
    """Composes a vehicle's largest totals: exact with named vehicles and slots, else bounds.

    vehicle_hats: a row per vehicle and slot: indices of both, number of HATs there. epsilons: of a HAT, by index of
    slot. debited: epsilon that the counted period takes from the account.
    """
    _, vehicle, cells = vehicle_hats
    in_slot = int(cells.max()) if counts.vehicles_named and counts.slots_named else None
    in_period = int(np.bincount(vehicle, cells).max()) if counts.vehicles_named else None
    if in_slot is not None:
        per_slot, per_period = _exactly(vehicle_hats, epsilons)
        debit = ComposedTotal(float(debited), "exact")
        if counts.days is not None:  # slots are named by starts: all counts are of one period, of so many days
            per_period, debit = (_of_all_days(spec, total, counts.days[0]) for total in (per_period, debit))
        elif has_several_periods(spec, counts):
            per_period, debit = (ComposedTotal(total.epsilon, "at most") for total in (per_period, debit))
        if may_have_constants(spec):  # a HAT that turns out to be a constant spends nothing
            per_slot, per_period, debit = (
                ComposedTotal(total.epsilon, "at most") if total.known == "exact" else total
                for total in (per_slot, per_period, debit)
            )
    else:  # without a total all HATs have the epsilon `epsilons[0]`; with one `_bounds` uses none
        per_slot, debit = _bounds(spec, epsilons[0])
        per_period = debit
        if in_period is not None and spec.privacy.allocation.total is None:
            per_period = ComposedTotal(float(epsilons[0] * in_period), "exact")
            per_slot = per_slot if per_slot.epsilon is not None else ComposedTotal(per_period.epsilon, "at most")
    is_bounded = debit.known != "if alike" and debit.epsilon is not None  # if days are alike: a guess, no bound
    fits = is_bounded and spec.account.limit.fits(Accountant(pure=Fraction(debit.epsilon or 0)))
    return Composed(
        epsilon_per_hat_least=float(min(epsilons)),
        epsilon_per_hat_most=float(max(epsilons)),
        most_hats_of_a_vehicle_in_a_slot=in_slot,
        most_hats_of_a_vehicle_in_a_period=in_period,
        vehicle_and_slot=per_slot,
        vehicle_and_period=per_period,
        debit_of_a_period=debit,
        account_limit=float(spec.account.limit.epsilon),
        within_limit=fits if fits or debit.known == "exact" else None,  # a bound above the limit proves nothing
    )


def _of_all_days(spec: Specification, total_of_days: ComposedTotal, days: int) -> ComposedTotal:
    """Extrapolates a total of counted days to a period of days like these."""
    if (period_days := _period_days(spec)) is None:  # the account's life has no end
        return ComposedTotal(epsilon=None, known="unknown")
    if total_of_days.epsilon is None or days >= period_days:
        return total_of_days
    epsilon, limit = period_days * total_of_days.epsilon / days, spec.privacy.allocation.total
    return ComposedTotal(epsilon if limit is None else min(epsilon, float(limit)), "if alike")


def may_have_constants(spec: Specification) -> bool:
    """Checks whether a HAT may be released as a constant, which spends nothing."""
    return any(stat.mechanism.may_be_constant and stat.name in Constant.statistics for stat in spec.statistics)


def has_several_periods(spec: Specification, counts: SampleCounts) -> bool:
    """Checks whether slots, named otherwise than by starts, are more than a period has."""
    lengths = period_lengths(spec)  # fewest and most slots of a period; None if it never ends, so that all slots fit
    if counts.days is not None or not counts.slots_named or lengths is None:
        return False  # `days` is known of slots with starts, which are split by period; unnamed slots cannot be counted
    return int(np.unique(counts.slot).size) > max(lengths)


def _exactly(vehicle_hats: _VehicleHats, epsilons: list[Fraction]) -> tuple[ComposedTotal, ComposedTotal]:
    """Computes the largest epsilons of a vehicle in a slot, and in the period."""
    slot, vehicle, cells = vehicle_hats  # slot: an index of `epsilons`, a HAT's epsilon there
    most_cells = np.zeros(len(epsilons), np.int64)
    np.maximum.at(most_cells, slot, cells)
    of_slot = max(epsilon * number for epsilon, number in zip(epsilons, most_cells.tolist(), strict=True))
    # Floats find the vehicle with the largest sum, fractions then add it up exactly.
    of_dearest = vehicle == np.bincount(vehicle, cells * np.array(epsilons, np.float64)[slot]).argmax()
    slot_cells = zip(slot[of_dearest].tolist(), cells[of_dearest].tolist(), strict=True)
    of_period = sum((epsilons[index] * number for index, number in slot_cells), Fraction(0))
    return ComposedTotal(float(of_slot), "exact"), ComposedTotal(float(of_period), "exact")


def _bounds(spec: Specification, epsilon: Fraction) -> tuple[ComposedTotal, ComposedTotal]:
    """Bounds a vehicle's epsilon in slot and period. epsilon: of a HAT."""
    lengths = period_lengths(spec)  # fewest and most slots of a period
    if (total := spec.privacy.allocation.total) is not None:
        # Plans share a period's total equally: each has most if slots are fewest, an endless one's only plan has all.
        plans = 1 if lengths is None else spec.privacy.allocation.plan_count(lengths[0])
        return ComposedTotal(float(total / plans), "at most"), ComposedTotal(float(total), "at most")
    if spec.privacy.cap is None:
        return ComposedTotal(epsilon=None, known="unknown"), ComposedTotal(epsilon=None, known="unknown")
    in_slot = epsilon * spec.privacy.cap.max_cells
    most = None if lengths is None else float(in_slot * lengths[1])
    return ComposedTotal(float(in_slot), "at most"), ComposedTotal(most, "unknown" if most is None else "at most")


@cache
def _slots_of_days(table: Timetable, first: date, days: int) -> Int64s:
    """Counts each day's slots; where a clock change forbids slots, those of 24 hours."""
    slots = np.full(days, len(table.service_minutes), np.int64)
    for index in range(days):
        with suppress(CalendarError):
            slots[index] = len(table.day_slots(first + timedelta(days=index)))
    return slots


def period_lengths(spec: Specification) -> tuple[int, int] | None:
    """Counts the fewest and most slots of a period; None if it never ends."""
    table, account = spec.timetable, spec.account
    if table.unit == "vehicle-ever":
        if account.since is None or account.until is None:
            return None
        slots = int(_slots_of_days(table, account.since, (account.until - account.since).days).sum())
        return slots, slots
    monday = _EXAMPLE_DAY - timedelta(days=_EXAMPLE_DAY.weekday())  # weeks begin there
    lengths = _slots_of_days(table, monday, 53 * WEEK)  # of a year, which holds both clock changes
    if table.unit == "vehicle-week":
        lengths = lengths.reshape(53, WEEK).sum(axis=1)
    return int(lengths.min()), int(lengths.max())


class Guarantee(msgspec.Struct, frozen=True):
    """Epsilon that a release spends on a unit, and the account's most."""

    unit: str
    release: ComposedTotal
    account: float


def translated(spec: Specification, composed: Composed) -> list[Guarantee]:
    """Lists guarantees of a release for units shorter and longer than the account's.

    Shorter ones are protected at least as much. Longer ones cost the sum of their periods: a week under `vehicle-day`
    is seven days.
    """
    limit, period = float(spec.account.limit.epsilon), composed.vehicle_and_period
    is_day, is_week = spec.account.unit == "vehicle-day", spec.account.unit == "vehicle-week"
    within = ComposedTotal(period.epsilon, "unknown" if period.epsilon is None else "at most")
    guarantees = [
        Guarantee("a vehicle in one HAT", ComposedTotal(composed.epsilon_per_hat_most, "exact"), limit),
        Guarantee("a vehicle in one slot", composed.vehicle_and_slot, limit),
        Guarantee("a vehicle on one day", period if is_day else within, limit),
    ]
    if is_day:
        # Seven times one exact day is exact for a week of such days alone; seven times a bound is a bound.
        certainty = {"exact": "if alike", "at most": "at most"}.get(period.known, "unknown")
        week = ComposedTotal(None if period.epsilon is None else WEEK * period.epsilon, cast("Known", certainty))
        return [*guarantees, Guarantee("a vehicle in one week", week, WEEK * limit)]
    guarantees.append(Guarantee("a vehicle in one week", period if is_week else within, limit))
    return guarantees if is_week else [*guarantees, Guarantee("a vehicle, ever", period, limit)]
