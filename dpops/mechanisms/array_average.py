"""Array-Averaging and OPT-Array-Averaging: mean of the means of equal-sized arrays (pseudo-users)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from dpops.forecast import HatCounts
from dpops.means import arrays as layouts
from dpops.means.arrays import FINE_PER_STEP, Rule
from dpops.means.forecasts import errors_around, errors_of_weights, laid_out, quotients
from dpops.mechanism import Drawn, Hats, Integers, Mechanism, Plan, Totals, noisy_integers, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAverage(Mechanism):
    """Noisy mean of array means, over capped, grouped users.

    Every sample of a user counts as the mean of all the user's. All divisions round down to a fine integer grid; a user
    with r of an array's w samples then moves its mean by at most ceil(U r / w) fine steps, and the sensitivity is the
    largest sum of those over a user's arrays. `layouts`: dpops.means.arrays, which groups users.
    Source: S0/S1 "Array-Averaging", with the exact sensitivities (erratum E2: published WrapAround is twice too large).
    """

    name = "array-average"
    example_options = tuple({"m_ub": rule} for rule in ("median", "argmax", "opt", "convex", 3)) + tuple(
        {"m_ub": rule, "grouping": "wrap-around"} for rule in ("median", "argmax")
    )
    candidate_options = ({}, {"m_ub": "argmax"})

    m_ub: Rule = "median"
    grouping: Literal["best-fit", "wrap-around"] = "best-fit"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[layouts.ArrayPlan]:
        """Plans arrays by best fit or wrapping."""
        if self.grouping == "best-fit":
            laid = layouts.lay_out_together(hats, grid, epsilon, self.m_ub)
        else:
            laid = [layouts.lay_out_wrapped(hat, grid, epsilon, self.m_ub) for hat in hats]
        return layouts.array_plans(self.name, laid, grid, epsilon, noise_epsilon=epsilon)  # all of it is the noise's

    def draw(self, hats: Hats, grid: Grid, epsilon: Fraction, noise: Noise) -> Drawn:
        """Draws as `Mechanism.draw` does, but all best-fit HATs in vectors (without split users)."""
        if self.grouping != "best-fit" or not len(hats):
            return Mechanism.draw(self, hats, grid, epsilon, noise)  # of users in two arrays, HAT by HAT
        # Rows of the HATs' users in the totals, which may be of more HATs.
        row = np.repeat(hats.first - (np.cumsum(hats.users) - hats.users), hats.users) + np.arange(hats.users.sum())
        counts, sums = hats.totals.counts[row], hats.totals.sums[row]
        plans = layouts.planned(counts, hats.users, hats.reported, grid, epsilon, self.m_ub)
        if np.any(sums < 0) or np.any(sums > counts * grid.upper_steps):
            raise ValueError("totals do not fit their plans: sums outside [0, count * U]")
        laid, array_sums = plans.layout, np.zeros(plans.layout.fills.size, np.int64)  # fills: samples by array
        np.add.at(array_sums, laid.array, sums * FINE_PER_STEP // counts * laid.samples)  # users' means, by samples
        exact = np.add.reduceat(array_sums // laid.fills, laid.first_array)
        sensitivities, hat_facts = laid.sensitivity.tolist(), plans.facts
        scales = {sensitivity: sensitivity / epsilon for sensitivity in set(sensitivities)}
        steps = {arrays: grid.step / (FINE_PER_STEP * arrays) for arrays in set(laid.arrays.tolist())}
        # `Plan` checks the most noise. Documents are copies with a HAT's step, scale, bias and facts (sensitivity too).
        common = Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=max(steps.values()),
            scale=scales[max(scales)],
            upper=grid.upper,
            bias_bound=0.0,
            sensitivity=max(scales),
            facts=hat_facts[0],
        ).document()
        scale_texts, step_texts = ({key: str(value) for key, value in table.items()} for table in (scales, steps))
        documents = [
            {
                **common,
                "step": step_texts[facts["arrays"]],
                "scale": scale_texts[facts["sensitivity"]],
                "bias_bound": bias_bound,
                "facts": facts,
            }
            for facts, bias_bound in zip(hat_facts, plans.bias.tolist(), strict=True)
        ]
        noisy = with_noise(exact, [scales[sensitivity] for sensitivity in sensitivities], noise)
        return Drawn([self.name] * len(hats), documents, [[query] for query in noisy])

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors by HAT: noise, and bias of weights unlike shares of samples."""
        if self.grouping != "best-fit":  # only best fits are laid out for all HATs at once
            plans = self.plans(list(hats), hats.grid, hats.epsilon)
            weights = zip((plan.weight for plan in plans), (hat.counts for hat in hats), strict=True)
            return errors_of_weights(hats, plans, (weight - counts / counts.sum() for weight, counts in weights))
        laid = laid_out(hats, self.m_ub)
        scale = quotients(laid.sensitivity, laid.arrays, factor=hats.grid.step / (FINE_PER_STEP * hats.epsilon))
        return errors_around(hats, laid.grouping_sd, scale)  # of a normal bias of that sd, and Laplace noise

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws the noisy sum of array means per HAT."""
        arrays = layouts.array_means(totals, plans)
        return noisy_integers(np.add.reduceat(arrays.means, arrays.first), plans, noise)


_OPT_AVERAGE = ArrayAverage(m_ub="opt")


@dataclass(frozen=True, slots=True)
class OptArray(Mechanism):
    """Array-Averaging (BestFit) at the length of least worst-case error.

    That is U (1 - S(m) / n) + U m / (epsilon S(m)); from epsilon 1 on no user is clipped, so it is close to the
    baseline (erratum E15). Source: S1 "OPT-Array-Averaging".
    """

    name = "opt-array"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[layouts.ArrayPlan]:
        """Plans arrays as best-fit array averages do."""
        return [replace(plan, mechanism=self.name) for plan in _OPT_AVERAGE.plans(hats, grid, epsilon)]

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors as array averages do."""
        return _OPT_AVERAGE.forecasts(hats)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws as array averages do."""
        return _OPT_AVERAGE.release(totals, plans, noise)
