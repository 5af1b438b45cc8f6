"""What an account's releases have taught: a state that is updated day by day, a day's estimates, forecasts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.chances import Chances, expected_vehicles
from dpops.learning.counts import CountProblem, Counts, UsualDay, count_queries, fit_counts
from dpops.learning.design import Design
from dpops.learning.information import Information
from dpops.learning.means import (
    ROUNDS,
    DayInformation,
    Deviations,
    Means,
    SpeedQueries,
    coefficients_of,
    day_information,
    fit_means,
    spread_of,
    traffic_of,
    variances_of,
)
from dpops.learning.queries import GroupRows, Groups
from dpops.learning.releases import DayValues
from dpops.learning.starts import FitStart
from dpops.learning.state import State
from dpops.learning.surprises import UNTOLD, Described, Told, told
from dpops.learning.told_by_speeds import Thought, told_by_speeds
from dpops.learning.whole import NoisyTotals, whole_weight
from dpops.spread import USUAL
from dpops.types import Float64s, Int64s

_ROUGH_ROUNDS = 2
"""Of EM, for means that tell how speeds speak of weights, and where later fits begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What is believed about each HAT of a day, (cells, slots) each.

    values: km/h. variances: of the belief in the HAT's usual mean. deviations: variance of its own mean around that.
    weights, vehicles: expected. log_variances: of the logarithm of both. city_variance: of that of the whole weight.
    unknown: what part of the city's pattern is not known, see `spread_of`. hours: of the slots. day: whose they are.
    unknown_variance, unknown_log_variance: the variances of a HAT of which least is known.
    larger: how many times as large the whole city looks as its fleet was declared.
    explained: see `Told`. floor: of a HAT's own variance, likewise.
    chances: of groups of HATs; a HAT's own follow from the rest.
    repeats: of groups, in how many of their HATs one vehicle is. is_seen: of groups, whether what is released of them
    shows by itself that there are vehicles enough. misweighed: of groups, whether what vehicles that
    stand may weigh decides their mean more than all else does that is not known.
    off_centre_kmh: how far the day's mean lies from that of the centres of its last look; 0 of a day to come.
    """

    values: Float64s
    variances: Float64s
    deviations: Float64s
    weights: Float64s
    vehicles: Float64s
    log_variances: Float64s
    city_variance: float
    unknown: float
    hours: Int64s
    day: Deviations
    unknown_variance: float
    unknown_log_variance: float
    explained: float
    larger: float = 1.0
    floor: float = USUAL.least
    chances: Chances | None = None
    repeats: Float64s | float = 1.0
    is_seen: "np.typing.NDArray[np.bool_] | bool" = True
    misweighed: "np.typing.NDArray[np.bool_] | bool" = False
    off_centre_kmh: float = 0.0


@dataclass(frozen=True, slots=True)
class Learned:
    """The models fitted to a state, and what releases say of them."""

    state: State
    counts: Counts
    means: Means
    recent: "tuple[_Day, ...]"
    told: Told = UNTOLD

    def forecast(self, hours: Int64s) -> Field:
        """Describes a day that is still to come."""
        usual = self.counts.hats(self.state.design, hours)
        return self._field(usual, usual, self.means.unknown_deviations(), hours)

    def estimate(self, back: int = 0) -> Field:
        """Describes the last day that was taken in, or one `back` days before it, by all that is known.

        Raises ValueError for a day that is not kept as released (any more), or before the first one.
        """
        if not 0 <= back < len(self.recent):
            raise ValueError(f"of {len(self.recent)} recent days, none is {back} before the last: there is no estimate")
        described = self.recent[-1 - back]
        usual = self.counts.hats(self.state.design, described.day.hours)
        deviations = self.means.deviations(len(self.means.own) - 1 - back)
        field = self._field(described.weights, usual, deviations, described.day.hours)
        return _with_single_hats(replace(field, off_centre_kmh=_off_centre_kmh(field, described.day)), described)

    def _field(self, weights: Float64s, usual: Float64s, deviations: Deviations, hours: Int64s) -> Field:
        facts = self.state.facts
        traffic, vehicles = traffic_of(usual), weights / facts.hat_weight
        values = _values(self.state.design, self.means, usual, deviations, hours)
        spread = spread_of(self.means, deviations, hours, traffic, weights)
        log_variances = self.counts.variances(hours)
        return Field(
            values=values,
            variances=spread.variances,
            deviations=USUAL.of(vehicles),
            weights=weights,
            vehicles=vehicles,
            log_variances=log_variances,
            city_variance=self.counts.city_variance(hours),
            unknown=spread.unknown,
            hours=hours,
            day=deviations,
            unknown_variance=float(spread.variances.max()),
            unknown_log_variance=float(log_variances.max()),
            larger=facts.larger(weights),
            floor=self.told.floor,
            explained=self.told.explained,
        )

    def described(self) -> list[Described]:
        """Describes all recent days, the last one first, without what is released of single HATs."""
        fields, variances = [], dict[bytes, Float64s]()
        for back, day in enumerate(reversed(self.recent)):
            hours, facts = day.day.hours, self.state.facts
            if hours.tobytes() not in variances:
                variances[hours.tobytes()] = self.counts.variances(hours)
            usual = self.counts.hats(self.state.design, hours)
            deviations = self.means.deviations(len(self.means.own) - 1 - back)
            fields.append(
                Described(
                    day=day.day,
                    weights=day.weights,
                    vehicles=expected_vehicles(day.weights / facts.hat_weight),
                    log_variances=variances[hours.tobytes()],
                    traffic=traffic_of(usual),
                    values=_values(self.state.design, self.means, usual, deviations, hours),
                    deviations=deviations,
                )
            )
        return fields


@dataclass(frozen=True, slots=True)
class _Day:
    """A day, and what it says of means. weights, weight_variances: of its HATs, (cells, slots) each."""

    day: DayValues
    weights: Float64s
    weight_variances: Float64s
    information: DayInformation


def _values(design: Design, means: Means, usual: Float64s, deviations: Deviations, hours: Int64s) -> Float64s:
    """Computes what describes a day's HATs, (cells, slots). usual: their weights."""
    values: Float64s = means.described(design, hours, traffic_of(usual)) + deviations.values[hours]
    return values


def _own_of_sums(state: State, weights: Float64s) -> Float64s:
    """Computes what HATs' own deviations add to the variance of sums, (cells, slots)."""
    own: Float64s = weights**2 * USUAL.of(weights / state.facts.hat_weight)
    return own


def taken_in(state: State, day: DayValues) -> State:
    """Takes a day into the state. When twice the recent days are kept, the older half is folded in as understood now.

    Earlier ones are forgotten by and by: each time FORGOTTEN of what they said is lost. From then on fits begin
    where these end.
    """
    state = replace(state, days=state.days + 1, recent=(*state.recent, day))
    if state.least_recent is None or len(state.recent) < 2 * state.least_recent:
        return state
    older, recent = state.recent[: state.least_recent], state.recent[state.least_recent :]
    now, roughly, days = _understood(state)
    kept = 1 - fitted.FORGOTTEN
    counts, means = state.counts.times(kept), None if state.means is None else state.means.times(kept)
    for old, day_understood in zip(older, days, strict=False):
        counts = counts + _count_information(state, old, now)
        means = day_understood.information if means is None else means + day_understood.information
    start = FitStart(now.start(_older_totals(state, older, now)), roughly.solved.smoothness)
    return replace(state, recent=recent, counts=counts, means=means, start=start)


def learned(state: State) -> Learned:
    """Fits counts first, then means; a function of the state alone."""
    counts, _, days = _understood(state)
    means = _fitted_means(state, days)
    untold = Learned(state, counts, means, tuple(days))
    return replace(untold, told=told(untold.means, untold.described(), state.rows.speeds))


def _understood(state: State) -> tuple[Counts, Means, list[_Day]]:
    """Fits the counts of all days, then once more with what sums of speeds say of weights around rough means; and says
    what each recent day then says about means."""
    problem = _count_problem(state, state.recent)
    counts = fit_counts(problem)
    days = _days(state, counts)
    roughly = _fitted_means(state, days, most_rounds=_ROUGH_ROUNDS)
    said = _said_by_speeds(state, counts, roughly, days)
    counts = fit_counts(replace(problem, speeds=count_queries(said, state.rows.counts)), near=counts)
    return counts, roughly, _days(state, counts)


def _said_by_speeds(state: State, counts: Counts, means: Means, days: Sequence[_Day]) -> list[DayValues]:
    said = []
    for index, day in enumerate(days, len(means.own) - len(days)):
        hours, deviations = day.day.hours, means.deviations(index)
        usual = counts.hats(state.design, hours)
        hats = Thought(
            weights=day.weights,
            values=_values(state.design, means, usual, deviations, hours),
            variances=variances_of(means, deviations, hours, traffic_of(usual)[..., None]),
            own=_own_of_sums(state, day.weights),
        )
        said.append(told_by_speeds(day.day, hats, state.rows.speeds))
    return said


def _days(state: State, counts: Counts) -> list[_Day]:
    leans = _leans(state, counts)
    return [_understood_day(state, day, counts, leans) for day in state.recent]


def _fitted_means(state: State, recent: Sequence[_Day], most_rounds: int = ROUNDS) -> Means:
    older = [] if state.means is None else [state.means]
    start = None if state.start is None else state.start.means
    days = [*older, *(day.information for day in recent)]
    return fit_means(state.rows.speeds.layout, days, start=start, most_rounds=most_rounds)


def _count_problem(state: State, days: Sequence[DayValues]) -> CountProblem:
    """Sets up the fit of counts. days: those whose sums are looked at, of the recent ones."""
    expected, sd = _expected_weight(state)
    return CountProblem(
        layout=state.rows.counts.layout,
        usual=UsualDay.of([day.hours for day in state.recent]),
        expected=expected,
        expected_sd=sd,
        queries=count_queries(days, state.rows.counts),
        earlier=state.counts,
        start=None if state.start is None else state.start.counts,
    )


def _expected_weight(state: State) -> tuple[float, float]:
    """Estimates a usual day's whole weight, and the standard deviation of its logarithm.

    By the vehicles that were counted on recent days, else by those declared.
    """
    facts, counted = state.facts, NoisyTotals()
    for level in (level for day in state.recent for level in day.counted):
        counted += NoisyTotals.of(float(level.weights[0, 0]), float(1 / level.weight_precision[0, 0]))
    if not counted.precision:
        return fitted.KEPT * facts.vehicles * facts.vehicle_weight, fitted.ANCHOR_SD
    vehicles = whole_weight(facts.vehicles * facts.vehicle_weight, fitted.ANCHOR_SD, counted)
    return fitted.COUNTED_KEPT * vehicles.middle, math.sqrt(fitted.COUNTED_SD**2 + vehicles.log_variance)


def _count_information(state: State, day: DayValues, counts: Counts) -> Information:
    """Adds up what one day says about the counts' effects, made linear where they are now."""
    total = Information.none(state.rows.counts.layout)
    for query in count_queries([day], state.rows.counts):
        total = total + query.linear(counts.effects, counts.hats(state.design, query.hours))
    return total


def _older_totals(state: State, older: Sequence[DayValues], now: Counts) -> NoisyTotals:
    """Adds up what totals of days that are folded in say, and of those before, in the weight of the surface."""
    problem = _count_problem(state, older)
    return problem.totals(now.effects, 1 - fitted.FORGOTTEN).scaled(1 / problem.weight(now.effects))


def _understood_day(state: State, day: DayValues, counts: Counts, leans: "_LeansOf") -> _Day:
    """Reads what a day says about means, once the weights of its HATs are known. leans: see `_leans`."""
    usual = counts.hats(state.design, day.hours)
    (weights, weight_variances), parts = _day_weights(state, day, counts, usual), coefficients_of(traffic_of(usual))
    deviations, rows = _own_of_sums(state, weights), state.rows.speeds
    queries = []
    for stage in day.looks:
        for level in stage.levels:
            mean = weights * leans(level.groups, day.hours)
            values = level.speeds + level.groups.totals(mean * stage.centre)
            spread = level.speed_variance + level.groups.totals(deviations)
            hats = mean[..., None] * parts
            queries.append(SpeedQueries(rows(level.groups, day.hours), hats, values.ravel(), spread.ravel()))
    return _Day(day, weights, weight_variances, day_information(rows.layout, queries))


_LeansOf = Callable[[Groups, Int64s], Float64s]


def _leans(state: State, counts: Counts) -> _LeansOf:
    """Makes `Counts.mean_over_likeliest` of each kind of groups once: on a usual day."""
    made: dict[GroupRows, Float64s] = {}

    def leans(groups: Groups, hours: Int64s) -> Float64s:
        of_groups = state.rows.counts(groups, hours)
        if of_groups not in made:
            made[of_groups] = counts.mean_over_likeliest(of_groups, counts.hats(state.design, hours))
        return made[of_groups]

    return leans


def _day_weights(state: State, day: DayValues, counts: Counts, usual: Float64s) -> tuple[Float64s, Float64s]:
    """Estimates the weights of a day's HATs, and how far they may lie from that, as variances.

    They are the usual weights times the day's own factor by hour, and its own where single HATs were released.
    """
    weights = usual
    for level in day.levels:
        if level.groups.shape == (1, day.hours.size):
            total = np.maximum(weights.sum(axis=0), 1e-9)
            gain = _gain(fitted.OVERDISPERSION * total**2, level.weight_precision[0])
            weights = weights * np.clip(1 + gain * (level.weights[0] / total - 1), 0.2, 5.0)
    variances = weights * (fitted.OVERDISPERSION * weights + state.facts.hat_weight)
    of_hats = [level for level in day.levels if level.groups.shape == weights.shape]
    if of_hats:
        variances = variances + weights**2 * counts.variances(day.hours)
    for level in of_hats:
        gain = _gain(variances, level.groups.spread(level.weight_precision))
        weights = np.maximum(weights + gain * (level.groups.spread(level.weights) - weights), 0.05 * weights)
        variances = (1 - gain) * variances
    return weights, variances


def _gain(variance: Float64s, precision: Float64s) -> Float64s:
    """Computes what part of an observation's surprise is believed."""
    part: Float64s = variance * precision / (1 + variance * precision)
    return part


def _off_centre_kmh(field: Field, day: DayValues) -> float:
    """Computes how far a day's believed mean lies from the mean of its last look's centres."""
    if not day.looks:
        return 0.0
    return abs(float(np.average(field.values - day.looks[-1].centre, weights=field.weights)))


def _with_single_hats(field: Field, described: _Day) -> Field:
    """Adds what a release of single HATs says about their own means.

    A released sum is weight times (mean - centre), and the weight is not known for certain. What that adds to its noise
    grows with how far the mean lies from the centre.
    """
    values, left = field.values, field.deviations
    for stage in described.day.looks:
        for level in stage.levels:
            if level.groups.shape == values.shape:
                around = values - stage.centre
                noise = 1 / level.groups.spread(level.speed_precision)
                noise = noise + described.weight_variances * (left + around**2)
                part = _gain(field.weights**2 * left, 1 / noise)
                own = level.groups.spread(level.speeds) / field.weights - around
                values, left = values + part * own, left * (1 - part)
    return replace(field, values=values, deviations=left)
