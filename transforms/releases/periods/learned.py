"""Inference from recorded `levels` entries: centres, and estimates of cells, places and classes.

A function of recorded entries in ledger order and of the policy; no data is read. A day recorded late counts as later.
`models`: fit to all entries, which estimates recorded days and forecasts coming ones, as fields: values, variances and
weights, (cells, slots). `coarser` averages a field by groups; `published` rounds it. Status: HELD_BACK: the day is not
known well enough to be shown; PARENT: the parent's value, or for a place its cell's, stands for an unknown one. Levels
have noisy sums by group: `weights`, and `speeds` of weight times (speed - centre).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning import (
    Field,
    Groups,
    Learned,
    PublishedNumbers,
    Status,
    coarser,
    published,
    smooth_hours,
    with_coarser,
)
from dpops.learning import places as place_model
from dpops.learning.classes import ClassFit, ClassSums, OfCells, learn_classes, quantiles, tilted
from dpops.learning.expected import LEAST_AT_PLACE, Z90
from dpops.learning.field import STATUS_NAMES, rounded, vehicles_about
from dpops.levels.defaults import RETAINED, Fleet, Profile, weight_at_places
from dpops.levels.parts import MOVING, times_of
from dpops.levels.stages import CENTRE_STEP_KMH, WEIGHT_STEPS, Differences, Kind, Stage, centres_of
from dpops.spread import INFORMATIVE_KMH, LEAST_VEHICLES, PRIOR_SPREAD, Z95
from dpops.types import Float64s, Grid, Int64s
from transforms.places.ground import Places, parent_texts, texts_of
from transforms.places.near import fine_cells_of
from transforms.recorded.stage_plan import bare_stage
from transforms.recorded.units import StageEntry
from transforms.records import ABOUT_COLUMNS, TRAFFIC_COLUMNS, SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.products import DISTRIBUTION, PERCENTILES, Product, ProductGroups, grouping
from transforms.releases.periods.publish import PARENT_COLUMNS, HatEstimates, estimates_of_product
from transforms.releases.periods.stages import MARGIN_KMH, LevelsPolicy, read_part
from transforms.releases.periods.states import learned_from


def learned_centres(entries: Sequence[StageEntry], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
    """Infers the next stage's centres: by the day's estimate, or a new day's forecast."""
    learned = learned_from(entries, policy)
    last = bare_stage(entries[-1].unit)  # the newest stage, `number` of its day, from 0; after the last: a new day
    posterior = learned.estimate() if last.number + 1 < last.stages else learned.forecast(np.array(hours, np.int64))
    return centres_of(posterior.values, lowest=MARGIN_KMH, highest=policy.value.standard.upper - MARGIN_KMH)


def learned_differences(entries: Sequence[StageEntry], policy: LevelsPolicy, stage: Stage) -> Differences | None:
    """Infers places' differences from cells; None for other stages. entries: up to the stage."""
    places = policy.public_places
    if places is None or not stage.is_of_places:
        return None
    models = learned_from(entries, policy)
    learned = learned_places(entries, models, policy)
    difference_kmh = np.zeros(places.cell.size) if learned is None else learned.differences  # 0: none yet
    # Each slot's weight over that of a usual day, which is the number of vehicles. Below: at least one step, as
    # `Differences` needs it, and at most that of 100 days, as a noisy weight must not be boundless.
    by_slot = models.estimate().weights.sum(axis=0) / models.state.facts.vehicles
    return Differences(
        cell=places.cell,
        steps=np.rint(difference_kmh / float(CENTRE_STEP_KMH)).astype(np.int64),
        lowest=int(MARGIN_KMH / CENTRE_STEP_KMH),  # centres keep this far from the ends of the speeds
        highest=int((policy.value.standard.upper - MARGIN_KMH) / CENTRE_STEP_KMH),
        slot_weights=tuple(np.clip(np.rint(by_slot * WEIGHT_STEPS), 1, 100 * WEIGHT_STEPS).astype(np.int64).tolist()),
    )


def day_estimates(
    models: Learned, policy: LevelsPolicy, slots: Sequence[SlotFacts], entries: Sequence[StageEntry], days_back: int = 0
) -> HatEstimates:
    """Estimates the day `days_back` before the last, with parents' values for unknown HATs."""
    posterior = models.estimate(days_back)
    shown = with_coarser(models, posterior, float(policy.value.standard.upper))  # HATs' numbers, then parents'
    parents = np.array(parent_texts(policy.region))  # (cells,), the name of each one's parent
    is_declared = policy.fleet.profile != Profile()  # by the default one numbers of vehicles are unreliable
    vehicles, status = vehicles_about(posterior, is_declared)  # (3, cells, slots): number, its bounds
    estimates = hat_estimates(shown.estimates).with_columns(ABOUT_COLUMNS, (*vehicles, STATUS_NAMES[status]))
    parent = np.where(shown.estimates.status == Status.PARENT, parents[:, None], "")
    estimates = estimates.with_columns(PARENT_COLUMNS, (parent, *shown[1:]))  # [1:]: the parent's value and bounds
    return estimates._replace(products=product_estimates(models, posterior, policy, slots, entries))


def product_estimates(
    models: Learned,
    posterior: Field,
    policy: LevelsPolicy,
    slots: Sequence[SlotFacts],
    entries: Sequence[StageEntry],
    *,
    forecast: bool = False,
) -> tuple[SlotEstimates, ...]:
    """Estimates a period's products from its HATs' posterior. forecast: whether that is one."""
    starts, tables, products = [facts.start for facts in slots], [], policy.products
    upper_kmh = float(policy.value.standard.upper)
    places = learned_places(entries, models, policy) if any(product.is_of_places for product in products) else None
    has_distributions = any(product.has_distributions for product in products)
    classes = learned_classes(entries, models, policy) if has_distributions else None
    for product in products:
        grouped = grouping(product, models.state.design.parents, policy.region, starts)
        groups = coarser(models, posterior, grouped.groups)
        if product.is_of_places:
            if places is not None:  # else no day has released places yet
                tables.append(place_product(product, places, grouped, groups, slots, policy))
            continue
        if product.name == "city-hour":  # an hour's value is its day's unless they differ by more than its error
            whole_day = replace(grouped.groups, slots=0 * grouped.groups.slots)  # all slots in group 0
            groups = smooth_hours(groups, coarser(models, posterior, whole_day))
        estimates = hat_estimates(published(groups, upper_kmh, forecast=forecast))
        if product.has_distributions and policy.classes is not None:
            columns = distribution_columns(classes, groups, estimates.status, upper_kmh)
            estimates = estimates.with_columns(DISTRIBUTION, columns)
        tables.append(estimates_of_product(estimates, product.name, grouped, slots, policy))
    return tuple(tables)


def hat_estimates(numbers: PublishedNumbers) -> HatEstimates:
    """Converts numbers to estimates, nan for HATs held back."""
    has_value = numbers.status != Status.HELD_BACK
    columns = attrgetter("values", "lower95", "upper95", "sd", "traffic_lower95", "traffic_upper95")(numbers)
    value, lower, upper, sd, *traffic = (np.where(has_value, column, np.nan) for column in columns)
    estimates = HatEstimates(value, lower, upper, sd, STATUS_NAMES[numbers.status])
    return estimates.with_columns(TRAFFIC_COLUMNS, traffic)


class LearnedPlaces(NamedTuple):
    """Posterior of places, their cells' means, proved vehicles."""

    public: Places
    fit: place_model.PlaceFit
    cells: Float64s  # (places,), mean of each one's cell in the hours of releases of places, km/h
    vehicles: place_model.VehiclesProved  # at which places at least four vehicles are proved
    periods: int  # number of all released ones

    @property
    def differences(self) -> Float64s:
        """How far places lie from their cells, km/h."""
        return self.fit.values - self.cells


def learned_places(entries: Sequence[StageEntry], models: Learned, policy: LevelsPolicy) -> LearnedPlaces | None:
    """Learns places' differences from their cells, from releases of places; None before the first."""
    pieces, fleet = policy.places, policy.fleet
    if pieces is None:
        raise ValueError("the policy has no places")
    number = pieces.places.cell.size
    sums, proved = place_model.PlaceSums.none(number), place_model.VehiclesProved.none(number)
    slots_at = Counter[int]()  # number of released slots, by local hour (on weekends 24 more)
    for read, hours_of_day in read_part(entries, policy, "places"):
        (level,), laid = read.levels, read.stage.laid  # laid: the HATs of places that the stage measured
        if laid.differences is None:
            raise ValueError("the stage is not about places")
        slot_weights = np.array(laid.differences.slot_weights, np.float64)  # (slots,), in any unit
        day = place_model.PlaceDay(
            weights=level.weights,
            speeds=level.speeds,
            centres=laid.centres @ (slot_weights / slot_weights.sum()) * float(CENTRE_STEP_KMH),  # mean over slots
            weight_variance=level.weight_sd**2,
            speed_variance=level.speed_sd**2,
            day_weight=laid.differences.day_weight,  # the city's, relative to a usual day
            is_laplace=read.stage.kind == "laplace",
        )
        sums = sums.after(day)
        proved = proved.after(day, sums, read.stage.kind)  # of all days so far: places with AT_LEAST vehicles
        slots_at.update(hours_of_day)
    if not sums.days:
        return None
    hours = np.array(sorted(slots_at), np.int64)
    # Cells' usual means over the hours of releases of places, each hour as often as it was released.
    posterior, times = models.forecast(hours), np.array([slots_at[hour] for hour in hours.tolist()])
    weights = posterior.weights * times  # (cells, hours)
    cell = pieces.places.cell  # (places,), index of each one's cell
    cell_means = (np.sum(weights * posterior.values, axis=1) / weights.sum(axis=1))[cell]  # (places,), km/h
    traffic = np.array(pieces.places.visits, np.float64)
    if not traffic.size:  # no public list of visits: a place is expected to have as much as others of its cell
        traffic = weights.sum(axis=1)[cell] / np.bincount(cell, minlength=weights.shape[0])[cell]
    places_a_cell = cell.size / np.unique(cell).size  # of cells that have any
    # Expected weight of all places: clipping leaves about the part RETAINED; `whole_weight` corrects it by releases.
    prior_weight = RETAINED * fleet.vehicles * weight_at_places(fleet.profile, policy.kind, places_a_cell)
    around = place_model.Around(
        values=cell_means,
        expected=place_model.whole_weight(sums, prior_weight) * traffic / traffic.sum(),  # weights
        # Numbers of fine cells; places that are hexagons have no geometries, and are equally large.
        sizes=fine_cells_of(pieces).astype(np.float64) if pieces.places.geometries else None,
    )
    return LearnedPlaces(pieces.places, place_model.learn_places(sums, around), cell_means, proved, models.state.days)


def place_product(
    product: Product,
    places: LearnedPlaces,
    grouped: ProductGroups,
    of_cells: Field,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
) -> SlotEstimates:
    """Estimates a product of places: cells' values plus places' learned differences.

    grouped, of_cells: groups of the product's times, and all cells' posterior at these times. place-standing is the
    usual mean of each place instead, learned from all days so far: one row a place for the period.
    """
    public_places, upper_kmh = places.public, float(policy.value.standard.upper)
    cell, shown = public_places.cell, published(of_cells, upper_kmh)  # cell: (places,), index of each one's
    # Each place's cell's numbers, (places, times).
    shown = replace(shown, **{name: getattr(shown, name)[cell] for name in shown.__dataclass_fields__})
    if product.name == "place-standing":
        values, variances = places.fit.values[:, None], places.fit.variances[:, None]  # (places, 1)
        cell_means = places.cells[:, None]
        shift = cell_means - shown.values  # the cell's usual value is shown with an interval as wide as the period's
        with_bounds = (cell_means, shown.lower95 + shift, shown.upper95 + shift)
        value, lower, upper = (rounded(np.clip(column, 0, upper_kmh)) for column in with_bounds)
        shown = replace(shown, values=value, lower95=lower, upper95=upper)
    else:
        values = shown.values + places.differences[:, None]
        variances_around = places.fit.day_variances[:, None]  # of a place's day around its usual one
        if product.name != "place-day":  # fewer vehicles: the cell's in that time, by the place's share of its weight
            cell_weights = np.bincount(cell, places.fit.weights, of_cells.values.shape[0])
            share = places.fit.weights / np.maximum(cell_weights[cell], 1e-9)  # the maximum: lest it divides by 0
            # Means over `Field`'s equally likely numbers; at least 1 / 20, lest the variance becomes infinite.
            vehicles = np.maximum(of_cells.vehicles[cell].mean(axis=-1) * share[:, None], 0.05)
            of_means = PRIOR_SPREAD.of(vehicles)  # variances of means of so many vehicles, as before any release
            variances_around = np.maximum(variances_around, of_means)  # no less than a whole day's
        cell_variances = of_cells.variances + of_cells.of_ratios  # of_ratios: of means, as weights are unknown
        variances = places.fit.variances[:, None] + cell_variances[cell] + variances_around
    result = _place_estimates(values, variances, places, shown, upper_kmh)
    cells = np.array(texts_of(policy.region))[cell]
    parent = np.where(result.status == STATUS_NAMES[Status.PARENT], cells[:, None], "")
    parents = (np.where(parent == "", np.nan, column) for column in (shown.values, shown.lower95, shown.upper95))
    result = result.with_columns(PARENT_COLUMNS, (parent, *parents))
    proved = [place_model.AT_LEAST if is_proved else None for is_proved in places.vehicles.are_there.tolist()]
    days = len({facts.start.partition("T")[0] for facts in slots})  # of a period, such as a week
    grouped = grouped._replace(places=list(public_places.names), geometries=public_places.geometries)
    released_days = [places.periods * days] * len(proved)
    by_place: dict[str, Sequence[Any]] = {"place": grouped.places, "days": released_days, "vehicles_at_least": proved}
    return estimates_of_product(result, product.name, grouped, slots, policy, by_place)


def _place_estimates(
    values: Float64s, variances: Float64s, places: LearnedPlaces, cell_numbers: PublishedNumbers, upper_kmh: float
) -> HatEstimates:
    """Gives places' values, (places, times), intervals and status; withholds those of cells held back.

    A place is OK if its interval is narrow and its weight, at its one-sided 95 % bound (Z90), is of enough vehicles;
    else PARENT where its cell is OK, else UNRELIABLE. cell_numbers: of each place's cell, (places, times).
    """
    sd = np.sqrt(variances)
    half = Z95 * sd
    is_visited = places.fit.weights - Z90 * np.sqrt(places.fit.weight_variances) > LEAST_AT_PLACE
    is_ok = (half < INFORMATIVE_KMH) & is_visited[:, None]
    fallback = np.where(cell_numbers.status == Status.OK, Status.PARENT, Status.UNRELIABLE)
    status = np.where(cell_numbers.status == Status.HELD_BACK, Status.HELD_BACK, np.where(is_ok, Status.OK, fallback))
    has_value = status != Status.HELD_BACK
    value, lower, upper = (rounded(np.clip(column, 0, upper_kmh)) for column in (values, values - half, values + half))
    value, lower, upper, sd = (np.where(has_value, column, np.nan) for column in (value, lower, upper, rounded(sd)))
    return HatEstimates(value, lower, upper, sd, STATUS_NAMES[status])


TARGETS = 0.15, 0.5, 0.85  # shares of reports: percentiles that products show; traffic engineers use the 85th


class LearnedClasses(NamedTuple):
    """Cells' speed distributions; their means (km/h) and variances by releases of means alone, (cells,)."""

    posterior: ClassFit
    means: Float64s
    variances: Float64s


def edges_in_units(edges: Sequence[int], grid: Grid) -> Float64s:
    """Lists the edges of all classes in km/h, from inner edges in grid steps."""
    return np.array([0, *edges, grid.upper_steps]) * float(grid.step)


def learned_classes(entries: Sequence[StageEntry], models: Learned, policy: LevelsPolicy) -> LearnedClasses | None:
    """Fits cells' speed distributions to recorded sums by class; None without any."""
    if policy.classes is None:
        return None
    edges, hours = edges_in_units(policy.classes.edges, policy.value.standard), set[int]()
    sums = ClassSums.none(len(policy.region), edges.size - 1)
    for read, hours_of_day in read_part(entries, policy, "classes"):
        (level,), classes = read.levels, len(read.stage.classes) + 1
        # Moving reports were summed MOVING times, lest standing ones fill norms; now standing ones count as much.
        factors = times_of(classes) / MOVING  # (classes,): 1 / MOVING of standing, 1 of moving ones
        sums = sums.after(level.weights.reshape(-1, classes) / factors, (level.weight_sd / factors) ** 2)
        hours |= {*hours_of_day}
    if not sums.days:
        return None
    design = models.state.design
    forecast = models.forecast(np.array(sorted(hours), np.int64))  # below: averaged over hours, all slots in group 0
    cells = coarser(models, forecast, Groups(cells=np.arange(design.cells), slots=0 * forecast.hours))
    weights, means, variances = (column[:, 0] for column in (cells.weights, cells.values, cells.variances))
    fleet_weight = policy.fleet.vehicles * weight_of_one(policy.fleet, policy.kind)  # of a day, as declared
    posterior = learn_classes(sums, OfCells(weights, means, variances), edges, fleet_weight)
    return LearnedClasses(posterior, means, variances)


def weight_of_one(fleet: Fleet, kind: Kind) -> float:
    """Estimates a vehicle-day's total weight in classes, without the factor MOVING of moving reports."""
    if kind == "laplace":  # weights of norm 1 add up to 1 if the vehicle only moves, to MOVING if it only stands
        return math.sqrt(MOVING)  # between both
    # Of a vector of Euclidean norm 1 with n equal weights, the weights add up to sqrt(n): n cells times classes.
    return float(np.sqrt(fleet.profile.cells * fitted.CLASSES_OF_A_VEHICLE))


def distribution_columns(
    learned: LearnedClasses | None, groups: Field, status: NDArray[np.str_], upper_kmh: float
) -> list[NDArray[Any]]:
    """Lists a product's columns DISTRIBUTION, (cells, times) each, withheld where the mean is.

    A cell's distribution is tilted (reweighted exponentially) to the mean of each time, as its overall mean by classes
    shifts them. learned: None before the first release of classes. groups, status: of the product's means.
    """
    ok, unreliable, held_back, forecast = STATUS_NAMES[:4]  # in the order of `Status`
    if learned is None:
        return [*np.full((len(PERCENTILES), *status.shape), np.nan), np.full(status.shape, held_back)]
    posterior = learned.posterior
    means = groups.values + (posterior.means - learned.means)[:, None]  # (cells, times), shifted as classes say
    # Classes narrow the variance of a cell's overall mean; that of its mean at any time is taken to shrink as much.
    shrinkage = np.minimum(1.0, posterior.mean_variances / learned.variances)[:, None]
    # Last axes of `Field`: equally likely numbers of vehicles.
    shares, visits = tilted(posterior, means), groups.vehicles.mean(axis=-1)  # (cells, times, classes); (cells, times)
    mean_variances = groups.variances * shrinkage + groups.deviations.mean(axis=-1)  # the latter: of the vehicles there
    result = quantiles(posterior, shares, TARGETS, mean_variances, visits)
    percentiles = [rounded(np.clip(column, 0, upper_kmh)) for column in result]
    _, lower, upper = percentiles  # (TARGETS, cells, times) each; the last target's interval is the widest
    vehicles = published(groups, upper_kmh).vehicles
    is_narrower = (upper - lower)[-1] < 2 * Z95 * fitted.PLACES_KMH  # than a cell's 95 % interval by its prior sd
    # A vehicle counts in each of its HATs of a group, `repeats` times.
    is_known = (vehicles >= LEAST_VEHICLES * groups.repeats) & is_narrower
    is_withheld, best = status == held_back, np.where(status == forecast, forecast, ok)
    columns = [np.where(is_withheld, np.nan, column) for target in zip(*percentiles, strict=True) for column in target]
    statuses = np.where(is_withheld, held_back, np.where(is_known, best, unreliable))
    return [*columns, statuses]
