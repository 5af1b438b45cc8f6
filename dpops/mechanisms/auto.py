"""Mechanism `auto`: for each HAT the best by forecast."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from dpops.forecast import HatCounts, Prior
from dpops.means.arrays import FINE_PER_STEP, SAFE_PRODUCT
from dpops.mechanism import DECIDES, Integers, Mechanism, Plan, PlanError, Totals, check_totals, forecast_of_one
from dpops.mechanisms import registered
from dpops.mechanisms.constant import Constant
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid, Int64s


class RankedPlan(NamedTuple):
    """One candidate for a HAT, with its forecast error."""

    error: float
    mechanism: Mechanism
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Mechanism):
    """Choice per HAT of the mechanism with best forecast.

    statistic: the one to release; candidates are the mechanisms that can. prior: mean and standard deviation of single
    samples, in units, publicly known; without one, forecasts are of the worst case. Counts, U, epsilon and the prior
    decide, so under counts-public the choice costs nothing; the plan names the mechanism. Where that is a constant, the
    HAT costs nothing at all. Source: docs/mechanisms.md.
    """

    name = "auto"
    statistics = frozenset({"mean", "variance"})
    may_be_constant = True
    example_options = tuple(
        {"statistic": name, "prior": prior} for name in ("mean", "variance") for prior in (None, Prior(20.0, 12.0))
    )
    candidate_options = ()

    prior: Prior | None = None
    statistic: Literal["mean", "variance"] = field(default="mean", metadata={DECIDES: True})

    def ranking(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> list[RankedPlan]:
        """Ranks candidates by forecast, then epsilon, then name."""
        ranked, refusal = [], PlanError("auto: no mechanism to choose from")
        hats = None if self.prior is None else HatCounts.of([hat], grid, epsilon, self.prior)[0]
        for mechanism in _candidates(self.statistic, self.prior):
            try:
                plan = mechanism.plan(hat, grid, epsilon)
            except PlanError as reason:  # its noise is beyond bounds; a constant has none
                refusal = reason
                continue
            error = plan.error() if hats is None else mechanism.forecasts(hats).item()  # without a prior: worst case
            ranked.append(RankedPlan(error, mechanism, plan))
        if not ranked:
            raise refusal
        return sorted(ranked, key=lambda ranked: (ranked.error, ranked.plan.epsilon))  # stable: they come by name

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
        """Plans means of HATs far within bounds, where no plan fails, together."""
        # At n <= `max_n` samples the largest scale, 4 U n fine steps / epsilon, is far below a plan's 2**50 steps.
        max_n = min(SAFE_PRODUCT, int((1 << 48) * epsilon) // (4 * FINE_PER_STEP)) // grid.upper_steps
        usual_indices = [
            index
            for index, (counts, reported) in enumerate(hats)  # counts descend
            if self.statistic == "mean" and counts.size and counts[-1] >= 1 and counts.sum() <= reported <= max_n
        ]
        usual_hats = [hats[index] for index in usual_indices]
        plan_of: dict[int, Plan] = {}
        if usual_hats and self.prior is not None:
            counts, order = HatCounts.of(usual_hats, grid, epsilon, self.prior)  # order: indices of `usual_hats`
            for mechanism, chosen in self._chosen(counts):  # chosen: HATs in the order of `counts`
                indices = [usual_indices[index] for index in order[chosen].tolist()]  # of `hats`
                plan_of |= zip(indices, mechanism.plans([hats[index] for index in indices], grid, epsilon), strict=True)
        elif usual_hats:
            # A private choice, as of a bound, may be off by all of U: the constant U/2 is off by half of it at most.
            safe = (candidate for candidate in _candidates(self.statistic) if not candidate.chooses)
            by_hat = zip(*(candidate.plans(usual_hats, grid, epsilon) for candidate in safe), strict=True)
            best = [min(plans, key=lambda plan: (plan.error(), plan.epsilon)) for plans in by_hat]
            plan_of |= zip(usual_indices, best, strict=True)
        return [plan_of.get(index) or self.ranking(hat, grid, epsilon)[0].plan for index, hat in enumerate(hats)]

    def _chosen(self, hats: HatCounts) -> list[tuple[Mechanism, Int64s]]:
        """Lists candidates, with the HATs where they rank first."""
        candidates = _candidates(self.statistic, self.prior)
        errors = np.array([candidate.forecasts(hats) for candidate in candidates])
        best = errors.min(axis=0)
        # Of equal errors a plan that draws nothing wins: it spends nothing, so its cost is 0, else 1.
        costs = []  # by HAT. One HAT tells of all in its matrix of `hats.counts`: numbers of users decide
        for candidate in candidates:
            firsts = [CountsKnown.all_of(counts[0]) for counts in hats.counts if candidate.may_be_constant]
            is_drawn = [not plan.is_constant for plan in candidate.plans(firsts, hats.grid, hats.epsilon)]
            is_drawn = is_drawn or [True] * len(hats.counts)  # a candidate that always draws has no plans here
            costs.append(np.repeat(is_drawn, [len(counts) for counts in hats.counts]))
        choice = np.where(errors == best, np.array(costs, np.int64), 2).argmin(axis=0)  # 2: not the best
        return [(mechanism, np.flatnonzero(choice == index)) for index, mechanism in enumerate(candidates)]

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts each HAT's error by its chosen mechanism."""
        chosen = [(hat, self.ranking(hat, hats.grid, hats.epsilon)[0].mechanism) for hat in hats]
        return np.array([forecast_of_one(best, hat, hats.grid, hats.epsilon, hats.prior) for hat, best in chosen])

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws each HAT by its planned mechanism, of any options: these decide plans alone."""
        check_totals(totals, plans)
        released: list[Integers] = [[] for _ in plans]
        by_name = {candidate.name: candidate for candidate in _candidates(self.statistic)}
        for name in sorted({plan.mechanism for plan in plans}):
            hats = [hat for hat, plan in enumerate(plans) if plan.mechanism == name]
            integers_of_hats = by_name[name].release([totals[hat] for hat in hats], [plans[hat] for hat in hats], noise)
            for hat, integers in zip(hats, integers_of_hats, strict=True):
                released[hat] = integers
        return released


@cache
def _candidates(statistic: str, prior: Prior | None = None) -> tuple[Mechanism, ...]:
    """Lists all mechanisms' variants for a statistic; the constant takes the prior."""
    # Trees, which release a whole distribution, have other outputs.
    kinds = [kind for kind in registered().values() if statistic in kind.statistics and kind.outputs == Auto.outputs]
    candidates = [candidate for kind in kinds for candidate in kind.candidates()]
    return tuple(Constant(prior=prior) if isinstance(variant, Constant) else variant for variant in candidates)
