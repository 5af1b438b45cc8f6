"""Laplace mechanism on the variance of retained samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import truediv

import numpy as np

from dpops import mechanism
from dpops.forecast import HatCounts, clamped_errors, normal_scores
from dpops.means.capping import CapRule, CountCap, chosen, retained, weights
from dpops.means.forecasts import BIAS_POINTS
from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.noise import Noise
from dpops.suppression.search import Ratio, variance_bias, variance_sensitivity
from dpops.types import CountsKnown, Float64s, Grid

RANGE = 1 << 30  # steps of the released integer from variance 0 to U^2 / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineVariance(Mechanism):
    """Noisy population variance V, from counts, sums and squares.

    The integer is floor(V RANGE / (U^2 / 4)) of the exact rational V. As floor(a) - floor(b) <= ceil(a - b), one user
    moves it by at most ceil(RANGE Delta_var / (U^2 / 4)); at least 1 is assumed, so that nothing is without noise.
    m_ub: "none" keeps whole users; a number caps each by scaling its moments; "opt" minimises worst bias plus noise.
    Source: slides S2, errata E1 and E6; algorithms 9.1, and 9.4 for the cap; dpops.suppression.search.

    Sensitivity with a cap. One user holds t = k* / K of the weight, and any distribution Q on [0, U] of mean q; the
    others' is P of mean p. V = (1-t) Var P + t Var Q + t (1-t) (p-q)^2 is least where Q is all at p. So with U = 1 it
    moves by at most t (q (1-q) + (1-t) (p-q)^2), which is convex in p, and at p = 0 is t (q - t q^2): at most t (1-t)
    if t < 1/2, else 1/4. Scaled moments are those of a distribution, but not of K samples: no refinement for odd K.
    Bias with a cap. The weights released and the true ones agree but for t (CountCap.moved_weight), so both variances
    are of a mixture of one common P with t of a Q each: the same bound holds. Without a cap it is that of 9.1.
    """

    name = "baseline-variance"
    statistics = frozenset({"variance"})
    example_options = ({}, {"m_ub": "opt"}, {"m_ub": 3})
    candidate_options = ({}, {"m_ub": "opt"})

    m_ub: CapRule = "none"

    def plan(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        """Plans one noisy variance, in units of its highest value over RANGE."""
        counts, reported = hat
        mechanism.check_plan_input(counts, reported, grid.upper_steps**2, epsilon)
        rate = float(epsilon)  # below, `_bias` and `_sensitivity` are (numerator, denominator), as parts of U^2 / 4
        cap = chosen(self.m_ub, counts, reported, lambda cap: truediv(*_bias(cap)) + truediv(*_sensitivity(cap)) / rate)
        numerator, denominator = _sensitivity(cap)
        sensitivity = max(1, -(-RANGE * numerator // denominator))
        upper = grid.upper**2 / 4
        # |Var(x + e) - Var(x)| for |e| <= step / 2: twice the covariance is at most 2 (U / 2) (step / 2).
        rounding = grid.upper * grid.step / 2 + grid.step**2 / 4
        return Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=upper / RANGE,
            scale=sensitivity / epsilon,
            upper=upper,
            bias_bound=float(upper * Fraction(*_bias(cap))),
            sensitivity=sensitivity,
            facts={**mechanism.facts_of(hat, grid), **cap.facts()},
            rounding=float(rounding + upper / RANGE),  # the floor takes less than one unit of 1 / RANGE
        )

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors of the variance by HAT."""
        plans = self.plans(list(hats), hats.grid, hats.epsilon)
        prior, errors = hats.prior, []
        for plan, (counts, _) in zip(plans, hats, strict=True):
            upper, true_shares, shares = float(plan.upper), counts / plan.facts["samples"], weights(plan, counts)
            # Mean of (sample - HAT's mean)^2, less the squared error of the weighted mean: by true, by planned weights.
            variance, released = (prior.sd**2 - prior.spread(s, counts).item() ** 2 for s in (true_shares, shares))
            sd = prior.of_squares().spread(shares - true_shares, counts)  # of the bias by users' wrong weights
            variance = min(variance, upper)
            bias = min(released, upper) - variance + sd * normal_scores(BIAS_POINTS)
            errors.append(clamped_errors(variance, upper, bias, float(plan.scale * plan.step)).mean())
        return np.array(errors)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws noisy variances, as multiples of the largest possible one over RANGE."""
        users = mechanism.stack(totals, plans)
        squares = np.concatenate([total.squares for total in totals]) if totals else users.sums
        if [total.squares.size for total in totals] != [total.counts.size for total in totals]:
            raise ValueError("totals do not fit their plans: a variance needs the sum of squares of every user")
        users_of_hat = np.diff(users.start, append=users.counts.size)
        upper = np.repeat(np.array([plan.facts["upper_steps"] for plan in plans], np.int64), users_of_hat)
        mean, over = np.divmod(users.sums, users.counts)  # so many samples are one step above the rounded mean
        full, remainder = np.divmod(users.sums, upper)  # so many samples at U, and one at the remainder
        # Least if all samples are the mean rounded down or up, most if all but one are 0 or U; none reaches 2**63.
        min_squares = mean * (users.sums + over) + over
        max_squares = full * upper * upper + remainder * remainder
        if np.any(squares < min_squares) or np.any(squares > max_squares):
            raise ValueError("totals do not fit their plans: no samples within [0, U] have these sums of squares")
        sums = retained(users, [users.sums, squares], plans)
        exact = []  # Python's integers, of any size
        for (denominator, (total, square)), plan in zip(sums, plans, strict=True):
            # floor(V RANGE / (U^2 / 4)), V = (K d q - s^2) / (K d)^2: denominator d, square q, total s, samples K d
            samples = plan.facts.get("kept", plan.facts["samples"]) * denominator  # kept: samples below a cap
            exact.append(4 * RANGE * (samples * square - total * total) // (samples * plan.facts["upper_steps"]) ** 2)
        return mechanism.noisy_integers(np.array(exact, np.int64), plans, noise)


def _sensitivity(cap: CountCap) -> Ratio:
    """Divides the sensitivity by the largest variance, U^2 / 4."""
    return variance_sensitivity(cap.max_count, cap.samples, whole_users=cap.is_uncapped)


def _bias(cap: CountCap) -> Ratio:
    """Divides worst bias by the largest variance, U^2 / 4."""
    moved, total = cap.moved_weight  # a share of weight, moved / total, that acts as if so many samples were dropped
    return variance_bias(total - moved, total, whole_users=cap.is_uncapped)
