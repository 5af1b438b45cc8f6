"""What distributions under a small total would be worth, day by day: simulated with the real integers and noise.

Not private: errors are against true quantiles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops.learning import DayValues, Groups, Learned, State, coarser, learned, taken_in
from dpops.levels import Recipe, ReleasedStage, Stage, hats_of_classes, release_rows, rows_of_classes, with_classes
from dpops.levels.groups import BLOCK_H
from dpops.noise import Noise
from dpops.statistics import SUMS, Classes, Histogram
from dpops.types import Float64s, Int64s
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, around, read_tallies, rough_fleet, true_day
from pipelines.progress import Report
from pipelines.specification.classes import ClassesAsked
from transforms.places.hierarchy import design_of, hats_of
from transforms.releases.periods.learned_classes import (
    LEVELS,
    Distributions,
    TaughtClasses,
    distributions,
    edges_in_units,
    learned_classes,
)
from transforms.releases.periods.stages import rows_of
from transforms.releases.periods.states import facts_of
from transforms.time.days_off import hours_of
from transforms.wire import joined

FROM_VEHICLES = 10
BINS = 260
"""Of true distributions."""


@dataclass(frozen=True, kw_only=True)
class SpreadCity:
    """A feed's days. counts, bins: reports of each row of a day, in classes and in BINS equally wide bins."""

    city: TrueCity
    asked: ClassesAsked
    counts: list[Int64s]
    bins: list[Int64s]


@dataclass(frozen=True, kw_only=True)
class SpreadErrors:
    """Means over all runs, of cells' days or parts of four hours of them, with FROM_VEHICLES vehicles and more.

    error: of the percentile, mean absolute error, km/h; constant: that of the whole feed's own percentile. ok: part of
    them with status ok; held: intervals of all of them that hold the truth; held_ok: of those. half_width: km/h.
    """

    total: str
    delta: str | None
    product: str
    percentile: int
    day: int
    rows: int
    error: float
    constant: float
    held: float
    half_width: float
    ok: float
    held_ok: float | None


def read_spread_city(feed: Feed, asked: ClassesAsked, report: Report) -> SpreadCity:
    """Reads the days of some files. A region or fleet that the specification does not name is made of the first day."""
    spec, grid = feed.spec, feed.spec.value.grid
    columns = SUMS, Classes(asked.edges), Histogram(BINS, grid.upper_steps)
    tallies, periods = read_tallies(feed, spec.cells.ground, report, columns)
    region = spec.cells.region or around(
        tallies[index].cell for index in next(iter(periods.values())) if index in tallies
    )
    days, counts, bins = [], [], []
    for name, slots in periods.items():
        tally = joined([tallies[index] for index in slots if index in tallies])
        tally = tally.take(np.isin(tally.cell, np.array(region, np.int64)))
        tally = tally.take(np.lexsort((tally.slot_s, tally.cell, tally.vehicle)))
        rows = rows_of(tally, region, slots)
        days.append(true_day(name, rows, hours_of(slots, spec.timetable.zone), len(region), grid))
        counts.append(tally.sums["classes"])
        bins.append(tally.sums["histograms"])
    fleet = spec.fleet or rough_fleet(region, days)
    city = TrueCity(region, grid, fleet, days, spec.cells.region is None)
    return SpreadCity(city=city, asked=asked, counts=counts, bins=bins)


def spread_errors(city: SpreadCity, totals: Sequence[str], runs: int, report: Report) -> list[SpreadErrors]:
    """Simulates each total, with delta. The noise of run r is of seed r."""
    result: list[SpreadErrors] = []
    for done, total in enumerate(totals):
        report("totals simulated", done, len(totals))
        how = recipe_for(city.city, "gaussian", Fraction(total), DELTA)
        compared = [_compared(city, how, Noise(np.random.default_rng(run).bytes)) for run in range(runs)]
        for day in range(len(city.city.days)):
            for product in ("cell-day", "cell-part"):
                whole = np.concatenate([run[day][product] for run in compared], axis=-1)
                result += _errors_of(whole, total, product, day)
    report("totals simulated", len(totals), len(totals))
    return result


def _errors_of(compared: Float64s, total: str, product: str, day: int) -> Iterator[SpreadErrors]:
    """Averages (5, levels, rows): error, the constant's, whether held, half width, whether ok."""
    for index, level in enumerate(LEVELS):
        error, constant, held, half, ok = compared[:, index]
        yield SpreadErrors(
            total=total,
            delta=str(DELTA),
            product=product,
            percentile=round(100 * level),
            day=day + 1,
            rows=error.size,
            error=float(error.mean()) if error.size else 0.0,
            constant=float(constant.mean()) if error.size else 0.0,
            held=float(held.mean()) if error.size else 1.0,
            half_width=float(half.mean()) if error.size else 0.0,
            ok=float(ok.mean()) if error.size else 0.0,
            held_ok=float(held[ok > 0].mean()) if ok.any() else None,
        )


def _compared(city: SpreadCity, how: Recipe, noise: Noise) -> list[dict[str, Float64s]]:
    """Compares every day, by product: see `_errors_of`."""
    true, asked, result = city.city, city.asked, []
    first, later = (with_classes(stages, asked.share, asked.edges) for stages in (how.first, how.later))
    coarse = Recipe(first=first[:-1], later=later[:-1])
    edges, classes = edges_in_units(asked.edges, true.grid), len(asked.edges) + 1
    state, taught = (
        State.new(design_of(true.region), facts_of(true.fleet)),
        TaughtClasses.none(len(true.region), classes),
    )
    models: Learned | None = None
    for number, day in enumerate(true.days):
        hours = np.array(day.hours, np.int64)
        forecast = None if models is None else models.forecast(hours)
        state = taken_in(state, DayValues(hours=hours, stages=look(true, day, coarse, forecast, state, noise)))
        models = learned(state)
        taught = taught.after(_released(city, number, (later if number else first)[-1], noise), day.hours)
        spread = learned_classes(taught, models, edges, true.fleet, first[-1].kind)
        belief, compared = models.estimate(), {}
        for product, groups in _groupings(day, len(true.region)).items():
            shown = distributions(spread, coarser(models, belief, groups), float(true.grid.upper))
            compared[product] = _against(city, number, groups, shown)
        result.append(compared)
    return result


def _released(city: SpreadCity, number: int, stage: Stage, noise: Noise) -> ReleasedStage:
    true, day = city.city, city.city.days[number]
    hats = hats_of_classes(hats_of(true.region, day.hours), len(stage.classes) + 1)
    laid = stage.on(hats, np.zeros((hats.cells, hats.slots), np.int64), true.grid.step)
    return release_rows(rows_of_classes(day.rows.vehicle, day.rows.cell, city.counts[number]), laid, noise)


def _groupings(day: TrueDay, cells: int) -> dict[str, Groups]:
    blocks = np.unique(np.array(day.hours) % 24 // BLOCK_H, return_inverse=True)[1].astype(np.int64)
    every = np.arange(cells)
    return {"cell-day": Groups(cells=every, slots=0 * blocks), "cell-part": Groups(cells=every, slots=blocks)}


def _against(city: SpreadCity, number: int, groups: Groups, shown: Distributions) -> Float64s:
    """Compares groups of so many vehicles with the truth: (5, levels, rows), see `_errors_of`."""
    rows, upper = city.city.days[number].rows, float(city.city.grid.upper)
    group = groups.cells[rows.cell] * groups.shape[1] + groups.slots[rows.slot]
    counts = np.zeros((groups.shape[0] * groups.shape[1], BINS), np.int64)
    np.add.at(counts, group, city.bins[number])
    vehicles = np.bincount(np.unique(np.stack([group, rows.vehicle]), axis=1)[0], minlength=counts.shape[0])
    there = vehicles >= FROM_VEHICLES
    result, constant = _quantiles(counts[there], upper), _quantiles(sum(part.sum(axis=0) for part in city.bins), upper)
    values, lower, upper95 = (part.reshape(len(LEVELS), -1)[:, there] for part in shown[:3])
    held = (lower <= result + upper / BINS) & (result - upper / BINS <= upper95)
    ok = np.broadcast_to(shown.is_known.ravel()[there], held.shape)
    off = np.abs(constant[:, None] - result)
    return np.stack([np.abs(values - result), off, held, (upper95 - lower) / 2, ok]).astype(np.float64)


def _quantiles(counts: "Int64s | int", upper: float) -> Float64s:
    """Finds quantiles (levels, ..) of reports in bins, (.., BINS), in which reports are taken to lie evenly."""
    below = np.cumsum(np.asarray(counts), axis=-1)
    result = []
    for level in LEVELS:
        wanted = level * below[..., -1]
        index = np.argmax(below >= wanted[..., None], axis=-1)
        end = np.take_along_axis(below, index[..., None], -1)[..., 0]
        there = np.take_along_axis(np.asarray(counts), index[..., None], -1)[..., 0]
        result.append((index + 1 - (end - wanted) / np.maximum(there, 1)) * upper / BINS)
    return np.stack(result).astype(np.float64)
