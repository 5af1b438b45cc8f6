"""Inference of places' differences from cells, and products."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpops.learning import Field, Groups, Learned, PublishedNumbers, Status, coarser, published
from dpops.learning import places as place_model
from dpops.learning.expected import LEAST_AT_PLACE, Z90
from dpops.learning.field import STATUS_NAMES, rounded
from dpops.levels.bounded import ReleasedStage
from dpops.levels.defaults import RETAINED, weight_at_places
from dpops.levels.stages import CENTRE_STEP_KMH
from dpops.spread import INFORMATIVE_KMH, TYPICAL, Z95
from dpops.types import Float64s
from transforms.places.ground import Pieces, texts_of
from transforms.places.near import fine_cells_of
from transforms.recorded.stage_plan import part_of
from transforms.recorded.units import StageEntry
from transforms.records import SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.products import Product, ProductGroups, slot_groups
from transforms.releases.periods.publish import HatEstimates, PlaceFacts, estimates_of_product
from transforms.releases.periods.stages import LevelsPolicy, read_unit
from transforms.time.calendar import recorded_hours


class LearnedPlaces(NamedTuple):
    """Posterior of places, their cells' means, proved vehicles."""

    fit: place_model.PlaceFit
    cells: Float64s  # (places,), mean of each one's cell in the same hours, km/h
    vehicles: place_model.VehiclesProved  # at least four proved

    @property
    def differences(self) -> Float64s:
        """How far places lie from their cells, km/h."""
        return self.fit.values - self.cells


def learned_places(entries: Sequence[StageEntry], models: Learned, policy: LevelsPolicy) -> LearnedPlaces | None:
    """Learns places' differences from their cells, from releases of places; None before the first."""
    pieces, profile = _pieces(policy), policy.fleet.profile
    number = pieces.places.cell.size
    sums, proved = place_model.PlaceSums.none(number), place_model.VehiclesProved.none(number)
    slots = Counter[int]()  # released slots by hour, see `Design`
    for unit in (entry.unit for entry in entries if part_of(entry.unit) == "places"):
        read = read_unit(unit, policy.region, pieces.places)
        day = place_day(read)
        sums = sums.after(day)
        proved = proved.after(day, sums, read.stage.kind)  # of all days so far: places with AT_LEAST vehicles
        slots.update(recorded_hours(unit.slot_start, unit.slot_end, read.stage.laid.hats.hours))
    if not sums.days:
        return None
    hours = np.array(sorted(slots), np.int64)
    posterior, times = models.forecast(hours), np.array([slots[hour] for hour in hours.tolist()])
    weights = posterior.weights * times  # (cells, hours)
    cell = pieces.places.cell  # (places,), index of each one's cell
    cell_means = (np.sum(weights * posterior.values, axis=1) / weights.sum(axis=1))[cell]  # (places,), km/h
    traffic = np.array(pieces.places.visits, np.float64)
    if not traffic.size:  # no public list of visits: a place is expected to have as much as others of its cell
        traffic = weights.sum(axis=1)[cell] / np.bincount(cell, minlength=weights.shape[0])[cell]
    places_a_cell = cell.size / np.unique(cell).size  # of cells that have any
    # The part RETAINED of a fleet's weight is left by vehicles' bounds, before releases tell it.
    prior_weight = RETAINED * policy.fleet.vehicles * weight_at_places(profile, policy.kind, places_a_cell)
    fleet_weight = place_model.whole_weight(sums, prior_weight)
    around = place_model.Around(
        values=cell_means,
        expected=fleet_weight * traffic / traffic.sum(),
        # Hexagons, which have no geometry of their own, are equally large.
        sizes=fine_cells_of(pieces).astype(np.float64) if pieces.places.geometries else None,
    )
    return LearnedPlaces(place_model.learn_places(sums, around), cell_means, proved)


def place_day(read: ReleasedStage) -> place_model.PlaceDay:
    """Reads a place stage, averaging centres over slots."""
    (level,), hats = read.levels, read.stage.laid  # the only level; the HATs of places that the stage is about
    if hats.differences is None:
        raise ValueError("the stage is not about places")
    slots = np.array(hats.differences.slot_weights, np.float64)  # (slots,), in any unit
    return place_model.PlaceDay(
        weights=level.weights,
        speeds=level.speeds,
        centres=read.stage.centres @ (slots / slots.sum()) * float(CENTRE_STEP_KMH),  # (places,), mean over slots
        weight_variance=level.weight_sd**2,
        speed_variance=level.speed_sd**2,
        day_weight=hats.differences.day_weight,
        is_laplace=read.stage.kind == "laplace",
    )


def _pieces(policy: LevelsPolicy) -> Pieces:
    if policy.places is None:
        raise ValueError("the policy has no places")
    return policy.places


def place_product(
    product: Product,
    places: LearnedPlaces,
    models: Learned,
    posterior: Field,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
) -> SlotEstimates:
    """Estimates a product of places: cells' values plus places' learned differences.

    place-standing has one row a place for the whole period instead: what is learned of it so far.
    """
    named, (of_slot, spans) = _pieces(policy).places, slot_groups(product, [facts.start for facts in slots])
    upper_kmh, cell = float(policy.value.standard.upper), named.cell  # cell: of each place, (places,)
    groups = Groups(cells=np.arange(models.state.design.cells), slots=of_slot)
    of_cells = coarser(models, posterior, groups)
    shown = published(of_cells, upper_kmh)
    # Each place's cell's numbers, (places, times).
    shown = replace(shown, **{name: getattr(shown, name)[cell] for name in shown.__dataclass_fields__})
    if product.name == "place-standing":
        values, variances = places.fit.values[:, None], places.fit.variances[:, None]  # given cells' usual means
        cell_means = places.cells[:, None]
        shift = cell_means - shown.values  # the cell's standing value has an interval as wide as its day's
        with_bounds = (cell_means, shown.lower95 + shift, shown.upper95 + shift)
        value, lower, upper = (rounded(np.clip(column, 0, upper_kmh)) for column in with_bounds)
        shown = replace(shown, values=value, lower95=lower, upper95=upper)
    else:
        values = shown.values + places.differences[:, None]
        deviations = places.fit.day_variances[:, None]  # of a place's day around its usual one
        if product.name != "place-day":  # fewer vehicles: the cell's in that time, by the place's share of its weight
            cell_weights = np.bincount(cell, places.fit.weights, of_cells.values.shape[0])
            share = places.fit.weights / np.maximum(cell_weights[cell], 1e-9)  # never divided by 0
            # Means over NODES (see `Field`), at least 1 / 20, so that TYPICAL's variance, falling with them, is finite.
            vehicles = np.maximum(of_cells.vehicles[cell].mean(axis=-1) * share[:, None], 0.05)
            deviations = np.maximum(deviations, TYPICAL.of(vehicles))
        cell_variances = of_cells.variances + of_cells.of_ratios  # of_ratios: see `Field`
        variances = places.fit.variances[:, None] + cell_variances[cell] + deviations
    result = _estimates(values, variances, places, shown, upper_kmh)
    cells = np.array(texts_of(policy.region))[cell]
    parent = np.where(result.status == STATUS_NAMES[Status.PARENT], cells[:, None], "")
    parents = tuple(np.where(parent == "", np.nan, column) for column in (shown.values, shown.lower95, shown.upper95))
    result = result._replace(parent=parent, parent_values=parents)
    proved = [place_model.AT_LEAST if is_proved else None for is_proved in places.vehicles.are_there.tolist()]
    days = len({facts.start.partition("T")[0] for facts in slots})  # of a period, such as a week
    place_facts = PlaceFacts(models.state.days * days, proved, named.geometries)
    grouped = ProductGroups(groups, list(named.names), spans)
    return estimates_of_product(result, product.name, grouped, slots, policy, place_facts)


def _estimates(
    values: Float64s, variances: Float64s, places: LearnedPlaces, cell_numbers: PublishedNumbers, upper_kmh: float
) -> HatEstimates:
    """Bounds values, (places, times); withholds those of cells held back.

    A place is "ok" if its interval is narrow and it has enough vehicles even at their weight's lower bound; else its
    cell stands for it.
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
