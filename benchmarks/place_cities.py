"""Made-up cities at places: what vehicles did in cells, spread over the H3 cells of a finer resolution in each.

    python -m benchmarks.place_cities --cities taxis --resolution 9 --days 23
    python -m benchmarks.place_cities --cities 'drawn 7,drawn 9,alike drawn 11'
    python -m benchmarks.place_cities --data '../shared/data/capmetro/*.csv' --days 28

Noise is the same in each run of the same number, so that versions compare.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click
import numpy as np

from benchmarks.cities import made_up
from benchmarks.drawn import DENSE, GRID, drawn
from benchmarks.weeks import TAXIS
from dpops.levels import Kind, Rows
from dpops.noise import Noise
from dpops.types import Float64s, Int64s
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA, KINDS
from hatstream_lab.evaluation.places import PlaceCity, PlaceErrors, mapped, read_place_city
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, true_day
from transforms.places.ground import Pieces, hexagon_pieces

APART_KMH, SLOW, OWN_KMH, STAND_KMH = 11.0, 3.0, 8.0, 2.0
"""How far places lie from their cells, how much slower one is that e times as many visit, and a vehicle at it. The
busiest place of a cell is a stand with this speed, in a part of the cells."""
STANDS, MORE, BUSY = 0.2, 3.0, 2.6


ALIKE = "alike "
"""Begins the name of a city whose places are as their cells: there is nothing to learn."""
SHOWN = {1, 2, 3, 4, 5, 6, 7, 14, 23, 28}
MOST_VEHICLES, MOST_DAYS = 600, 6


@click.command()
@click.option("--cities", default="taxis", show_default=True, help="taxis, dense, `drawn 7`, `alike drawn 7`; commas.")
@click.option("--data", help="Instead: days of a real feed, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed.")
@click.option("--resolution", default=8, show_default=True)
@click.option("--days", type=int, help="Released: a city's days, again and again. [default: its days]")
@click.option("--totals", default="2.64", show_default=True, help="Of a day; commas.")
@click.option("--kind", default="gaussian", show_default=True, type=click.Choice(KINDS), help="laplace: without delta.")
@click.option("--runs", default=1, show_default=True)
def benchmark(
    cities: str, data: str | None, spec: str, resolution: int, days: int | None, totals: str, kind: Kind, runs: int
) -> None:
    """Errors of the standing map by reports, of its cells, and with cells at all places that are not `ok`."""
    for name in cities.split(",") if data is None else ["real"]:
        city = city_of(name.strip(), resolution, days) if data is None else real_city(data, Path(spec), resolution)
        print(f"{name.strip()}: {city.city.fleet.vehicles} vehicles, {city.pieces.places.cell.size:,} places")
        for total in totals.split(","):
            how = recipe_for(city.city, kind, Fraction(total), DELTA)
            errors = [
                list(mapped(city, how, Fraction(3, 10), Noise(np.random.default_rng(run).bytes), days))
                for run in range(runs)
            ]
            for of_day in zip(*errors, strict=True):
                if of_day[0].day in SHOWN or of_day[0].day == len(errors[0]):
                    print(_line(total, of_day), flush=True)


def _line(total: str, of_day: Sequence[PlaceErrors]) -> str:
    """Means of the runs, and each run's own map."""
    names = {"learned": "map", "copied": "cell", "published": "with cells", "known": "ok"}
    means = ", ".join(f"{said} {np.mean([getattr(one, name) for one in of_day]):.2f}" for name, said in names.items())
    held = [one.held for one in of_day if one.known]
    runs = " ".join(f"{one.learned:.2f}/{one.copied:.2f}" for one in of_day)
    return f"  {total}, day {of_day[0].day}: {means}, held {np.mean(held) if held else np.nan:.2f} ({runs})"


def city_of(name: str, resolution: int, days: int | None) -> PlaceCity:
    """A city by its name. days: of the taxis."""
    if name == "taxis":
        return taxis(resolution, days or TAXIS.days)
    of = (
        DENSE
        if name == "dense"
        else drawn(int(name.removeprefix(ALIKE).removeprefix("drawn ")), MOST_VEHICLES, MOST_DAYS)
    )
    return at_places(made_up(of, GRID), resolution, seed=of.seed, apart=0.0 if name.startswith(ALIKE) else 1.0)


def real_city(data: str, spec: Path, resolution: int) -> PlaceCity:
    """A real feed's days, at the H3 cells of a finer resolution."""
    return read_place_city(
        Feed.of(data, spec, None), lambda region: hexagon_pieces(region, resolution), lambda *_: None
    )


def taxis(resolution: int, days: int, vehicles: int = 500) -> PlaceCity:
    """The made-up 500 taxis, at places of a resolution."""
    city = made_up(replace(TAXIS, days=days, vehicles=vehicles), GRID)
    return at_places(city, resolution, seed=TAXIS.seed)


def at_places(city: TrueCity, resolution: int, seed: int, apart: float = 1.0) -> PlaceCity:
    """A city's days, each row spread over some places of its cell: popular ones, the same each day.

    apart: 0 where places are as their cells.
    """
    rng, pieces = np.random.default_rng([seed, 9]), hexagon_pieces(city.region, resolution)
    cell = pieces.places.cell
    popular = BUSY * rng.normal(size=cell.size)
    far = APART_KMH * rng.normal(size=cell.size) - SLOW * popular
    stands = rng.random(len(city.region)) < STANDS
    busiest = np.array(
        [np.flatnonzero(cell == index)[np.argmax(popular[cell == index])] for index in range(len(city.region))]
    )
    far = far * apart
    if apart:
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


if __name__ == "__main__":
    benchmark()
