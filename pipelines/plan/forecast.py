"""Forecast of a specification's release, from public facts alone.

Under public counts each HAT is planned from its vehicles' numbers of samples. An error is the one that the prior makes
expect, without a prior the largest. A choice is a specification changed in one thing. `totals` is the module that lays
out HATs with their epsilons, and adds up what a vehicle spends. An allocation divides the budget over HATs.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec
import numpy as np

from dpops.accountant import Accountant
from dpops.allocation import Allocation
from dpops.forecast import Prior
from dpops.mechanism import Mechanism, forecast_of_one
from dpops.mechanisms.auto import Auto, RankedPlan
from dpops.statistics import RequestedStatistic
from dpops.types import CountsKnown, Grid
from pipelines.account.guarantee import NOT_PROTECTED
from pipelines.errors import InputError, Report
from pipelines.plan import composed as totals
from pipelines.plan.counts import SampleCounts
from pipelines.plan.needs import FACTORS, MechanismNeeds, needs_of
from pipelines.specification import Specification
from transforms.releases.hats.draw import weights_of
from transforms.time.calendar import DAY_MINUTES

CLASSES = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63), (64, None))  # least and most vehicles in a HAT
PER_CLASS = 250  # most HATs of a class that are planned, taken evenly: ten thousand would take too long
PER_CHOICE = 300  # most HATs that are planned for each other choice
RUNNERS_UP = 2  # next best mechanisms shown per class
AS_IS = " (now)"  # ends the name of the choice that the specification makes

Recount = Callable[[Specification], SampleCounts]  # returns the counts that another specification would see


class HatClass(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over HATs with similar numbers of vehicles, planned at most PER_CLASS."""

    vehicles: str
    hats: int
    hats_planned: int
    chosen: list[dict[str, Any]]  # mechanisms with their shares
    m_ub: float | None  # length of pseudo-users' arrays; None without such
    noise_scale: float  # in the value's unit; plans have it in steps
    bias_bound: float
    forecast_error: float
    runners_up: list[dict[str, Any]]  # mechanisms with their forecast errors


class StatisticPlan(msgspec.Struct, frozen=True):
    """Plan of one statistic."""

    statistic: str
    unit: str
    mechanism: str
    classes: list[HatClass]


class OtherChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Alternative choice. forecast_error: the median over HATs, by statistic."""

    choice: str
    as_specified: bool
    epsilon: float
    resolution: int
    slot_minutes: int
    hats: int
    hats_planned: int
    median_vehicles: float
    forecast_error: dict[str, float]
    composed: totals.Composed


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """All that `hatstream plan` shows."""

    answer: str
    name: str
    spec_id: str
    counts: str
    forecast: str
    hats: int
    statistics: list[StatisticPlan]
    composed: totals.Composed
    guarantees: list[totals.Guarantee]
    not_protected: str
    choices: list[OtherChoice]
    notes: list[str]
    needs: MechanismNeeds | None


def ranked(spec: Specification, stat: RequestedStatistic, hat: totals.PlannedHat) -> list[RankedPlan]:
    """Plans a HAT by its candidate mechanisms, the best first; only `auto` has several."""
    epsilon, samples = hat.epsilon * stat.share, hat.samples.tobytes()
    return _ranked(stat, spec.value.grid, spec.prior, epsilon, samples, hat.reported)


@cache
def _ranked(
    stat: RequestedStatistic, grid: Grid, prior: Prior | None, epsilon: Fraction, samples: bytes, reported: int
) -> list[RankedPlan]:
    """Plans a HAT, once for equal counts. epsilon: of the statistic. samples: int64s."""
    mechanism, counts = stat.mechanism, CountsKnown(np.frombuffer(samples, np.int64), reported)  # reported: uncapped
    try:
        if isinstance(mechanism, Auto):
            return mechanism.ranking(counts, grid, epsilon)
        plan = mechanism.plan(counts, grid, epsilon)
        error = plan.error() if prior is None else forecast_of_one(mechanism, counts, grid, epsilon, prior)
        return [RankedPlan(error, mechanism, plan)]
    except ValueError as error:
        raise InputError(f"{stat.name}: a HAT cannot be planned: {error}") from None


def label(mechanism: Mechanism) -> str:
    """Names a mechanism, with its options other than defaults."""
    # These two are options of the statistic and of the value, equal for all candidates.
    options = [f for f in fields(mechanism) if f.name not in ("statistic", "prior")]  # type: ignore[arg-type]
    values = [(f.name, getattr(mechanism, f.name)) for f in options if getattr(mechanism, f.name) != f.default]
    return " ".join([mechanism.name, *(f"{name}={value}" for name, value in values)])


def plan_hats(
    spec: Specification, counts: SampleCounts, recount: Recount | None, progress: Report, within: float
) -> Planned:
    """Plans a release under public counts: errors, totals and other choices.

    within: requested error, in the value's unit. recount: counts in other cells and slots; None: positions are unknown.
    Raises InputError.
    """
    hats, composed = totals.lay_out(spec, counts)
    if not hats:
        raise InputError("the counts hold no HAT")
    prior, has_names = spec.prior, counts.slots_named and counts.vehicles_named
    others, impossible = _other_choices(spec, has_names=has_names, has_positions=recount is not None)
    statistics = _statistics(spec, hats, progress)
    choices = []
    for index, (name, choice, has_same_hats) in enumerate(others, 1):
        try:
            counted = counts if has_same_hats or recount is None else recount(choice)
        except InputError as error:  # slots that cannot follow the zone's clock on that day
            impossible.append(str(error))
        else:
            choices.append(_choice(name, choice, counted))
        progress("other choices planned", index, len(others))
    basis = "worst case: noise and the largest clipping bias (the specification has no speed.prior)"
    if prior is not None:
        between = f", {prior.between:.0%} of the variance between vehicles" if prior.between else ""
        basis = f"expected error if speeds are near {prior.mean:g} km/h, sd {prior.sd:g}{between} (speed.prior)"
    stat, sample = spec.statistics[0], _evenly(hats, PER_CHOICE)
    near = [ranked(spec, stat, hat)[0].error <= within for hat in sample]  # [0]: of the best candidate mechanism
    reports = np.average(near, weights=[hat.samples.sum() for hat in sample])  # part of them in such HATs
    unit = stat.statistic.plan_unit.format(spec.value.unit)
    return Planned(
        answer=(
            f"Expected to be within ±{within:g} {unit} of the true {stat.name}: {100 * np.mean(near):.0f} of 100 rows, "
            f"which hold {100 * reports:.0f} of 100 reports."
        ),
        name=spec.name,
        spec_id=spec.spec_id,
        counts=counts.origin,
        forecast=basis,
        hats=len(hats),
        statistics=statistics,
        composed=composed,
        guarantees=totals.translated(spec, composed),
        not_protected=NOT_PROTECTED,
        choices=choices,
        notes=[*_notes(spec, counts, statistics, composed), *impossible],
        needs=needs_of(spec, within, Fraction(composed.epsilon_per_hat_least)),
    )


def _statistics(spec: Specification, hats: list[totals.PlannedHat], progress: Report) -> list[StatisticPlan]:
    """Forecasts each statistic by CLASSES of HATs, from at most PER_CLASS HATs each."""
    classes = [[hat for hat in hats if low <= hat.samples.size <= (high or hat.samples.size)] for low, high in CLASSES]
    samples = [_evenly(members, PER_CLASS) for members in classes]
    total, number = sum(map(len, samples)) * len(spec.statistics), 0  # of HATs, for progress
    statistics = []
    for stat in spec.statistics:
        shown = []
        for bounds, members, sample in zip(CLASSES, classes, samples, strict=True):
            candidates = []
            for hat in sample:
                candidates.append(ranked(spec, stat, hat))
                number += 1
                progress("HATs planned", number, total)
            if candidates:
                shown.append(_hat_class(bounds, len(members), candidates))
        name = stat.mechanism.name if isinstance(stat.mechanism, Auto) else label(stat.mechanism)
        statistics.append(StatisticPlan(stat.name, stat.statistic.plan_unit.format(spec.value.unit), name, shown))
    return statistics


def _evenly(hats: list[totals.PlannedHat], number: int) -> list[totals.PlannedHat]:
    """Takes so many HATs, evenly spaced when sorted by size; all if fewer."""
    if len(hats) <= number:
        return hats
    # By vehicles, then reports; the samples' bytes make the order the same for equal sizes, whatever it was before.
    ordered = sorted(hats, key=lambda hat: (hat.samples.size, hat.reported, hat.samples.tobytes()))
    return [ordered[index] for index in np.linspace(0, len(hats) - 1, number).round().astype(int).tolist()]


def _hat_class(bounds: tuple[int, int | None], hats: int, candidates: list[list[RankedPlan]]) -> HatClass:
    """Summarises a class of HATs: mechanisms chosen, median errors and runners-up.

    bounds: fewest and most vehicles. hats: number of HATs. candidates: of sampled ones, the best first.
    """
    (low, high), plans = bounds, [of_hat[0] for of_hat in candidates]
    lengths = [best.plan.facts["m_ub"] for best in plans if "m_ub" in best.plan.facts]  # of pseudo-users
    chosen = Counter(label(best.mechanism) for best in plans).most_common()
    errors: dict[str, list[float]] = {}
    for candidate in itertools.chain.from_iterable(candidates):
        errors.setdefault(label(candidate.mechanism), []).append(candidate.error)
    # A mechanism whose options change no error is shown once. variants: labels, by name without options, and errors.
    best_label = chosen[0][0]  # label that is chosen most often: first, so that it is no runner-up
    variants = {(best_label.split()[0], tuple(errors.pop(best_label))): best_label}
    for name, of_name in sorted(errors.items(), key=lambda item: float(np.median(item[1]))):
        variants.setdefault((name.split()[0], tuple(of_name)), name)
    others = [
        {"mechanism": name, "forecast_error": float(np.median(of_name))} for (_, of_name), name in variants.items()
    ]
    return HatClass(
        vehicles=f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}",
        hats=hats,
        hats_planned=len(plans),
        chosen=[{"mechanism": name, "share": times / len(plans)} for name, times in chosen],
        m_ub=float(np.median(lengths)) if lengths else None,
        noise_scale=float(np.median([float(best.plan.scale * best.plan.step) for best in plans])),
        bias_bound=float(np.median([best.plan.bias_bound for best in plans])),
        forecast_error=float(np.median([best.error for best in plans])),
        runners_up=others[1 : RUNNERS_UP + 1],  # the first is `best_label`
    )


def _other_choices(
    spec: Specification, *, has_names: bool, has_positions: bool
) -> tuple[list[tuple[str, Specification, bool]], list[str]]:
    """Lists alternative specifications, and reasons why others are impossible.

    An alternative is (name, specification, whether HATs are those of `spec`). has_names: whether counts name vehicles
    and slots, so that spending can be summed. has_positions: whether samples can be counted in other cells and slots.
    """
    choices = []
    for factor in FACTORS:
        epsilon = spec.privacy.allocation.epsilon * factor
        name = f"epsilon {float(epsilon):g}" + (AS_IS if factor == 1 else "")
        choices.append((name, _allocating(spec, replace(spec.privacy.allocation, epsilon=epsilon)), True))
    if has_names and spec.privacy.cap is None:
        if spec.privacy.allocation.suppress is None:
            suppress = weights_of(spec.value.grid, spec.statistics)  # of errors that suppressing rows must not enlarge
            choices.append(("clip-user", _allocating(spec, replace(spec.privacy.allocation, suppress=suppress)), True))
        if not spec.privacy.allocation.whole_periods:
            together = replace(spec.privacy.allocation, scope="period")  # its slots are planned together
            choices.append(("periods as a whole", _allocating(spec, together), True))
    if not has_positions:
        return choices, ["other resolutions and slot lengths need positions: see --input and --synthetic"]
    impossible = []
    for resolution in (spec.cells.resolution - 1, spec.cells.resolution + 1):
        if 0 <= resolution <= 15:  # H3 has no others
            cells = replace(spec.cells, resolution=resolution)
            choices.append((f"resolution {resolution}", replace(spec, cells=cells), False))
    table = spec.timetable
    for minutes in (Fraction(table.slot_minutes, 2), Fraction(table.slot_minutes * 2)):
        edges = (DAY_MINUTES, *(edge for interval in table.service for edge in interval))
        if minutes.denominator == 1 and all(edge % minutes == 0 for edge in edges):
            changed = replace(spec, timetable=replace(table, slot_minutes=int(minutes)))
            choices.append((f"{minutes}-minute slots", changed, False))
        else:
            impossible.append(f"{float(minutes):g}-minute slots do not fit into slot.service or the day")
    return choices, impossible


def _allocating(spec: Specification, allocation: Allocation) -> Specification:
    return replace(spec, privacy=replace(spec.privacy, allocation=allocation))


def _choice(name: str, spec: Specification, counts: SampleCounts) -> OtherChoice:
    """Forecasts a choice's median errors and spending. counts: in its cells and slots."""
    hats, composed = totals.lay_out(spec, counts)
    sample = _evenly(hats, PER_CHOICE)
    errors = {  # [0]: of a HAT's best candidate mechanism
        stat.name: float(np.median([ranked(spec, stat, hat)[0].error for hat in sample])) for stat in spec.statistics
    }
    return OtherChoice(
        choice=name,
        as_specified=name.endswith(AS_IS),
        epsilon=float(spec.privacy.allocation.epsilon),
        resolution=spec.cells.resolution,
        slot_minutes=spec.timetable.slot_minutes,
        hats=len(hats),
        hats_planned=len(sample),
        median_vehicles=float(np.median([hat.samples.size for hat in hats])),
        forecast_error=errors,
        composed=composed,
    )


def _notes(
    spec: Specification, counts: SampleCounts, statistics: list[StatisticPlan], composed: totals.Composed
) -> list[str]:
    """Lists caveats of a plan's numbers, in sentences."""
    notes, unit, period = [], spec.account.unit, spec.account.unit.removeprefix("vehicle-")
    hats = sum(hat_class.hats for hat_class in statistics[0].classes)
    planned = sum(hat_class.hats_planned for hat_class in statistics[0].classes)
    if planned < hats:
        notes.append(f"{planned:,} of {hats:,} HATs were planned, taken evenly by size; what adds up counts them all")
    if hats > PER_CHOICE:
        notes.append(f"errors of other choices are medians of {PER_CHOICE} HATs, taken evenly by size")
    if not (counts.slots_named and counts.vehicles_named):
        missing = [n for n, named in (("vehicle", counts.vehicles_named), ("slot", counts.slots_named)) if not named]
        notes.append(f"the counts name no {' and no '.join(missing)}, so not all of the composed total is known")
        if spec.privacy.allocation.total is not None and spec.privacy.cap is None:
            notes.append("epsilon per HAT is at best: as if a vehicle took part in one HAT of each slot")
    elif totals.has_several_periods(spec, counts):
        notes.append(
            f"the counts name more slots than a {period} has: what adds up is of all of them, so at most that in one "
            f"period ({unit}); slots named by their start, such as 2026-05-13T08:00, are told apart by period"
        )
    elif counts.days is None:
        period_text = "one day" if unit == "vehicle-day" else f"one period ({unit})"
        notes.append(f"all slots of the counts are taken as those of {period_text}")
    elif len(counts.days) > 1:
        number = len(counts.days)  # `days`: numbers of days, by period
        notes.append(f"the counts are of {number} periods ({unit}); what adds up is of the one in which it is most")
    elif unit == "vehicle-day":
        notes.append("all slots of the counts are those of one day")
    else:
        days = "one day" if counts.days == (1,) else f"{counts.days[0]} days"
        notes.append(f"the counts are of {days}; what adds up in a period ({unit}) is so if days are alike")
    if any(hat_class.noise_scale == 0 for stat in statistics for hat_class in stat.classes):
        notes.append("noise 0: for half or more of these HATs a constant is published, whatever was driven there")
    if totals.may_have_constants(spec):
        notes.append("a constant costs nothing; what adds up counts each HAT as if something was drawn there")
    if spec.privacy.cap is not None:
        notes.append("which samples the cap keeps is drawn anew by a release")
    epsilon, limit = composed.debit_of_a_period.epsilon, spec.account.limit
    if epsilon is None:
        return notes
    spent = Accountant(pure=Fraction(epsilon))
    if not limit.can_add(spent):
        notes.append(f"the account adds up no pure claims such as this epsilon of {epsilon:g}")
    elif limit.shown(spent).epsilon > Fraction(epsilon):  # pure claims are dear on an account that is kept in rho
        notes.append(
            f"the account is kept in rho, where the pure epsilon of {epsilon:g} counts as "
            f"{limit.shown(spent).describe()}: set a part of its limit apart (pure = ..), or use an account "
            "without delta"
        )
    return notes
