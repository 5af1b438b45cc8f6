"""Inference of places' differences from their cells from recorded place stages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning import Learned
from dpops.learning.places import (
    Around,
    PlaceBelief,
    PlaceDay,
    PlaceSums,
    VehiclesProved,
    learn_places,
    whole_weight,
)
from dpops.levels.bounded import ReleasedStage
from dpops.levels.defaults import Fleet, weight_at_places
from dpops.levels.stages import CENTRE_STEP_KMH, WEIGHT_STEPS, Differences, Kind
from dpops.types import Float64s, Grid
from transforms.places.ground import Pieces
from transforms.places.near import fine_cells_of
from transforms.recorded.stage_plan import is_of_places
from transforms.recorded.units import StageEntry
from transforms.releases.periods.stages import MARGIN_KMH, LevelsPolicy, read_unit
from transforms.releases.periods.states import learned_from
from transforms.time.days_off import recorded_hours


class Taught(NamedTuple):
    """Recorded sums of places."""

    sums: PlaceSums
    vehicles: VehiclesProved
    hours: Mapping[int, int]  # slots per hour, see `Design`

    def after(self, read: ReleasedStage, hours: Sequence[int]) -> "Taught":
        """Takes in one more day."""
        day = place_day(read)
        sums = self.sums.after(day)
        return Taught(sums, self.vehicles.after(day, sums, read.stage.kind), Counter(self.hours) + Counter(hours))

    @staticmethod
    def none(places: int) -> "Taught":
        """Creates sums of no entry."""
        return Taught(PlaceSums.none(places), VehiclesProved.none(places), {})


class LearnedPlaces(NamedTuple):
    """Posterior of places, with their cells' means and proved vehicles."""

    places: PlaceBelief
    cells: Float64s  # mean of each place's cell in the same hours, km/h
    vehicles: VehiclesProved  # at least four proved

    @property
    def differences(self) -> Float64s:
        """How far places lie from their cells, km/h."""
        return self.places.values - self.cells


def learned_differences(entries: Sequence[StageEntry], policy: LevelsPolicy) -> Differences:
    """Infers differences from cells that the next place stage centres on.

    entries: with the day's other stages last. Raises ValueError if the policy has no places.
    """
    models, pieces = learned_from(entries, policy), _pieces(policy)
    taught = taught_by(entries, policy)
    result = learned_places(taught, models, pieces, policy.fleet, policy.kind) if taught.sums.days else None
    return differences_of(None if result is None else result.differences, models, pieces, policy.value.standard)


def differences_of(learned: Float64s | None, models: Learned, pieces: Pieces, grid: Grid) -> Differences:
    """Rounds places' differences from cells, km/h, to grid steps; zero before release."""
    places, belief = pieces.places, models.estimate()
    far = np.zeros(places.cell.size) if learned is None else learned
    by_slot = belief.weights.sum(axis=0) / models.state.facts.vehicles
    return Differences(
        cell=places.cell,
        steps=np.rint(far / float(CENTRE_STEP_KMH)).astype(np.int64),
        lowest=int(MARGIN_KMH / CENTRE_STEP_KMH),
        highest=int((grid.upper - MARGIN_KMH) / CENTRE_STEP_KMH),
        slot_weights=tuple(np.clip(np.rint(by_slot * WEIGHT_STEPS), 1, 100 * WEIGHT_STEPS).astype(np.int64).tolist()),
    )


def taught_by(entries: Sequence[StageEntry], policy: LevelsPolicy) -> Taught:
    """Reads all entries that are about places."""
    places = _pieces(policy).places
    result = Taught.none(places.cell.size)
    for entry in entries:
        if is_of_places(entry.unit):
            read, unit = read_unit(entry.unit, policy.region, places), entry.unit
            result = result.after(read, recorded_hours(unit.slot_start, unit.slot_end, read.stage.laid.hats.hours))
    return result


def learned_places(taught: Taught, models: Learned, pieces: Pieces, fleet: Fleet, kind: Kind) -> LearnedPlaces:
    """Learns from what was released of places, and of their cells."""
    hours = np.array(sorted(taught.hours), np.int64)
    belief, times = models.forecast(hours), np.array([taught.hours[hour] for hour in hours.tolist()])
    weights = belief.weights * times
    cell = pieces.places.cell
    means = np.sum(weights * belief.values, axis=1) / weights.sum(axis=1)
    of_hours = np.sum(weights * (belief.values - means[:, None]) ** 2, axis=1) / weights.sum(axis=1)
    cells = means[cell]
    traffic = _traffic(weights.sum(axis=1), pieces)
    in_a_cell = cell.size / np.unique(cell).size
    fleet_weight = whole_weight(
        taught.sums, fitted.RETAINED * fleet.vehicles * weight_at_places(fleet.profile, kind, in_a_cell)
    )
    around = Around(
        values=cells,
        of_hours=of_hours[cell],
        expected=fleet_weight * traffic / traffic.sum(),
        sizes=fine_cells_of(pieces).astype(np.float64) if pieces.places.geometries else None,
    )
    return LearnedPlaces(learn_places(taught.sums, around), cells, taught.vehicles)


def _traffic(of_cells: Float64s, pieces: Pieces) -> Float64s:
    """Estimates places' prior weights by public visits, or equal shares of their cell."""
    cell, visits = pieces.places.cell, np.array(pieces.places.visits, np.float64)
    if visits.size:
        return visits
    return of_cells[cell] / np.bincount(cell, minlength=of_cells.size)[cell]


def place_day(read: ReleasedStage) -> PlaceDay:
    """Reads a place stage, with centres averaged over slots by expected traffic."""
    (level,), around = read.levels, read.stage.laid
    if around.differences is None:
        raise ValueError("the stage is not about places")
    slots = np.array(around.differences.slot_weights, np.float64)
    return PlaceDay(
        weights=level.weights,
        speeds=level.speeds,
        centres=read.stage.centres @ (slots / slots.sum()) * float(CENTRE_STEP_KMH),
        weight_variance=level.weight_sd**2,
        speed_variance=level.speed_sd**2,
        day_weight=around.differences.day_weight,
        is_laplace=read.stage.kind == "laplace",
    )


def _pieces(policy: LevelsPolicy) -> Pieces:
    if policy.places is None:
        raise ValueError("the policy has no places")
    return policy.places
