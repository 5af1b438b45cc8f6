"""Made-up taxis at places: what they did in cells, spread over the H3 cells of a finer resolution in each."""

from dataclasses import replace

import numpy as np

from benchmarks.cities import made_up
from benchmarks.drawn import GRID
from benchmarks.weeks import TAXIS
from dpops.levels import Rows
from dpops.types import Float64s, Int64s
from pipelines.lab.evaluation.places import PlaceCity
from pipelines.lab.evaluation.truth import TrueCity, TrueDay, true_day
from transforms.places.ground import Pieces, hexagon_pieces

APART_KMH, SLOW, OWN_KMH, STAND_KMH = 11.0, 3.0, 8.0, 2.0
"""How far places lie from their cells, how much slower one is that e times as many visit, and a vehicle at it. The
busiest place of a cell is a stand with this speed, in a part of the cells."""
STANDS, MORE, BUSY = 0.2, 3.0, 2.6


def taxis(resolution: int, days: int, vehicles: int = 500) -> PlaceCity:
    """The made-up 500 taxis, at places of a resolution."""
    city = made_up(replace(TAXIS, days=days, vehicles=vehicles), GRID)
    return at_places(city, resolution, seed=TAXIS.seed)


def at_places(city: TrueCity, resolution: int, seed: int) -> PlaceCity:
    """A city's days, each row spread over some places of its cell: popular ones, the same each day."""
    rng, pieces = np.random.default_rng([seed, 9]), hexagon_pieces(city.region, resolution)
    cell = pieces.places.cell
    popular = BUSY * rng.normal(size=cell.size)
    far = APART_KMH * rng.normal(size=cell.size) - SLOW * popular
    stands = rng.random(len(city.region)) < STANDS
    busiest = np.array(
        [np.flatnonzero(cell == index)[np.argmax(popular[cell == index])] for index in range(len(city.region))]
    )
    far[busiest[stands]] = -np.inf
    spread = [_spread(day.rows, pieces, popular, far, rng, float(city.grid.step)) for day in city.days]
    true = [_true(day, rows, pieces, city) for day, rows in zip(city.days, spread, strict=True)]
    return PlaceCity(city=replace(city, days=true), pieces=pieces, days=spread)


def _spread(
    rows: Rows, pieces: Pieces, popular: Float64s, far: Float64s, rng: np.random.Generator, step_kmh: float
) -> Rows:
    """Each report at a place, by how popular it is; a vehicle keeps to few of them in one slot."""
    cell = pieces.places.cell
    order = np.argsort(cell, kind="stable")
    start = np.searchsorted(cell[order], np.arange(cell.max() + 2))
    below = np.concatenate([[0.0], np.cumsum(np.exp(popular[order]))])
    visits = np.minimum(1 + rng.poisson(MORE - 1, rows.cell.size), rows.reports)
    row = np.repeat(np.arange(rows.cell.size), visits)
    first, end = (below[start[rows.cell[row] + more]] for more in (0, 1))
    chosen = np.searchsorted(below, first + rng.random(row.size) * (end - first), side="right") - 1
    place = order[np.minimum(chosen, start[rows.cell[row] + 1] - 1)]
    least = np.maximum(rows.reports[row] // visits[row], 1)
    mean = rows.total[row] / rows.reports[row] * step_kmh + far[place] + OWN_KMH * rng.normal(size=row.size)
    mean = np.where(np.isfinite(far[place]), mean, STAND_KMH * rng.random(row.size))
    many = least * np.where(np.isfinite(far[place]), 1, 2)
    total = np.rint(np.clip(mean, 0, 65) * many / step_kmh).astype(np.int64)
    return _merged(rows.vehicle[row], place, rows.slot[row], many, total)


def _merged(vehicle: Int64s, place: Int64s, slot: Int64s, reports: Int64s, total: Int64s) -> Rows:
    keys, row = np.unique(np.stack([vehicle, place, slot]), axis=1, return_inverse=True)
    added = (np.bincount(row, numbers, keys.shape[1]).astype(np.int64) for numbers in (reports, total))
    return Rows(*keys, *added)


def _true(day: TrueDay, rows: Rows, pieces: Pieces, city: TrueCity) -> TrueDay:
    of_cells = _merged(rows.vehicle, pieces.places.cell[rows.cell], rows.slot, rows.reports, rows.total)
    return true_day(day.name, of_cells, day.hours, len(city.region), city.grid)
