"""Array-Averaging: the mean of the means of equal-sized arrays (pseudo-users) that share users' samples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpops.claims import Adjacency
from dpops.forecast import Float64s, Prior, clamped_errors, normal_scores
from dpops.means.arrays import FINE, ArrayPlan, Arrays, Rule, array_means, check_rule, lay_out, spread
from dpops.means.many import Many, errors_around, quotients
from dpops.means.together import lay_out_together, of_one_size, planned, sums_of_means
from dpops.mechanism import Drawn, Integers, Mechanism, Plan, Totals, text, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s


class Noiseless(NamedTuple):
    """A HAT before its noise: its plan as it is stored, the scale, and the exact sum of array means in fine steps."""

    document: dict[str, Any]
    scale: Fraction
    query: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAverage(Mechanism):
    """Groups capped users into arrays, averages the array means, adds noise for the user with the largest share.

    Every slot of a user holds the mean of all the user's samples. All divisions round down to a fine integer grid;
    a user who holds r of an array's w slots then moves its mean by at most ceil(U r / w) fine steps, and the
    sensitivity is the largest sum of those over a user's arrays.
    Source: S0/S1 "Array-Averaging", with the exact sensitivities (erratum E2: published WrapAround is twice too large).
    """

    name: ClassVar[str] = "array-average"
    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    m_ub: Rule = "median"
    grouping: Literal["best-fit", "wrap-around"] = "best-fit"

    def __post_init__(self) -> None:
        check_rule(self.m_ub)

    @classmethod
    def examples(cls) -> Sequence["ArrayAverage"]:
        rules: list[Rule] = ["median", "argmax", "opt", "convex", 3]
        wrapped: list[Rule] = ["median", "argmax"]
        return [cls(m_ub=rule) for rule in rules] + [cls(m_ub=rule, grouping="wrap-around") for rule in wrapped]

    @classmethod
    def candidates(cls) -> Sequence["ArrayAverage"]:
        return [cls(), cls(m_ub="argmax")]

    def plan(self, known: CountsKnown, grid: Grid, epsilon: Fraction) -> ArrayPlan:
        return self._plans([lay_out(known, grid, epsilon, self.m_ub, self.grouping)], grid, epsilon)[0]

    def plans(self, known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[ArrayPlan]:
        if self.grouping != "best-fit":
            return [self.plan(each, grid, epsilon) for each in known]
        return self._plans(lay_out_together(known, grid, epsilon, self.m_ub), grid, epsilon)

    def _plans(self, found: Sequence[Arrays], grid: Grid, epsilon: Fraction) -> list[ArrayPlan]:
        """Steps, by the number of arrays, and scales, by what one user moves, are made once: HATs share them."""
        steps = {n: grid.step / (FINE * n) for n in {laid.facts["arrays"] for laid in found}}
        scales = {moved: moved / epsilon for moved in {laid.moved for laid in found}}
        return [
            ArrayPlan(
                mechanism=self.name,
                epsilon=epsilon,
                step=steps[laid.facts["arrays"]],
                scale=scales[laid.moved],
                upper=grid.upper,
                bias_bound=laid.bias,
                facts={**laid.facts, "sensitivity": laid.moved},
                grouping=laid.grouping,
                weight=laid.weight,
            )
            for laid in found
        ]

    def draw(
        self, totals: Sequence[Totals], reported: Sequence[int], grid: Grid, epsilon: Fraction, noise: Noise
    ) -> list[Drawn]:
        known = [CountsKnown(each.counts, samples) for each, samples in zip(totals, reported, strict=True)]
        found: dict[int, Noiseless] = {}
        for mine in of_one_size(known) if self.grouping == "best-fit" else ():
            sums = np.stack([totals[at].sums for at in mine])
            found |= zip(mine, self._noiseless([known[at] for at in mine], sums, grid, epsilon), strict=True)
        for at in range(len(known)):
            if at not in found:
                plan = self.plan(known[at], grid, epsilon)
                found[at] = Noiseless(plan.document(), plan.scale, int(array_means([totals[at]], [plan]).means.sum()))
        ready = [found[at] for at in range(len(known))]
        noisy = with_noise(np.array([each.query for each in ready], np.int64), [each.scale for each in ready], noise)
        return [Drawn(self.name, each.document, [query]) for each, query in zip(ready, noisy, strict=True)]

    def _noiseless(
        self, known: Sequence[CountsKnown], sums: Int64s, grid: Grid, epsilon: Fraction
    ) -> Iterator[Noiseless]:
        """known: with equally many users. One plan stands for what the documents of all have alike."""
        found = planned(known, grid, epsilon, self.m_ub)
        moved = found.layout.moved.tolist()
        like = self.plan(known[moved.index(max(moved))], grid, epsilon)  # of the most noise: refused beyond its bounds
        document, scales = like.document(), {each: each / epsilon for each in set(moved)}
        steps = {each: text(grid.step / (FINE * each)) for each in set(found.layout.arrays.tolist())}
        texts = {each: text(scale) for each, scale in scales.items()}
        exact = sums_of_means(found, sums, grid).tolist()
        for facts, mover, bias, query in zip(found.facts, moved, found.biases, exact, strict=True):
            own = {"step": steps[facts["arrays"]], "scale": texts[mover], "bias_bound": bias}
            facts["sensitivity"] = mover
            yield Noiseless({**document, **own, "facts": facts}, scales[mover], query)

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:
        bias = spread(plan, counts, prior) * normal_scores(32)
        means = prior.hat_means(float(plan.upper))[:, None]
        return float(clamped_errors(means, float(plan.upper), bias, float(plan.scale * plan.step)).mean())

    def forecasts(self, hats: Many) -> Float64s:
        if self.grouping != "best-fit":
            raise NotImplementedError("only BestFit lays out many HATs together")
        laid = hats.laid(self.m_ub)
        scale = quotients(laid.moved, laid.arrays, hats.grid.step / (FINE * hats.epsilon))
        return errors_around(hats, laid.spread, scale)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        arrays = array_means(totals, plans)
        exact = np.add.reduceat(arrays.means, arrays.first) if plans else arrays.means
        return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]
