"""A statistic with an option, whole: the share of reports above a speed, which no sum of speeds tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops.mechanism import Integers, Mechanism, Plan, Totals, facts_of, stack, with_noise
from dpops.noise import Noise
from dpops.statistics import SHARE, Output, Statistic
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True)
class Faster:
    """Samples of more than so many grid steps."""

    name: str
    above_steps: int

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        return np.bincount(group[steps > self.above_steps], minlength=groups).astype(np.int64)


def needs_faster(_mechanism: Mechanism, grid: Grid, above: Fraction) -> dict[str, Faster]:
    return {"sums": Faster(f"faster than {above}", above // grid.step)}


SHARE_ABOVE = Statistic(
    name="share",
    needs=needs_faster,
    outputs=(Output("share", SHARE),),
    options=("above",),
    default="noisy-share",
)


@dataclass(frozen=True, kw_only=True)
class NoisyShare(Mechanism):
    """The number of samples above, with noise for the user who has the most samples."""

    name = "noisy-share"
    statistics = frozenset({"share"})
    adjacencies = frozenset({"counts-public"})

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[Plan]:
        plans = []
        for hat in hats:
            samples, heaviest = int(hat.counts.sum()), int(hat.counts.max())
            plan = Plan(
                mechanism=self.name,
                epsilon=epsilon,
                step=Fraction(1, samples),
                scale=heaviest / epsilon,
                upper=Fraction(1),
                bias_bound=1 - samples / hat.reported,
                sensitivity=heaviest,
                facts=facts_of(hat, grid),
                rounding=0.0,
            )
            plans.append(plan)
        return plans

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        users = stack(totals, plans)
        exact = np.add.reduceat(users.sums, users.start) if plans else users.sums
        return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]
