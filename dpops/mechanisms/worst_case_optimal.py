"""Worst-case-optimal bounding: heavy users' sums are clipped around U/2, so that worst bias plus noise is least."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dpops.claims import Adjacency
from dpops.forecast import Float64s, Prior, clamped_errors, normal_scores
from dpops.means.forecasts import Many, groups_of, quotients
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, stack, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCaseOptimal(Mechanism):
    """Clips each user's sum to T around its middle: to [(U m - T) / 2, (U m + T) / 2] where U m > T.

    T is the k-th largest U m, k = ceil(2 / epsilon), or 0 if there are fewer users (the release is then U/2: nothing is
    drawn, so it costs nothing). Every user's samples stand at the user's mean. If 2 / epsilon is an integer, every T
    from the (k+1)-th to the k-th largest is as good in the worst case; `tie` takes the largest or the smallest, which
    is better on average.
    `constant` takes T = 0 whatever epsilon is.
    Integers are in half grid steps, so that the bounds are whole; one user moves their sum by at most 2 T.
    Source: S4 Theorem III.1; the worst bias of both sides (erratum E3) agrees there with the published one.
    """

    name: ClassVar[str] = "worst-case-optimal"
    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    tie: Literal["largest", "smallest"] = "largest"
    constant: bool = False

    @property
    def may_be_constant(self) -> bool:
        return True

    @classmethod
    def examples(cls) -> Sequence["WorstCaseOptimal"]:
        return [cls(), cls(tie="smallest")]

    @classmethod
    def candidates(cls) -> Sequence["WorstCaseOptimal"]:
        return cls.examples()

    def plan(self, known: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        counts, reported = known
        check_plan_input(counts, reported, 2 * grid.upper_steps, epsilon)
        ordered = np.sort(counts)[::-1]
        rank = self._rank(epsilon)
        is_noisy = rank <= counts.size and not self.constant
        bound = grid.upper_steps * int(ordered[rank - 1]) if is_noisy else 0
        samples = int(counts.sum())
        clipped = np.maximum(counts * grid.upper_steps - bound, 0)
        clipping = Fraction(int(clipped.sum()), 2 * samples) * grid.step
        bias = clipping + grid.upper * (1 - Fraction(samples, reported)) if bound else grid.upper / 2
        return Plan(
            mechanism=self.name,
            epsilon=epsilon if bound else Fraction(0),
            step=grid.step / (2 * samples),
            scale=2 * bound / epsilon,
            upper=grid.upper,
            bias_bound=float(bias),
            facts={
                "users": counts.size,
                "samples": samples,
                "heaviest": int(ordered[0]),
                "reported": reported,
                "upper_steps": grid.upper_steps,
                "bound": bound,
                "sensitivity": 2 * bound,
                **({} if bound else {"constant": samples * grid.upper_steps}),
            },
        )

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:
        upper, samples = float(plan.upper), plan.facts["samples"]
        half = plan.facts["bound"] * upper / plan.facts["upper_steps"] / (2 * counts)
        heavy = half < upper / 2
        share, sd, reach = counts[heavy] / samples, prior.mean_sd(counts[heavy]), half[heavy]
        means = prior.hat_means(upper)[:, None]
        first, second = _moments(means, sd, upper, reach, is_noisy=plan.facts["bound"] > 0)
        bias = (share * first).sum(axis=1)
        spread = np.sqrt(np.maximum((share**2 * (second - first**2)).sum(axis=1), 0.0))
        around = bias[:, None] + spread[:, None] * normal_scores(32)
        return float(clamped_errors(means, upper, around, float(plan.scale * plan.step)).mean())

    def forecasts(self, hats: Many) -> Float64s:
        return np.concatenate([self._forecasts(hats, counts) for counts in hats.counts])

    def _forecasts(self, hats: Many, counts: Int64s) -> Float64s:
        """counts: (HATs, users)."""
        upper, samples, rank = hats.upper, counts.sum(axis=1), self._rank(hats.epsilon)
        is_noisy = rank <= counts.shape[1] and not self.constant
        bound = hats.grid.upper_steps * counts[:, rank - 1] if is_noisy else np.zeros(len(counts), np.int64)
        scale = quotients(bound, samples, hats.grid.step / hats.epsilon)
        half = (bound * upper / hats.grid.upper_steps)[:, None] / (2 * counts)
        found, means = np.zeros(len(counts)), hats.prior.hat_means(upper)[:, None]
        for heavy, mine in groups_of(np.count_nonzero(half < upper / 2, axis=1)):  # counts descend: the first ones
            own, reach = counts[mine, None, :heavy], half[mine, None, :heavy]
            share, sd = own / samples[mine, None, None], hats.prior.mean_sd(own)
            first, second = _moments(means, sd, upper, reach, is_noisy=is_noisy)
            bias = (share * first).sum(axis=2)
            spread = np.sqrt(np.maximum((share**2 * (second - first**2)).sum(axis=2), 0.0))
            around = bias[:, :, None] + spread[:, :, None] * normal_scores(32)
            errors = clamped_errors(means, upper, around, scale[mine, None, None])
            found[mine] = errors.reshape(mine.size, -1).mean(axis=1)
        return found

    def _rank(self, epsilon: Fraction) -> int:
        """The place of T among the users' largest sums."""
        rank = math.ceil(2 / epsilon)
        return rank + 1 if self.tie == "smallest" and rank * epsilon == 2 else rank

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        users = stack(totals, plans)
        if not plans:
            return []
        bound, upper, number = (
            np.array([plan.facts[name] for plan in plans], np.int64) for name in ("bound", "upper_steps", "users")
        )
        most = users.counts * np.repeat(upper, number)
        bound = np.repeat(bound, number)
        kept = np.clip(2 * users.sums, most - bound, most + bound)
        exact = np.add.reduceat(kept, users.start)
        return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]


def _moments(
    means: Float64s, sd: Float64s, upper: float, reach: Float64s, *, is_noisy: bool
) -> tuple[Float64s, Float64s]:
    """First and second moment of what clipping to U / 2 -+ reach does to users' means."""
    if not is_noisy:  # a constant: every user's mean becomes U / 2
        return upper / 2 - means, (upper / 2 - means) ** 2 + sd**2
    return _clipping(means, sd, upper / 2 - reach, upper / 2 + reach)


def _clipping(mean: Float64s, sd: Float64s, low: Float64s, high: Float64s) -> tuple[Float64s, Float64s]:
    """First and second moment of clip(X, low, high) - X for X normal; float64 (means, users)."""
    width = np.maximum(sd, 1e-9)
    raised, raised_square = _excess((low - mean) / width, sd)
    lowered, lowered_square = _excess((mean - high) / width, sd)
    return raised - lowered, raised_square + lowered_square


def _excess(at: Float64s, sd: Float64s) -> tuple[Float64s, Float64s]:
    """First and second moment of sd * max(0, at - N(0, 1))."""
    density = np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    below = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in at.ravel().tolist()]).reshape(at.shape)
    return sd * (at * below + density), sd * sd * ((at * at + 1) * below + at * density)
