"""What released sums say of the models: how far HATs lie from what describes them, and whether that is seen at all."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.chances import factors_of
from dpops.learning.means import Deviations, Means, border_of, coefficients_of
from dpops.learning.queries import GroupRows, RowMaker
from dpops.learning.releases import DayValues, LevelValues
from dpops.spread import USUAL
from dpops.types import Float64s

_TINY = 1e-12


class Described(NamedTuple):
    """A day as the models have it, (cells, slots) each. values: km/h. vehicles: expected. log_variances: of their
    logarithm."""

    day: DayValues
    weights: Float64s
    vehicles: Float64s
    log_variances: Float64s
    traffic: Float64s
    values: Float64s
    deviations: Deviations


class Told(NamedTuple):
    """floor: variance of the mean of a HAT of many vehicles around what describes it, (km/h)^2. explained: how many
    times as many squares of the released sums the pattern of places explains, beyond one constant, as it would of
    noise alone; 0 before any release."""

    floor: float
    explained: float


UNTOLD = Told(fitted.FLOOR, 0.0)


class _Surprises(NamedTuple):
    """What a level's sums miss, (queries,) each. squares: of what the models miss, less those of noise and of what few
    vehicles add. floors: what the usual floor adds up to. precisions: of the squares.

    sums: weight times mean speed, as released. weights: of the groups. missed: of the sums, by the models. known: the
    variance of what they say. certainties: the precision of the sums.
    """

    squares: Float64s
    floors: Float64s
    precisions: Float64s
    sums: Float64s
    weights: Float64s
    missed: Float64s
    known: Float64s
    certainties: Float64s


def told(means: Means, days: Sequence[Described], rows: RowMaker) -> Told:
    surprises = list(_all(means, days, rows))
    return Told(_floor(surprises), _explained(surprises))


def _floor(surprises: Sequence[_Surprises]) -> float:
    """Estimates the floor of a HAT's own variance by least squares around the usual one.

    A released sum of speeds lies around what the model makes of it by noise, whose variance is known, and by the HATs'
    own deviations. So the squares tell the floor. What few vehicles add they do not tell beside it: a release clips
    every vehicle, which takes much of that away.
    """
    precision = value = fitted.FLOOR_SD**-2
    for of_day in surprises:
        weighted = of_day.floors * of_day.precisions
        precision, value = precision + float(weighted @ of_day.floors), value + float(weighted @ of_day.squares)
    return fitted.FLOOR * max(value / precision, 0.0)


def _explained(surprises: Sequence[_Surprises]) -> float:
    """Computes what the models explain: a constant's misses less theirs, over the leverage of all sums.

    The leverage is what of a sum is the models' own doing: as many effects as the models use take about one square of
    noise each.
    """
    weight = sum(float(of_day.certainties @ of_day.weights**2) for of_day in surprises)
    total = sum(float(of_day.certainties @ (of_day.weights * of_day.sums)) for of_day in surprises)
    constant = total / max(weight, _TINY)
    gained = sum(
        float(of_day.certainties @ ((of_day.sums - constant * of_day.weights) ** 2 - of_day.missed**2))
        for of_day in surprises
    )
    return gained / max(sum(float(of_day.certainties @ of_day.known) for of_day in surprises), _TINY)


def _all(means: Means, days: Sequence[Described], rows: RowMaker) -> Iterator[_Surprises]:
    """Takes the levels whose groups lie in one parent each: wider ones are few, and say little."""
    factors: dict[int, Float64s] = {}  # days of the same hours have the same variances, and about as many vehicles
    for described in days:
        vehicles, key = described.vehicles, id(described.log_variances)
        if key not in factors:
            most = float(described.log_variances.max())
            factors[key] = factors_of(described.log_variances, most, vehicles)
        numbers = np.maximum(vehicles[..., None] * factors[key], 1.0)
        falling = USUAL.of(numbers, kmh=described.values[..., None], least=0.0).mean(axis=-1)
        for stage in described.day.looks:
            for level in stage.levels:
                made = rows(level.groups, described.day.hours)
                if made.is_narrow:
                    yield _surprises(means, described, level, stage.centre, made, falling)


def _surprises(
    means: Means, described: Described, level: LevelValues, centre: Float64s, rows: GroupRows, falling: Float64s
) -> _Surprises:
    totals, weights = level.groups.totals, described.weights
    of_effects = rows(weights[..., None] * coefficients_of(described.traffic))
    variances = of_effects.variances(means.solved, border_of(means.solved, described.deviations))
    around = weights * (described.values - centre)
    missed = (level.speeds - totals(around)).ravel()
    noise = 1 / level.speed_precision.ravel()
    few, floors = fitted.LEFT * totals(weights**2 * falling).ravel(), totals(weights**2 * fitted.FLOOR).ravel()
    whole = noise + few + floors
    return _Surprises(
        squares=missed**2 + variances - noise - few,  # what a sum decides of the models, it is missed by less
        floors=floors,
        precisions=1 / (2 * whole**2),
        sums=(level.speeds + totals(weights * centre)).ravel(),
        weights=totals(weights).ravel(),
        missed=missed,
        known=variances,
        certainties=1 / whole,
    )
