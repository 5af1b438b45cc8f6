"""How much weight each HAT gets: a smooth log-linear surface fitted to noisy sums by penalised Gauss-Newton."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.assembly import PartInformation, system_of
from dpops.learning.covariances import hat_variances, usual_hours
from dpops.learning.design import HOURS, Design, Smoothness
from dpops.learning.information import Information, Wide
from dpops.learning.layout import EffectLayout
from dpops.learning.queries import GroupRows
from dpops.learning.system import Solved, learned_smoothness
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(
    cells=fitted.COUNT_CELLS, hours=fitted.COUNT_HOURS, parents=fitted.COUNT_PARENTS, off=fitted.COUNT_DAYS_OFF
)
USUAL_DAY = np.zeros(HOURS)
USUAL_DAY[: len(fitted.NIGHT)] = fitted.NIGHT
"""Logarithm of what fleets do in each hour before anything is known: less at night."""
_STEPS, _FROM_START = 14, 6
_MOST_STEP = 1.5
_SMALL_STEP = 2e-2
_SMALL_CHANGE = 0.03
_FAR = 30.0


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

    def linear(self, effects: Float64s, hats: Float64s) -> Information:
        """What the values say where the effects are near these; hats: the weights that they describe."""
        rows = self.rows(hats)
        return rows.information(self.precision(hats), rows.applied(effects) + self.misses(hats))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountProblem:
    """What the surface is fitted to.

    hours: int64 (slots,), of a usual day. anchor: that day's total weight as declared, > 0. earlier: what was learned
    from releases that are not among the queries any more.
    """

    layout: EffectLayout
    hours: Int64s
    anchor: float
    queries: Sequence[CountQueries]
    earlier: Information

    def hats(self, effects: Float64s, hours: Int64s) -> Float64s:
        return weights_of(self.layout.design, effects, hours)

    def linear(self, effects: Float64s) -> Information:
        """The queries and the anchor, made linear at these effects (Gauss-Newton)."""
        predicted = self._anchored(effects)
        for query in self.queries:
            predicted = predicted + query.linear(effects, self.hats(effects, query.hours))
        return predicted

    def precisions(self, effects: Float64s) -> list[Float64s]:
        return [query.precision(self.hats(effects, query.hours)) for query in self.queries]

    def cost(self, effects: Float64s, precisions: Sequence[Float64s], smoothness: Smoothness) -> float:
        """Twice the negative log-likelihood and log-prior, with the variances held where a step begins."""
        cost = (self._off(self.hats(effects, self.hours)) / fitted.ANCHOR_SD) ** 2
        cost += self.earlier.cost(self.layout, effects) + smoothness.cost(self.layout.design, effects)
        for query, precision in zip(self.queries, precisions, strict=True):
            cost += float(precision @ query.misses(self.hats(effects, query.hours)) ** 2)
        return cost

    def _off(self, usual: Float64s) -> float:
        return float(np.log(self.anchor) - np.log(usual.sum()))

    def _anchored(self, effects: Float64s) -> Information:
        """One wide row: the usual day's whole weight is about the anchor."""
        layout, usual = self.layout, self.hats(effects, self.hours)
        row = _share_row(layout, usual, self.hours)[None]
        value = row @ effects + self._off(usual)
        wide = Wide(row[:, layout.local], row[:, layout.border], np.array([fitted.ANCHOR_SD**-2]), value)
        return replace(Information.none(layout), wide={b"anchor": wide})


class Start(NamedTuple):
    """Where a fit begins: effects, (columns,), and how strongly they are held together."""

    effects: Float64s
    smoothness: Smoothness


@dataclass(frozen=True, slots=True)
class Counts:
    """A fitted surface: its effects, (columns,), in logarithms of weight, and what their covariances are made of."""

    effects: Float64s
    solved: Solved

    @property
    def start(self) -> Start:
        """Effects and smoothness that the next fit begins with."""
        return Start(self.effects, self.solved.smoothness)

    @property
    def border(self) -> Float64s:
        """Where the lasting border stands in the whole one, see `GroupRows.variances`."""
        return np.eye(self.solved.system.layout.border.size, self.solved.border.size)

    def mean_over_likeliest(self, rows: GroupRows, weights: Float64s) -> Float64s:
        """How many times as large a group's weight is on average as the likeliest one, at each HAT, (cells, slots).

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
        """Weight of each HAT on a usual day, (cells, slots)."""
        return weights_of(design, self.effects, hours)

    def variances(self, hours: Int64s) -> Float64s:
        """Variance of the logarithm of each HAT's weight, (cells, slots)."""
        return hat_variances(self.solved, usual_hours(self.solved)).variances[:, hours]

    def city_variance(self, hours: Int64s) -> float:
        """Variance of the logarithm of a usual day's whole weight."""
        layout, usual = self.solved.system.layout, self.hats(self.solved.system.layout.design, hours)
        row = _share_row(layout, usual, hours)
        border = np.zeros(self.solved.border.size)
        border[: layout.border.size] = row[layout.border]
        local, at_border = self.solved.times(row[layout.local], border)
        return max(float(row[layout.local] @ local + border @ at_border), 0.0)


def _share_row(layout: EffectLayout, usual: Float64s, hours: Int64s) -> Float64s:
    """How the logarithm of the whole weight changes with each effect, (columns,)."""
    columns = layout.design.of_hats(hours)
    spread = np.repeat(usual.ravel(), columns.shape[-1])
    row: Float64s = np.bincount(columns.ravel(), spread, layout.width) / usual.sum()
    return row


def weights_of(design: Design, effects: Float64s, hours: Int64s) -> Float64s:
    weights: Float64s = np.exp(np.clip(design.described(effects, hours) + USUAL_DAY[hours % HOURS], -_FAR, _FAR))
    return weights


def fit_counts(problem: CountProblem, start: Start | None = None) -> Counts:
    """Fits the surface and its smoothness together: a step of each in turn. start: None begins at the anchor."""
    effects, smoothness = start or _anchor(problem)
    step = np.zeros(effects.size)
    for _ in range(_STEPS if start is None else _FROM_START):
        solved = _solved(problem, smoothness, effects)
        before, step = step, solved.effects - effects
        effects = _damped(problem, smoothness, effects, _shortened(step, before))
        stronger = learned_smoothness(solved, effects, DEFAULT.of(problem.layout.design)).beyond(smoothness)
        is_settled = np.abs(step).max() < _SMALL_STEP and stronger.is_near(smoothness, _SMALL_CHANGE)
        smoothness = stronger
        if is_settled:
            break
    return Counts(effects, _solved(problem, smoothness, effects))


def _anchor(problem: CountProblem) -> Start:
    effects = np.zeros(problem.layout.width)
    effects[0] = np.log(problem.anchor / problem.hats(effects, problem.hours).sum())
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
    largest = float(np.abs(problem.layout.design.described(step, problem.hours)).max())
    size, before = min(1.0, _MOST_STEP / max(largest, 1e-12)), problem.cost(effects, precisions, smoothness)
    for _ in range(8):
        if problem.cost(effects + size * step, precisions, smoothness) < before:
            return effects + size * step
        size /= 2
    return effects
