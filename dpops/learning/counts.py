"""How much weight each HAT gets: a smooth log-linear surface fitted to noisy sums by penalised Gauss-Newton."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.assembly import PartInformation, system_of
from dpops.learning.covariances import hat_variances, usual_hours
from dpops.learning.design import HOURS, Design, Smoothness
from dpops.learning.information import Information, Wide
from dpops.learning.layout import EffectLayout
from dpops.learning.queries import GroupRows, RowMaker
from dpops.learning.releases import DayValues, LevelValues
from dpops.learning.starts import Start
from dpops.learning.system import Solved, learned_smoothness
from dpops.learning.whole import NoisyTotals, Whole, whole_weight
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(
    cells=fitted.COUNT_CELLS, hours=fitted.COUNT_HOURS, parents=fitted.COUNT_PARENTS, off=fitted.COUNT_DAYS_OFF
)
USUAL_DAY = np.zeros(HOURS)
USUAL_DAY[: len(fitted.NIGHT)] = fitted.NIGHT
"""Logarithm of what fleets do in each hour before anything is known: less at night."""
_STEPS, _FROM_START, _ONCE_MORE = 14, 6, 3
_MOST_STEP = 1.5
_SMALL_STEP = 2e-2
_SMALL_CHANGE = 0.03
_FAR = 30.0
_HELD = 0.02
"""Standard deviation of the logarithm of a whole weight that is held."""


@dataclass(frozen=True, slots=True)
class CountQueries:
    """Noisy sums over groups, all releases together that have the same groups of the same hours.

    mean: (queries,), weighted by precision. variances: (releases, queries), the noise of each release.
    """

    rows: GroupRows
    hours: Int64s
    mean: Float64s
    variances: Float64s

    def precision(self, hats: Float64s) -> Float64s:
        own = fitted.OVERDISPERSION * self.rows.groups.totals(hats * hats).ravel() + 1e-9
        total: Float64s = np.sum(1 / (self.variances + own), axis=0)
        return total

    def misses(self, hats: Float64s) -> Float64s:
        missed: Float64s = self.mean - self.rows.groups.totals(hats).ravel()
        return missed

    def totals(self, hats: Float64s, usual: float) -> NoisyTotals:
        """Reads a usual day's whole weight off the sum over all groups; hats: as the surface has them now."""
        return NoisyTotals.of(
            float(self.mean.sum()), float(np.sum(1 / self.precision(hats))), float(hats.sum()) / usual
        )

    def linear(self, effects: Float64s, hats: Float64s) -> Information:
        """Makes what the values say linear where the effects are near these; hats: the weights that they describe."""
        rows = self.rows(hats)
        return rows.information(self.precision(hats), rows.applied(effects) + self.misses(hats))


def count_queries(days: Sequence[DayValues], rows: RowMaker) -> list[CountQueries]:
    """Makes one of each kind of groups in these days' looks."""
    by_level: dict[int, tuple[GroupRows, Int64s, list[LevelValues]]] = {}
    for day in days:
        for level in day.levels:
            made = rows(level.groups, day.hours)
            by_level.setdefault(id(made), (made, day.hours, []))[2].append(level)
    queries = []
    for made, hours, levels in by_level.values():
        precision = np.stack([level.weight_precision.ravel() for level in levels])
        values = np.stack([level.weights.ravel() for level in levels])
        mean = np.sum(precision * values, axis=0) / np.maximum(np.sum(precision, axis=0), 1e-300)
        queries.append(CountQueries(made, hours, mean, 1 / np.maximum(precision, 1e-300)))
    return queries


@dataclass(frozen=True, slots=True, kw_only=True)
class CountProblem:
    """What the surface is fitted to.

    usual: what a usual day is made of. expected: that day's whole weight before any sum is looked at, > 0, e to the
    power of expected_sd more or less. earlier: what was learned from releases that are not among the queries any more.
    start: where the fit begins; None begins at what is expected. speeds: what sums of speeds say of weights (see
    `dpops.learning.told_by_speeds`), which moves the surface and makes nothing surer.
    """

    layout: EffectLayout
    usual: "UsualDay"
    expected: float
    expected_sd: float
    queries: Sequence[CountQueries]
    earlier: Information
    start: Start | None = None
    speeds: Sequence[CountQueries] = ()

    def hats(self, effects: Float64s, hours: Int64s) -> Float64s:
        return weights_of(self.layout.design, effects, hours)

    def whole(self, effects: Float64s) -> Whole:
        """Estimates a usual day's whole weight, by totals alone, where the surface has its pattern.

        Weights are above 0, so a group's follows its noise upwards alone, and the likeliest surface of a city under
        heavy noise weighs too much, up to three times; the noise of a total has the mean 0.
        """
        return whole_weight(self.expected, self.expected_sd, self.totals(effects))

    def totals(self, effects: Float64s, part: float = 1.0) -> NoisyTotals:
        """Adds up what totals say of a usual day's whole weight.

        part: how much counts of what totals before those of the queries say.
        """
        usual = self.weight(effects)
        told = (
            NoisyTotals()
            if self.start is None
            else self.start.totals.scaled(self.weight(self.start.effects)).times(part)
        )
        for query in self.queries:
            told += query.totals(self.hats(effects, query.hours), usual)
        return told

    def weight(self, effects: Float64s) -> float:
        return self.usual.weight(self.layout.design, effects)

    def held(self, effects: Float64s) -> "CountProblem":
        """Holds the whole weight at what is believed of it."""
        return replace(self, expected=self.whole(effects).mean, expected_sd=_HELD)

    def linear(self, effects: Float64s) -> Information:
        """Makes the queries and the anchor linear at these effects (Gauss-Newton)."""
        predicted = self._anchored(effects)
        for query in self._all:
            predicted = predicted + query.linear(effects, self.hats(effects, query.hours))
        return predicted

    def precisions(self, effects: Float64s) -> list[Float64s]:
        return [query.precision(self.hats(effects, query.hours)) for query in self._all]

    def cost(self, effects: Float64s, precisions: Sequence[Float64s], smoothness: Smoothness) -> float:
        """Computes twice the negative log-likelihood and log-prior, with the variances held where a step begins."""
        cost = (math.log(self.expected / self.weight(effects)) / self.expected_sd) ** 2
        cost += self.earlier.cost(self.layout, effects) + smoothness.cost(self.layout.design, effects)
        for query, precision in zip(self._all, precisions, strict=True):
            cost += float(precision @ query.misses(self.hats(effects, query.hours)) ** 2)
        return cost

    @property
    def _all(self) -> Sequence[CountQueries]:
        return (*self.queries, *self.speeds)

    def _anchored(self, effects: Float64s) -> Information:
        """Says in one wide row that the usual day's whole weight is about what is expected."""
        layout = self.layout
        row = self.usual.row(layout, effects)[None]
        value = row @ effects + math.log(self.expected / self.weight(effects))
        wide = Wide(row[:, layout.local], row[:, layout.border], np.array([self.expected_sd**-2]), value)
        return replace(Information.none(layout), wide={b"anchor": wide})


@dataclass(frozen=True, slots=True)
class UsualDay:
    """The mean of recent days. kinds: what part of them is of a kind, and the hours of these, int64 (slots,)."""

    kinds: tuple[tuple[float, Int64s], ...]

    @staticmethod
    def of(days: Sequence[Int64s]) -> "UsualDay":
        """Averages days whose hours are these; before any, takes a whole day."""
        keys = [hours.tobytes() for hours in days]
        parts = tuple((keys.count(key) / len(keys), hours) for key, hours in dict(zip(keys, days, strict=True)).items())
        return UsualDay(parts or ((1.0, np.arange(HOURS)),))

    def weight(self, design: Design, effects: Float64s) -> float:
        return sum(part * float(weights_of(design, effects, hours).sum()) for part, hours in self.kinds)

    def row(self, layout: EffectLayout, effects: Float64s) -> Float64s:
        """Computes how the logarithm of its whole weight changes with each effect, (columns,)."""
        rows, whole = np.zeros(layout.width), 0.0
        for part, hours in self.kinds:
            weights = weights_of(layout.design, effects, hours)
            whole += part * float(weights.sum())
            columns = layout.design.of_hats(hours)
            rows += part * np.bincount(columns.ravel(), np.repeat(weights.ravel(), columns.shape[-1]), layout.width)
        return rows / whole


@dataclass(frozen=True, slots=True)
class Counts:
    """A fitted surface: its effects, (columns,), in logarithms of weight, and what their covariances are made of."""

    effects: Float64s
    solved: Solved
    whole: Whole
    usual: UsualDay

    def start(self, totals: NoisyTotals) -> Start:
        """Makes what the next fit begins with. totals: see `Start`."""
        return Start(self.effects, self.solved.smoothness, totals)

    @property
    def border(self) -> Float64s:
        """Where the lasting border stands in the whole one, see `GroupRows.variances`."""
        return np.eye(self.solved.system.layout.border.size, self.solved.border.size)

    def mean_over_likeliest(self, rows: GroupRows, weights: Float64s) -> Float64s:
        """Computes how many times as large a group's weight is on average as the likeliest one, by HAT, (cells, slots).

        A released sum of speeds is about the mean weight; with less, a place of which hardly anything is known would be
        given a speed far from its centre. Where nothing is released the logarithm has a normal law, whose variance v is
        the level's largest, and the mean is exp(v / 2) times the middle. What noise leaves is precise on the weight's
        own scale and leans little: at a variance of s it is about exp(s^2 / 2 v).
        """
        groups = rows.groups
        variances = rows(weights / groups.spread(groups.totals(weights))).variances(self.solved, self.border)
        mean = np.exp(variances**2 / (2 * max(float(variances.max()), 1e-12)))
        return groups.spread(mean.reshape(groups.shape))

    def hats(self, design: Design, hours: Int64s) -> Float64s:
        """Computes the weight of each HAT on a usual day, (cells, slots)."""
        return weights_of(design, self.effects, hours)

    def variances(self, hours: Int64s) -> Float64s:
        """Computes the variance of the logarithm of each HAT's weight, (cells, slots)."""
        return hat_variances(self.solved, usual_hours(self.solved)).variances[:, hours]

    def city_variance(self, hours: Int64s) -> float:
        """Computes the variance of the logarithm of the whole weight of a day of these hours.

        It adds that of a usual day's and that of how the two differ.
        """
        layout = self.solved.system.layout
        row = UsualDay.of([hours]).row(layout, self.effects) - self.usual.row(layout, self.effects)
        border = np.zeros(self.solved.border.size)
        border[: layout.border.size] = row[layout.border]
        local, at_border = self.solved.times(row[layout.local], border)
        return self.whole.log_variance + max(float(row[layout.local] @ local + border @ at_border), 0.0)


def weights_of(design: Design, effects: Float64s, hours: Int64s) -> Float64s:
    weights: Float64s = np.exp(np.clip(design.described(effects, hours) + USUAL_DAY[hours % HOURS], -_FAR, _FAR))
    return weights


def fit_counts(problem: CountProblem, near: Counts | None = None) -> Counts:
    """Fits the surface and its smoothness together: a step of each in turn, the whole held at what totals say.

    near: another fit to begin with.
    """
    start = near.start(NoisyTotals()) if near is not None else problem.start or _expected(problem)
    effects, smoothness, step = start.effects.copy(), start.smoothness, np.zeros(start.effects.size)
    effects[0] += math.log(problem.whole(effects).mean / problem.weight(effects))  # steps from afar would go astray
    steps = _ONCE_MORE if near is not None else _STEPS if problem.start is None else _FROM_START
    for _ in range(steps):
        held = problem.held(effects)
        solved = _solved(held, smoothness, effects)
        before, step = step, solved.effects - effects
        effects = _damped(held, smoothness, effects, _shortened(step, before))
        stronger = learned_smoothness(solved, effects, DEFAULT.of(problem.layout.design)).beyond(smoothness)
        is_settled = np.abs(step).max() < _SMALL_STEP and stronger.is_near(smoothness, _SMALL_CHANGE)
        smoothness = stronger
        if is_settled:
            break
    sure = replace(problem, speeds=())
    return Counts(effects, _solved(sure, smoothness, effects), problem.whole(effects), problem.usual)


def _expected(problem: CountProblem) -> Start:
    effects = np.zeros(problem.layout.width)
    effects[0] = math.log(problem.expected / problem.weight(effects))
    return Start(effects, DEFAULT.of(problem.layout.design))


def _shortened(step: Float64s, before: Float64s) -> Float64s:
    """Goes as far as the last two steps say that the goal is: they go to and fro where noise is below 0."""
    ratio = float(step @ before) / max(float(before @ before), 1e-12)
    return step / (1 - min(max(ratio, -1.0), 0.0))


def _solved(problem: CountProblem, smoothness: Smoothness, effects: Float64s) -> Solved:
    nothing = np.zeros(problem.layout.border.size)
    parts = [PartInformation(problem.earlier), PartInformation(problem.linear(effects))]
    return system_of(problem.layout, nothing, nothing, parts).solved(smoothness)


def _damped(problem: CountProblem, smoothness: Smoothness, effects: Float64s, step: Float64s) -> Float64s:
    """Goes along the step as far as the cost falls."""
    precisions = problem.precisions(effects)
    design = problem.layout.design
    largest = max(float(np.abs(design.described(step, hours)).max()) for _, hours in problem.usual.kinds)
    size, before = min(1.0, _MOST_STEP / max(largest, 1e-12)), problem.cost(effects, precisions, smoothness)
    for _ in range(8):
        if problem.cost(effects + size * step, precisions, smoothness) < before:
            return effects + size * step
        size /= 2
    return effects
