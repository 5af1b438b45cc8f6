"""Stages of a period's parts: speed classes, places, live slots, and the first count.

A stage of classes has weights alone, of a cell's class where one of means has a HAT's. Each part is a stage with a norm
of its own: in one norm with levels of hours it would take most of it. Source: docs/released.md, "Under a small total".
"""

import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from dpops.levels.bounded import ReleasedStage, Rows
from dpops.levels.defaults import Fleet, Profile, vehicle_weight
from dpops.levels.stages import CLASS, PLACE, UNIT, Kind, Part, PublicHats, Stage, alike, scaled, shares_of, with_last
from dpops.types import Grid, Int64s

STANDING_KMH = 1  # below it a vehicle stands: a class of its own
MOVING = 4
"""Weight of a moving vehicle's report, where a standing one's is 1. Standing ones are often half of all, many at one
end of a line, and would take most of a norm; means tell their number too."""


def class_edges(classes: int, grid: Grid) -> tuple[int, ...]:
    """Lists inner edges of equally wide classes above standing, in grid steps. Raises ValueError."""
    standing_edge = max(round(STANDING_KMH / grid.step), 1)
    width = Fraction(grid.upper_steps - standing_edge, classes - 1)
    edges = tuple(standing_edge + round(width * index) for index in range(classes - 1))
    if len(set(edges)) < len(edges) or width < standing_edge:  # classes empty, or narrower than standing
        raise ValueError(f"{classes} classes of speeds need an upper bound above {classes * STANDING_KMH} km/h")
    return edges


def with_classes(stages: tuple[Stage, ...], share: Fraction, edges: tuple[int, ...]) -> tuple[Stage, ...]:
    """Appends a stage of speed classes; the others give it this share of theirs."""
    parts = alike(((CLASS, Fraction(1)),))  # its only level has all of the stage's share
    last = replace(stages[-1], parts=parts, alpha=Fraction(0), classes=edges, least_norm=0)
    # Weights get all (alpha 0). Reports count as they are (exponent 1), on short days too (no least norm). There are no
    # speeds, so the bound is a dummy.
    return with_last(stages, replace(last, bound_kmh=Fraction(1), exponent=Fraction(1)), share)


def hats_of_classes(hats: PublicHats, classes: int) -> PublicHats:
    """Replaces cells by classes, whose parents are the cells."""
    cells = tuple(cell for cell in range(hats.cells) for _ in range(classes))
    return PublicHats(parents=cells, grandparents=cells, hours=hats.hours)


def times_of(classes: int) -> Int64s:
    """Lists a report's weight in each class: moving reports count MOVING times."""
    return np.array([1] + [MOVING] * (classes - 1), np.int64)


def rows_of_classes(vehicle: Int64s, cell: Int64s, counts: Int64s) -> Rows:
    """Sums a day's reports by vehicle, cell and class, a moving report MOVING times.

    vehicle, cell: int64 (rows,), ascending by both. counts: int64 (rows, classes), numbers of reports.
    """
    classes = counts.shape[1]
    starts = np.flatnonzero((np.diff(vehicle, prepend=vehicle[:1]) != 0) | (np.diff(cell, prepend=-1) != 0))
    weighted = np.add.reduceat(counts, starts, axis=0) * times_of(classes)  # (pairs of vehicle and cell, classes)
    pair, class_ = np.nonzero(weighted)
    row = starts[pair]
    zeros = np.zeros(row.size, np.int64)  # the day is the only slot, and speeds are not summed
    return Rows(vehicle[row], cell[row] * classes + class_, zeros, weighted[pair, class_], zeros)


PLACE_BOUND_KMH, PLACE_ALPHA, PLACE_EXPONENT = Fraction(7), Fraction(17, 20), Fraction(1)
"""Source: docs/released.md. A place's mean is over reports: a smaller exponent would favour vehicles that pass fast."""


def with_places(stages: tuple[Stage, ...], share: Fraction) -> tuple[Stage, ...]:
    """Appends a stage of places; the others give it this share of theirs."""
    parts = alike(((PLACE, Fraction(1)),))  # one level has all of the stage's share, of weights as of speeds
    last = replace(stages[-1], parts=parts, alpha=PLACE_ALPHA, classes=(), least_norm=0)  # no classes, no least norm
    return with_last(stages, replace(last, bound_kmh=PLACE_BOUND_KMH, exponent=PLACE_EXPONENT), share)


LIVE_BOUND_KMH, LIVE_ALPHA = Fraction(9), Fraction(9, 10)  # clip of a vehicle's residuals in a slot; part of speeds


def live_stage(kind: Kind, spread: Fraction, epsilon: Fraction, share: Fraction | None = None) -> Stage:
    """Makes the stage of a period's live slots (docs/released.md).

    epsilon: the period's total. share: of it; by default as in _DEFAULTS.
    """
    if share is not None and not 0 < share < 1:
        raise ValueError("share must be above 0 and below 1: the period's end needs the rest")
    default_share, speeds, weights = _DEFAULTS[kind, epsilon >= 10]  # shares of levels; from 10 on of fine ones
    of_speeds, of_weights, nothing = dict(speeds), dict(weights), Fraction(0)
    names = of_speeds | of_weights  # a level may have a share of only one
    return Stage(
        kind=kind,
        spread=spread,
        parts=tuple(Part(name, of_speeds.get(name, nothing), of_weights.get(name, nothing)) for name in names),
        share=Fraction(default_share) if share is None else share,
        bound_kmh=LIVE_BOUND_KMH,
        alpha=LIVE_ALPHA,  # speeds' part of the share; weights have the rest
    )


def of_slot(live: Stage, slots: int) -> Stage:
    """Derives a slot's stage from that of all slots, of an equal share each."""
    return replace(live, share=live.share / slots)


_HOURS = shares_of(hour="1")
_FINE = shares_of(hour=".1", parent_hour=".2", cell_hour=".7"), shares_of(hour=".3", cell_hour=".7")
_DEFAULTS = {
    ("gaussian", False): (".3", shares_of(hour=".3", parent_hour=".3", cell_hour=".4"), _HOURS),
    ("gaussian", True): (".7", *_FINE),
    ("laplace", False): (".4", shares_of(hour=".8", parent_hour=".2"), _HOURS),
    ("laplace", True): (".3", shares_of(hour=".5", parent_hour=".5"), _HOURS),
}
"""By noise, and whether the total is 10 or more: share of the total; shares of levels of speeds, and of weights."""


def slot_weight(stage: Stage, profile: Profile) -> float:
    """Estimates a vehicle's weight in a live HAT, relative to that on a day.

    Neither weight is clipped. On a typical day a vehicle's weight of 1 is shared equally by its HATs.
    """
    hats = max(profile.hats / profile.hours, 1.0)  # of a vehicle in a slot, as long as an hour
    if stage.kind == "laplace":  # n equal weights of norm 1 are 1 / n each
        return profile.hats / hats  # a HAT's weight in a slot, 1 / hats, by that on a day
    # Groups that it touches in a slot; of parents, each is visited in two parts of the day (`Profile.touched`). Levels'
    # parts of the squared norm, over these: equal weights of norm 1 add up to 1 / the root of the sum of `squares`.
    touched = {"hour": 1.0, "cell-hour": hats, "parent-hour": min(hats, max(2 * profile.parents / profile.hours, 1.0))}
    squares = [
        float(stage.alpha * level.speed_share + (1 - stage.alpha) * level.weight_share) / touched[level.name]
        for level in stage.levels
    ]
    return profile.hats / hats / math.sqrt(sum(squares))  # 1 / hats of a slot's weight, by 1 / profile.hats of a day's


LEAST_PART = Fraction(1, 4)  # part of the declared fleet below which a day is stopped
MOST_TIMES, NOISE_SDS = 10, 3  # the operator is warned beyond so many declared fleets, by so many standard errors
EMPTY_PASSES = 0.01  # largest probability that an empty day is not stopped
USUAL_PART, USUAL_STOPS = 0.6, 1e-4  # a day of this part of the fleet is stopped with at most this probability
MOST_SHARE = Fraction(1, 10)  # of a vehicle-day's total: a fleet that needs more is too small for such a stage
COUNT_ALPHA, COUNT_BOUND_KMH = Fraction(1, 100), Fraction(1_000)
"""Speeds get hardly a share, and a bound that none reaches: a clip would lower the weights too."""
_SHARE_STEPS = 1_000  # a count's share is rounded up to so many parts of the total
_NORMAL = NormalDist()


def count_stage(stage: Stage, vehicles: int, day_share: Fraction = Fraction(1)) -> Stage | None:
    """Makes the count of vehicles of least share; None for too small a fleet.

    A day below LEAST_PART of the declared vehicles is stopped. With the level `city` alone and speeds that are never
    clipped a vehicle-day's weight is 1 whatever it did. Source: docs/released.md, "The wrong input".

    stage: one of the release, with its noise. day_share: the smallest part of a vehicle-day's total that any day has.
    """
    # The most noise, in vehicles, with which a usual day is below the threshold LEAST_PART with probability USUAL_STOPS
    # at most, and an empty one above it with EMPTY_PASSES. Laplace noise exceeds t scales with probability e^-t / 2.
    usual_gap, empty_gap = USUAL_PART - float(LEAST_PART), float(LEAST_PART)  # to the threshold, as parts of the fleet
    if stage.kind == "gaussian":
        most_sd = vehicles * min(usual_gap / -_NORMAL.inv_cdf(USUAL_STOPS), empty_gap / -_NORMAL.inv_cdf(EMPTY_PASSES))
        # The noise variance of a count with a share is spread / (UNIT^2 share (1 - COUNT_ALPHA)): speeds get the rest.
        share = float(stage.spread) / (UNIT * most_sd) ** 2 / float(1 - COUNT_ALPHA)
    else:
        most_scale = vehicles * min(usual_gap / -math.log(2 * USUAL_STOPS), empty_gap / -math.log(2 * EMPTY_PASSES))
        share = float(stage.spread) / (UNIT * most_scale) / float(1 - COUNT_ALPHA)
    rounded = Fraction(math.floor(share * _SHARE_STEPS) + 1, _SHARE_STEPS)  # up
    if rounded > MOST_SHARE * day_share:
        return None
    count = replace(stage, parts=alike((("city", Fraction(1)),)), bound_kmh=COUNT_BOUND_KMH, alpha=COUNT_ALPHA)
    return replace(count, share=rounded, least_norm=0, counts_vehicles=True)  # no least norm: each weighs 1


def counts_stage(stage: Stage, clip: int, exponent: Fraction) -> Stage:
    """Makes a stage of counts, at the full budget.

    clip: bound on the Euclidean norm of a vehicle-day's counts; weights are counts divided by it. exponent: 1 counts
    reports, 0 vehicles. Speeds, which nobody reads, have hardly a share (alpha), and a bound that none exceeds.
    """
    counts = replace(stage, parts=alike((("hat", Fraction(1)),)), bound_kmh=COUNT_BOUND_KMH, alpha=COUNT_ALPHA)
    return replace(counts, share=Fraction(1), exponent=exponent, least_norm=clip)


def counted_first(count: Stage | None, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Prepends a stage that counts vehicles, out of the others' shares."""
    if count is None:
        return stages
    return count, *scaled(stages, 1 - count.share / sum(stage.share for stage in stages))  # their sum stays


def vehicles_in(released: ReleasedStage) -> float:
    """Reads the noisy number of vehicles: the weight of a count stage's only group."""
    return float(released.levels[0].weights[0])


def is_too_few(released: ReleasedStage, vehicles: int) -> bool:
    """Checks whether fewer than LEAST_PART of declared vehicles came."""
    return released.stage.counts_vehicles and vehicles_in(released) < LEAST_PART * vehicles


def is_too_many(released: ReleasedStage, fleet: Fleet) -> bool:
    """Checks whether released weights exceed those of MOST_TIMES the declared vehicles.

    Any level's groups add up to the day's weight, which must exceed the limit by NOISE_SDS standard errors.
    """
    first_level = released.levels[0]
    standard_error = first_level.weight_sd * math.sqrt(first_level.weights.size)
    limit = MOST_TIMES * fleet.vehicles * vehicle_weight(released.stage, fleet)
    return float(first_level.weights.sum()) - NOISE_SDS * standard_error > limit
