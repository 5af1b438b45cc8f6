"""First stage: a noisy vehicle count stops wrong input.

With the level `city` alone, and speeds that are never clipped, a vehicle-day's weight is 1 whatever it did: the stage's
weight counts vehicles. Source: docs/released.md, "The wrong input".
"""

import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

from dpops.levels.bounded import ReleasedStage
from dpops.levels.defaults import Fleet, vehicle_weight
from dpops.levels.stages import UNIT, Stage, alike, scaled

LEAST_PART = Fraction(1, 4)
"""Part of the declared fleet below which a day is stopped."""
MOST_TIMES, NOISE_SDS = 10, 3
"""Multiple of the declared fleet that warns the operator if exceeded by so many standard errors."""
EMPTY_PASSES = 0.01
USUAL_PART, USUAL_STOPS = 0.6, 1e-4
"""A day with this part of the fleet is stopped with this probability at most."""
MOST_SHARE = Fraction(1, 10)
"""Largest part of a vehicle-day's total: a fleet that needs more is too small for such a stage."""
ALPHA, BOUND_KMH = Fraction(1, 100), Fraction(1_000)
"""Speeds get hardly a share, and a bound that none reaches: a clip would lower the weights too."""
_SHARE_STEPS = 1_000
_NORMAL = NormalDist()


def count_stage(like: Stage, vehicles: int, part: Fraction = Fraction(1)) -> Stage | None:
    """Makes the smallest stage detecting empty days, or None.

    like: a stage of the release, with its noise. part: the smallest part of a vehicle-day's total that a day has.
    """
    gap, smallest = USUAL_PART - float(LEAST_PART), float(LEAST_PART)
    if like.kind == "gaussian":
        most_sd = vehicles * min(gap / -_NORMAL.inv_cdf(USUAL_STOPS), smallest / -_NORMAL.inv_cdf(EMPTY_PASSES))
        share = float(like.spread) / (UNIT * most_sd) ** 2 / float(1 - ALPHA)
    else:
        most_scale = vehicles * min(gap / -math.log(2 * USUAL_STOPS), smallest / -math.log(2 * EMPTY_PASSES))
        share = float(like.spread) / (UNIT * most_scale) / float(1 - ALPHA)
    rounded = Fraction(math.floor(share * _SHARE_STEPS) + 1, _SHARE_STEPS)
    if rounded > MOST_SHARE * part:
        return None
    parts = alike((("city", Fraction(1)),))
    return replace(
        like, parts=parts, share=rounded, bound_kmh=BOUND_KMH, alpha=ALPHA, least_norm=0, counts_vehicles=True
    )


def counts_stage(like: Stage, bound: int, exponent: Fraction) -> Stage:
    """Makes a stage of counts, at the full budget.

    bound: clip of the Euclidean norm of a vehicle-day's counts; times it, a group's weight is its count. exponent: 1
    counts reports, 0 vehicles.
    """
    parts, total_share = alike((("hat", Fraction(1)),)), Fraction(1)
    return replace(
        like, parts=parts, share=total_share, bound_kmh=BOUND_KMH, alpha=ALPHA, exponent=exponent, least_norm=bound
    )


def counted_first(count: Stage | None, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Prepends a stage that counts vehicles, scaling the others."""
    if count is None:
        return stages
    remainder = 1 - count.share / sum(stage.share for stage in stages)
    return count, *scaled(stages, remainder)


def vehicles_in(released: ReleasedStage) -> float:
    """Reads the noisy vehicle number off a count stage."""
    return float(released.levels[0].weights[0])


def is_too_few(released: ReleasedStage, vehicles: int) -> bool:
    """Checks whether fewer than LEAST_PART of declared vehicles came."""
    return released.stage.counts_vehicles and vehicles_in(released) < LEAST_PART * vehicles


def is_too_many(released: ReleasedStage, fleet: Fleet) -> bool:
    """Checks whether weights prove over MOST_TIMES the declared vehicles."""
    level = released.levels[0]
    noise = NOISE_SDS * level.weight_sd * math.sqrt(level.weights.size)
    limit = MOST_TIMES * fleet.vehicles * vehicle_weight(released.stage, fleet)
    return float(level.weights.sum()) - noise > limit
