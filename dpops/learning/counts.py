"""How much weight each HAT gets: a smooth log-linear surface fitted to noisy sums by penalised Gauss-Newton."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpops.learning.design import HOURS, Design, Smoothness
from dpops.learning.information import Information, inverse, solved
from dpops.learning.queries import GroupRows
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(cells=0.2, hours=1.5, parents=3.0)
OVERDISPERSION = 0.1
"""Variance of a group's own weight around the surface, per sum of squared HATs."""
USUAL_DAY = np.zeros(HOURS)
USUAL_DAY[:6] = -1.5, -2.0, -2.0, -2.0, -1.5, -0.7
"""Logarithm of what fleets do in each hour before anything is known: less at night."""
ANCHOR_SD = 0.7
"""How far, in logarithms, a day's whole weight may be from what the declared fleet makes of it."""
_STEPS = 14
_MOST_STEP = 1.5
_SMALL_STEP = 1e-3
_ROUNDS = 2
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
        own = OVERDISPERSION * self.rows.groups.totals(hats * hats).ravel() + 1e-9
        total: Float64s = np.sum(1 / (self.variances + own), axis=0)
        return total

    def misses(self, hats: Float64s) -> Float64s:
        missed: Float64s = self.mean - self.rows.groups.totals(hats).ravel()
        return missed


@dataclass(frozen=True, slots=True, kw_only=True)
class CountProblem:
    """What the surface is fitted to.

    hours: int64 (slots,), of a usual day. anchor: that day's total weight as declared, > 0. earlier: what was learned
    from releases that are not among the queries any more.
    """

    design: Design
    hours: Int64s
    anchor: float
    queries: Sequence[CountQueries]
    earlier: Information

    def hats(self, effects: Float64s, hours: Int64s) -> Float64s:
        return weights_of(self.design, effects, hours)

    def normal(self, effects: Float64s) -> tuple[Float64s, Float64s]:
        """Gauss-Newton information and gradient of everything but the smoothness."""
        usual = self.hats(effects, self.hours)
        row = self._share_row(usual)
        information = np.outer(row, row) / ANCHOR_SD**2 + self.earlier.matrix
        gradient = row * self._off(usual) / ANCHOR_SD**2 + self.earlier.vector - self.earlier.matrix @ effects
        for query in self.queries:
            hats = self.hats(effects, query.hours)
            rows, precision = query.rows(hats), query.precision(hats)
            information += rows.gram(precision)
            gradient += rows.project(precision * query.misses(hats))
        return information, gradient

    def precisions(self, effects: Float64s) -> list[Float64s]:
        return [query.precision(self.hats(effects, query.hours)) for query in self.queries]

    def cost(self, effects: Float64s, precisions: Sequence[Float64s]) -> float:
        """Twice the negative log-likelihood, with the variances held where a step begins."""
        cost = (self._off(self.hats(effects, self.hours)) / ANCHOR_SD) ** 2
        cost += float(effects @ self.earlier.matrix @ effects - 2 * self.earlier.vector @ effects)
        for query, precision in zip(self.queries, precisions, strict=True):
            cost += float(precision @ query.misses(self.hats(effects, query.hours)) ** 2)
        return cost

    def _off(self, usual: Float64s) -> float:
        return float(np.log(self.anchor) - np.log(usual.sum()))

    def _share_row(self, usual: Float64s) -> Float64s:
        columns = self.design.of_hats(self.hours)
        spread = np.repeat(usual.ravel(), columns.shape[-1])
        row: Float64s = np.bincount(columns.ravel(), spread, self.design.columns) / usual.sum()
        return row


@dataclass(frozen=True, slots=True)
class Counts:
    """A fitted surface: its effects, (columns,), in logarithms of weight, and their covariance."""

    effects: Float64s
    covariance: Float64s

    def hats(self, design: Design, hours: Int64s) -> Float64s:
        """Weight of each HAT on a usual day, (cells, slots)."""
        return weights_of(design, self.effects, hours)

    def variances(self, design: Design, hours: Int64s) -> Float64s:
        """Variance of the logarithm of each HAT's weight, (cells, slots)."""
        columns = design.of_hats(hours)
        total = sum(
            self.covariance[columns[..., one], columns[..., other]]
            for one in range(columns.shape[-1])
            for other in range(columns.shape[-1])
        )
        return np.maximum(total, 0.0)


def weights_of(design: Design, effects: Float64s, hours: Int64s) -> Float64s:
    weights: Float64s = np.exp(np.clip(design.described(effects, hours) + USUAL_DAY[hours], -_FAR, _FAR))
    return weights


def fit_counts(problem: CountProblem) -> Counts:
    """Fits the surface and its smoothness. It always starts from the anchor, never from another day's fit."""
    effects = np.zeros(problem.design.columns)
    effects[0] = np.log(problem.anchor / problem.hats(effects, problem.hours).sum())
    smoothness = DEFAULT
    for at in range(_ROUNDS):
        prior = smoothness.matrix(problem.design)
        effects = _climbed(problem, prior, effects)
        covariance = inverse(problem.normal(effects)[0] + prior)
        if at + 1 < _ROUNDS:
            smoothness = smoothness.learned(problem.design, effects, covariance, DEFAULT)
    return Counts(effects, covariance)


def _climbed(problem: CountProblem, prior: Float64s, effects: Float64s) -> Float64s:
    for _ in range(_STEPS):
        information, gradient = problem.normal(effects)
        step = solved(information + prior, gradient - prior @ effects)
        effects = _damped(problem, prior, effects, step)
        if np.abs(step).max() < _SMALL_STEP:
            break
    return effects


def _damped(problem: CountProblem, prior: Float64s, effects: Float64s, step: Float64s) -> Float64s:
    """Goes along the step as far as the cost falls."""
    precisions = problem.precisions(effects)

    def cost(at: Float64s) -> float:
        return float(at @ prior @ at) + problem.cost(at, precisions)

    largest = float(np.abs(problem.design.described(step, problem.hours)).max())
    size, before = min(1.0, _MOST_STEP / max(largest, 1e-12)), cost(effects)
    for _ in range(8):
        if cost(effects + size * step) < before:
            return effects + size * step
        size /= 2
    return effects
