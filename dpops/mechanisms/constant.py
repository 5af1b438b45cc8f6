"""A free constant, for HATs that noise would drown."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops.forecast import HatCounts, Prior
from dpops.means.forecasts import errors_around
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, facts_of, stack, values_of
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Mechanism):
    """Constant: the prior's mean, or U/2 without a prior.

    A function of public facts alone: epsilon 0. The plan holds the released integer, so that anybody can see that it
    depends on nothing else. Its worst bias is the distance to the farther end of [0, U], dropped samples included.
    Source: S4 Theorem III.1, where T = 0 is the constant U/2.
    """

    name = "constant"
    example_options = ({}, {"prior": Prior(20.0, 12.0)})
    may_be_constant = True

    prior: Prior | None = None

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
        """Plans constants, which spend nothing of epsilon."""
        step, max_steps, nothing = grid.step / 2, 2 * grid.upper_steps, Fraction(0)  # in half steps U/2 is whole
        for hat in hats:
            check_plan_input(hat.counts, hat.reported, max_steps, epsilon)
        steps = grid.upper_steps if self.prior is None else min(max(round(self.prior.mean / float(step)), 0), max_steps)
        bias = float(step * max(steps, max_steps - steps))
        return [
            Plan(
                mechanism=self.name,
                epsilon=nothing,
                step=step,
                scale=nothing,
                upper=grid.upper,
                bias_bound=bias,
                sensitivity=0,
                facts={**facts_of(hat, grid), "constant": steps},
                rounding=0.0,
            )
            for hat in hats
        ]

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts how far a HAT's mean, by the prior, lies from the constant."""
        plan = self.plan(CountsKnown.all_of(hats.counts[0][0]), hats.grid, hats.epsilon)  # equal for all HATs
        # The constant less each equally likely mean, (means, 1): of the forecasts' prior, the same few for all HATs.
        offset = values_of([[plan.facts["constant"]]], [plan]) - hats.prior.hat_means(hats.upper)[:, None]
        # Of a HAT's samples around such a mean, (HATs,). In matrices of counts, (HATs, users), users weigh by samples.
        sd = hats.of_each(lambda counts: hats.prior.spread(counts / counts.sum(axis=1)[:, None], counts))
        return errors_around(hats, sd, scale=np.zeros(sd.size), offset=offset)  # without noise

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:  # noqa: ARG002
        """Returns the planned constants, without noise."""
        stack(totals, plans)  # raises ValueError if they contradict each other
        return [[plan.facts["constant"]] for plan in plans]
