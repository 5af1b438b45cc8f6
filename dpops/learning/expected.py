"""Expected errors of days and of maps of places, from public facts.

A stage has a `share` of a vehicle-day's budget, a level one of its stage's; `alpha` is the part of speeds, weights have
the rest. A HAT's mean is a sum of the components of `dpops.levels.strategy`, and a residual of its vehicles. FLEETS are
factors of that residual's variance, of fleets that drive alike to taxis. `busy`: a cell's traffic over the average's.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.forecast import normal_scores
from dpops.learning.field import CAUTIOUS, NODES, numbers_of
from dpops.learning.latent import TOTAL_PRECISION
from dpops.levels import strategy
from dpops.levels.defaults import RETAINED, BoundsOnly, Fleet, Recipe, vehicle_weight, weight_at_places
from dpops.levels.stages import Level, Stage, level, scaled, unit_noise
from dpops.spread import FLEET_SD, INFORMATIVE_KMH, LEAST_VEHICLES, PRIOR_SPREAD, TYPICAL_KMH, Z95
from dpops.types import Float64s

MEAN_ABSOLUTE_NORMAL = math.sqrt(2 / math.pi)  # mean absolute value over root mean square of a normal law


FLEETS = 1 / fitted.FLEETS_DIFFER, 1, fitted.FLEETS_DIFFER
"""Factors of residual variances of HATs: vehicles that drive alike, buses, taxis."""


@dataclass(frozen=True, kw_only=True)
class ExpectedDay:
    """Expected, nearly normal errors of a released day, km/h.

    kmh: mean absolute error by reports; low_kmh, high_kmh: of FLEETS. constant_kmh: of the city's true mean, which is
    secret. least_kmh: without any noise. number: of released days, including this. unknown: the map's
    squared error over the pattern's variance. weight_sd: standard deviation of the logarithm of the city's weight.
    """

    number: int
    kmh: float
    low_kmh: float
    high_kmh: float
    constant_kmh: float
    least_kmh: float
    unknown: float
    weight_sd: float

    @property
    def is_published(self) -> bool:
        """Whether the gate is expected to publish this day."""
        return self.unknown <= fitted.MAX_RATIO and self.weight_sd <= fitted.RETAINED_SD


def expected_days(
    recipe: Recipe,
    bounds: BoundsOnly,
    shares: Sequence[Fraction],
    *,
    counts_public: bool = False,
    counts_vehicles: bool = False,
) -> list[ExpectedDay]:
    """Forecasts errors of each released day of an account.

    shares: by day, the factor of its recipe's budget. counts_public: weights need no noise. counts_vehicles: vehicles
    are counted too. Errors are averaged over reports in cells of unlike busyness.
    """
    days = [scaled(recipe.later if day else recipe.first, share) for day, share in enumerate(shares)]
    if counts_public:
        # Speeds have the full share, at twice the bound: a Laplace scale doubles, a Gaussian variance quadruples.
        factor = 2 if recipe.kind == "laplace" else 4
        days = [tuple(replace(s, spread=s.spread * s.alpha * factor) for s in stages) for stages in days]
    weight_sds = [0.0] * len(days) if counts_public else list(_log_weight_sds(days, bounds, counts_vehicles))
    # By class of cells: its share of reports; by day, squared errors by FLEETS, pattern variance, its unknown part.
    cells = [(share, list(_of_cells(days, bounds, busy))) for busy, share in strategy.busyness_classes()]
    noiseless = sum(share * _hat_variance(bounds, busy) for busy, share in strategy.busyness_classes())
    unequal = float(PRIOR_SPREAD.of_reports(bounds.fleet.vehicles, TYPICAL_KMH, math.inf))  # see `Learned._ratio`
    expected = []
    for day, weight_sd in enumerate(weight_sds):  # averages over classes of cells, by reports
        *errors, pattern, unknown = (sum(share * sums[day][column] for share, sums in cells) for column in range(5))
        low_kmh, kmh, high_kmh = (MEAN_ABSOLUTE_NORMAL * math.sqrt(error) for error in errors)
        expected.append(
            ExpectedDay(
                number=day + 1,
                kmh=kmh,
                low_kmh=low_kmh,
                high_kmh=high_kmh,
                constant_kmh=MEAN_ABSOLUTE_NORMAL * math.sqrt(pattern + noiseless),  # if HATs have the city's mean
                least_kmh=MEAN_ABSOLUTE_NORMAL * math.sqrt(noiseless),  # the residual variance alone
                unknown=unknown + unequal / pattern,
                weight_sd=weight_sd,
            )
        )
    return expected


def _of_cells(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, busy: float) -> Iterator[tuple[float, ...]]:
    """Yields daily squared errors by FLEETS, (km/h)^2, variance between HATs, its unknown part."""
    hat_variances = [factor * _hat_variance(bounds, busy) for factor in FLEETS]  # residuals, by FLEETS
    prior = {component: sd * sd for component, sd in strategy.PRIOR_SD_KMH.items()}
    precisions, posterior = dict.fromkeys(prior, 0.0), prior
    for stages in days:
        for stage in stages:
            centre_variances = posterior  # before this stage; after the loop, before the day's last one
            in_stage = strategy.precisions_of(stage, bounds, centre_variances, busy)
            precisions = {component: precision + in_stage[component] for component, precision in precisions.items()}
            posterior = strategy.posterior_of(prior, precisions)
        errors = [  # of `in_stage`, the day's last, only the precision of single HATs is used: no posterior has it
            strategy.squared_error(posterior, in_stage, stage, bounds, centre_variances, busy, variance)
            for variance in hat_variances
        ]
        yield *errors, _pattern(prior), _pattern(posterior) / _pattern(prior)  # `_pattern`: variance between HATs


def _hat_variance(bounds: BoundsOnly, busy: float) -> float:
    """Computes a HAT's residual variance, by its vehicles."""
    return float(PRIOR_SPREAD.of(np.array(1 + bounds.usual_vehicles * busy)))


def _pattern(variances: strategy.Variances) -> float:
    """Sums the variances of components in which HATs differ."""
    return sum(variance for component, variance in variances.items() if component != strategy.CITY)


def _log_weight_sds(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, counts_vehicles: bool) -> Iterator[float]:
    """Yields standard deviations of days' log weights, in order.

    Public facts leave a day its own variance, and one `common` to all days: of the share that clips retain, and of
    the declared fleet unless vehicles are counted. Each day's release makes the common one smaller.
    """
    day_variance = 1 / TOTAL_PRECISION
    common = fitted.RETAINED_SD**2 + (0.0 if counts_vehicles else FLEET_SD**2)
    for stages in days:
        precision = sum(strategy.log_precision(stage, bounds) for stage in stages)
        yield (1 / (common + day_variance) + precision) ** -0.5  # precisions of the prior and of the release
        common = 1 / (1 / common + 1 / (1 / precision + day_variance))  # observed with noise and the day's own part


_PLAN_SPREAD = PRIOR_SPREAD.cautious  # residual variances that nothing is learned of: a plan has no releases
HAT_SPREAD = 2 * fitted.BUSIER**2
"""Variance of the logarithm of vehicles in a region's HATs, some without a trip: hours differ as cells do."""
Noise = Callable[[Stage, Fraction], float]  # deviation of a level's noise, by its stage and share of the budget
_WIDTH_NODE = 2  # node of `numbers_of` whose residual variance makes about as wide an interval as all nodes do


class HalfWidths(NamedTuple):
    """Half widths of 95 % intervals, and counts' reliability."""

    kmh: Float64s
    reliable: NDArray[np.bool_]


def hat_half_widths(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, upper_kmh: float, days: int = 1
) -> HalfWidths:
    """Computes a HAT's half widths by number of vehicles.

    At most upper_kmh / 2, where nothing is known. Sources: variance of the HAT's model, and residual variance of its
    vehicles' mean, to which releases of single HATs add precision. The number of vehicles is one of NODES, equally
    likely: of these _WIDTH_NODE makes intervals about as wide as all do, and the CAUTIOUS one, which is published, says
    whether a HAT is reliable. Noise of equal `days` averages out.
    """
    hat_precision, model_variance = _level_evidence([stage], bounds, vehicles, days, speed_noise)
    numbers = np.repeat(vehicles[:, None], NODES, axis=1)  # equally likely ones, (vehicles, NODES); all equal if public
    if not stage.counts_public:
        numbers = numbers_of(vehicles, weight_log_variances([stage], bounds, vehicles, days, HAT_SPREAD))
    residual = _PLAN_SPREAD.of_reports(np.maximum(numbers[:, _WIDTH_NODE], 1.0), np.array(TYPICAL_KMH), hat_precision)
    half = np.minimum(Z95 * np.sqrt(model_variance + residual), upper_kmh / 2)  # independent: variances add up
    return HalfWidths(half, numbers[:, CAUTIOUS] >= LEAST_VEHICLES)


def weight_log_variances(
    stages: Sequence[Stage], bounds: BoundsOnly, vehicles: Float64s, days: float, spread: float
) -> Float64s:
    """Computes variances of log vehicle numbers; 0 if public.

    vehicles: expected numbers. days: equal days of releases that are combined. spread: prior variance of the logs.
    """
    if stages[0].counts_public:
        return np.zeros(vehicles.size)
    hat_precision, levels_variance = _level_evidence(stages, bounds, vehicles, days, weight_noise)  # of logs
    return np.asarray(1 / (1 / spread + hat_precision + 1 / np.maximum(levels_variance, 1e-300)))  # precisions add up


def place_half_widths(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, upper_kmh: float, days: int = 1
) -> Float64s:
    """Computes half widths of a place's day mean by vehicles per HAT."""
    name = place_level(stage, bounds)  # the level of the smallest places, over the longest times
    groups, share = level(name, bounds.hats, share=Fraction(1)), dict(stage.shares)[name]  # the level for its groups
    noise_variance = (speed_noise(stage, share) / _weight(stage, bounds, groups, vehicles)) ** 2 / days  # averaged
    residual_variance = _PLAN_SPREAD.of(np.maximum(vehicles, 1.0)) / bounds.hats.slots  # slots vary independently
    return np.asarray(np.minimum(Z95 * np.sqrt(noise_variance + residual_variance), upper_kmh / 2))


def place_level(stage: Stage, bounds: BoundsOnly) -> str:
    """Names the level with most places, and of these with the longest times."""
    shapes = {name: level(name, bounds.hats, Fraction(1)).groups.shape for name, _ in stage.shares}
    return max(shapes, key=lambda name: (shapes[name][0], -shapes[name][1]))  # (cell groups, slot groups)


def speed_noise(stage: Stage, share: Fraction) -> float:
    """Computes noise deviation of a level's weighted speeds, km/h."""
    # share: the level's, of the stage's budget. alpha: speeds' part of that, all of it where weights are public; there
    # a vehicle's speeds may also move from one end of the bound to the other.
    alpha, times = (Fraction(1), 2) if stage.counts_public else (stage.alpha, 1)
    noise = unit_noise(stage.kind, stage.spread, float(stage.share * share * alpha))
    return noise * float(stage.bound_kmh) * times


def weight_noise(stage: Stage, share: Fraction) -> float:
    """Computes the noise standard deviation of a level's weights."""
    return unit_noise(stage.kind, stage.spread, float(stage.share * share * (1 - stage.alpha)))


def _weight(stage: Stage, bounds: BoundsOnly, groups: Level, vehicles: Float64s) -> Float64s:
    """Forecasts a group's weight where one cell's HATs have `vehicles`, others the usual."""
    cell_groups, slot_groups = groups.groups.shape  # numbers of groups
    slots_each, other_cells = bounds.hats.slots / slot_groups, bounds.hats.cells / cell_groups - 1  # of one group
    fleet = bounds.fleet
    hat_weight = RETAINED * vehicle_weight(stage, fleet) / fleet.profile.hats  # of one vehicle in a HAT, after clips
    return np.asarray(hat_weight * slots_each * (vehicles + other_cells * bounds.usual_vehicles))


def _level_evidence(
    stages: Sequence[Stage], bounds: BoundsOnly, vehicles: Float64s, days: float, noise: Noise
) -> tuple[Float64s, Float64s]:
    """Computes single HATs' precision and other levels' joint variance, (vehicles,) each.

    Levels of whole days tell a place effect, those of all cells a time effect, and the sum of both has both variances;
    levels of places and times tell it directly; precisions add up. Lasting effects are told by all `days`. noise:
    `speed_noise`, then precisions are of mean speeds, or `weight_noise`, then of weights' relative errors.
    """
    of_hat, of_place, of_time, of_both = np.zeros((4, vehicles.size))
    for stage, (name, share) in ((item, pair) for item in stages for pair in item.shares):
        groups = level(name, bounds.hats, share=Fraction(1))  # for its groups alone: the share is of no account
        precision = (_weight(stage, bounds, groups, vehicles) / noise(stage, share)) ** 2  # of a mean speed, or weight
        if groups.size == bounds.hats.size:  # of one day's HATs alone
            of_hat = of_hat + precision
        elif groups.groups.shape[1] == 1:  # of (cell groups, slot groups): whole days
            of_place = of_place + days * precision
        elif groups.groups.shape[0] == 1:  # all cells together
            of_time = of_time + days * precision
        else:
            of_both = of_both + days * precision
    variances = [1 / np.maximum(evidence, 1e-300) for evidence in (of_place, of_time) if evidence.any()]
    variance: Float64s = 1 / np.maximum(of_both + (1 / sum(variances) if variances else 0.0), 1e-300)
    return of_hat, variance


LEAST_AT_PLACE = 1  # a place of a single vehicle is never `ok`
Z90 = 1.645  # a normal law exceeds its mean by more standard deviations with a probability of 5 %
EVEN, SPREAD, CONCENTRATED = (fitted.BUSIER * times for times in (1 / 2, 3 / 2, 5 / 2))
"""Guessed: standard deviations of places' log traffic. Segments of streets, which many lines share, lie between the
first two, hexagons between the last two."""
_CLASSES = 1_000  # equally many places in each


@dataclass(frozen=True, kw_only=True)
class ExpectedMap:
    """Mean absolute errors of a map after `day` days.

    error_kmh: of places; cell_error_kmh: if each place is taken to be like its cell. half_width_kmh: half of all
    reports lie at places with a narrower 95 % interval. ok: part of all reports at places of status `ok`.
    """

    day: int
    error_kmh: float
    cell_error_kmh: float
    half_width_kmh: float
    ok: float


def expected_maps(
    stage: Stage, fleet: Fleet, *, places: int, cells: int, crowding: float, days: Sequence[int]
) -> list[ExpectedMap]:
    """Forecasts the map after each of these numbers of released days.

    Rough: only releases and timetables show how places of a city, and their traffic, differ.

    stage: a day's stage of places. cells: of the region that hold places. crowding: EVEN, SPREAD or CONCENTRATED.
    """
    share = dict(stage.shares)["place"]
    speed_sd, weight_sd = speed_noise(stage, share), weight_noise(stage, share)  # of a place's sums
    traffic = np.exp(crowding * normal_scores(_CLASSES))  # of classes of equally many places, lognormal
    traffic = traffic / traffic.mean()  # relative
    total_weight = RETAINED * fleet.vehicles * weight_at_places(fleet.profile, stage.kind, places / cells)
    weights = total_weight * traffic / places  # of a place in each class, (classes,); bounds leave the part RETAINED
    day_variances = PRIOR_SPREAD.of(np.maximum(weights, 1.0))  # of a day's mean around the usual one
    maps, reports = [], traffic / traffic.sum()
    for day in days:
        # Places vary around cells. Cells are guessed to vary by a third of that, of which n days leave 1 / n^2 unknown.
        prior_variance = fitted.PLACES_KMH**2 + fitted.PLACES_KMH**2 / 3 / day**2
        # Noise of a day's mean, sum of speeds over weight; an error of the weight scales the place's difference.
        noise_variance = (speed_sd**2 + prior_variance * weight_sd**2) / weights**2
        variance = 1 / (1 / prior_variance + day / (noise_variance + day_variances))
        half = Z95 * np.sqrt(variance + day_variances / day)  # for the days' mean, which varies around the usual one
        order = np.argsort(half)
        median = order[np.searchsorted(np.cumsum(reports[order]), 0.5)]  # class of the median by reports
        is_sure = weights - Z90 * weight_sd / math.sqrt(day) > LEAST_AT_PLACE  # by the days' mean weight
        maps.append(
            ExpectedMap(
                day=day,
                error_kmh=MEAN_ABSOLUTE_NORMAL * float(reports @ np.sqrt(variance)),
                cell_error_kmh=MEAN_ABSOLUTE_NORMAL * math.sqrt(prior_variance),
                half_width_kmh=float(half[median]),
                ok=float(reports @ ((half < INFORMATIVE_KMH) & is_sure)),  # share of reports
            )
        )
    return maps
