"""What days of telemetry would be worth under `levels`, day by day: simulated with the real integers and noise.

Not private: errors are against true values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import h3.api.basic_int as h3_int
import numpy as np

from dpops.claims import rho_within
from dpops.learning import DayValues, Estimates, StageValues, State, learned, published, taken_in
from dpops.learning.learner import Field, Learned
from dpops.levels import (
    Fleet,
    Kind,
    Profile,
    Recipe,
    ReleasedStage,
    Rows,
    Stage,
    centres_of,
    read,
    recipe,
    release_rows,
    stage_of,
    sum_up,
)
from dpops.levels.defaults import BoundsOnly
from dpops.levels.groups import BLOCK_H
from dpops.noise import Noise
from dpops.statistics import SUMS
from dpops.types import Float64s, Grid, Int64s
from pipelines.evaluation.feed import Feed
from pipelines.progress import Report
from pipelines.specification import Specification
from transforms.count import wire
from transforms.count.tally import tally
from transforms.release.learned import MARGIN_KMH, design_of, facts_of, stage_values
from transforms.release.levels import first_centres, hats_of, rows_of
from transforms.release.levels_order import hours_of

QUIET = 1e-4
"""What the noise of the noiseless model is scaled with: the fit needs some."""


@dataclass(frozen=True)
class TrueDay:
    """A day's reports in the region. reports, vehicles: (cells, slots); means: km/h, nan without a report."""

    name: str
    rows: Rows
    hours: tuple[int, ...]
    reports: Float64s
    vehicles: Float64s
    means: Float64s


@dataclass(frozen=True)
class TrueCity:
    """Days of telemetry on public cells. made_region: whether the region was made of the first day's own cells."""

    region: tuple[int, ...]
    grid: Grid
    fleet: Fleet
    days: list[TrueDay]
    made_region: bool

    @property
    def mean_kmh(self) -> float:
        total = sum(float(np.nansum(day.means * day.reports)) for day in self.days)
        return total / sum(float(day.reports.sum()) for day in self.days)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One run over all days. causal, forecast (none for the first day), whole: of each day."""

    causal: list[Estimates] = field(default_factory=list)
    forecast: list[Estimates | None] = field(default_factory=list)
    whole: list[Estimates] = field(default_factory=list)


def read_city(feed: Feed, report: Report) -> TrueCity:
    """The days of some files. A region or fleet that the specification does not name is made of the first day."""
    spec, (when, parts) = feed.spec, feed.events(report)
    tallies = {}
    for slot_s in sorted(parts):
        tallies[slot_s] = tally(wire.unpack_events(parts[slot_s]), slot_s, None, (SUMS,)).tally
    periods: dict[str, list[int]] = {}
    for slot in when.slots:
        periods.setdefault(slot.period, []).append(slot.start_s)
    periods = {name: slots for name, slots in periods.items() if any(at in tallies for at in slots)}
    region = spec.cells.region or _around(tallies[at] for at in next(iter(periods.values())) if at in tallies)
    days = [
        _true_day(name, slots, [tallies[at] for at in slots if at in tallies], region, spec)
        for name, slots in periods.items()
    ]
    fleet = rough_fleet(region, days) if spec.levels is None else spec.levels.fleet
    return TrueCity(region, spec.speeds.grid, fleet, days, spec.cells.region is None)


def rough_fleet(region: tuple[int, ...], days: Sequence[TrueDay]) -> Fleet:
    """What an operator would have known of the first day's fleet, to one digit. Counted here, so not private."""
    day = next((each for each in days if each.rows.vehicle.size), None)
    if day is None:
        return Fleet()
    rows, hats = day.rows, hats_of(region, day.hours)
    vehicle = np.unique(rows.vehicle, return_inverse=True)[1]
    parent, grandparent = (np.array(cells)[rows.cell] for cells in (hats.parents, hats.grandparents))
    hour = np.array(day.hours)[rows.slot]

    def touched(of: Int64s) -> int:
        return _one_digit(np.unique(np.stack([vehicle, of]), axis=1).shape[1] / (int(vehicle.max()) + 1))

    profile = Profile(
        hats=touched(rows.cell * hats.slots + rows.slot),
        cells=touched(rows.cell),
        parents=touched(parent),
        grandparents=touched(grandparent),
        hours=touched(hour),
        parts=touched(hour // BLOCK_H),
    )
    return Fleet(vehicles=_one_digit(int(vehicle.max()) + 1), profile=profile)


def _one_digit(number: float) -> int:
    """At least 1."""
    size: int = 10 ** (len(str(int(max(number, 1)))) - 1)
    return max(round(number / size), 1) * size


def _around(tallies: Iterable[wire.Tally]) -> tuple[int, ...]:
    occupied = {int(cell) for each in tallies for cell in each.cell.tolist()}
    return tuple(sorted({near for cell in occupied for near in h3_int.grid_disk(cell, 1)}))


def _true_day(
    name: str, slots: Sequence[int], tallies: Sequence[wire.Tally], region: tuple[int, ...], spec: Specification
) -> TrueDay:
    inside = [each.take(np.isin(each.cell, np.array(region, np.int64))) for each in tallies]
    parts = [rows_of(each, region, slots) for each in inside]
    joined = Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((joined.slot, joined.cell, joined.vehicle))
    rows = Rows(*(column[order] for column in joined))
    shape = (len(region), len(slots))
    hat = rows.cell * len(slots) + rows.slot
    reports, vehicles, total = (
        np.bincount(hat, weights, shape[0] * shape[1]).astype(np.float64).reshape(shape)
        for weights in (rows.reports, None, rows.total)
    )
    means = np.divide(total, reports, out=np.full(shape, np.nan), where=reports > 0) * float(spec.speeds.grid.step)
    return TrueDay(name, rows, tuple(hours_of(slots, spec.timetable.zone)), reports, vehicles, means)


def recipe_for(city: TrueCity, kind: Kind, epsilon: Fraction, delta: Fraction) -> Recipe:
    """The default recipe at a total of (epsilon, delta), or of epsilon alone for Laplace noise."""
    rho = rho_within(epsilon, delta) if kind == "gaussian" else None
    hats = hats_of(city.region, city.days[0].hours)
    return recipe(kind, epsilon, rho, BoundsOnly(hats=hats, fleet=city.fleet))


def simulate(city: TrueCity, how: Recipe, noise: Noise | None) -> Simulated:
    """Releases all days in order, each around what the earlier ones taught. noise: None for the noiseless model."""
    state = State.new(design_of(city.region), facts_of(city.fleet), None)
    found = Simulated()
    known: Learned | None = None
    for day in city.days:
        hours = np.array(day.hours, np.int64)
        forecast = None if known is None else known.forecast(hours)
        found.forecast.append(None if forecast is None else _published(city, forecast))
        stages = look(city, day, how, forecast, state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        known = learned(state)
        found.causal.append(_published(city, known.estimate()))
    if known is not None:
        found.whole.extend(_published(city, known.estimate(back)) for back in reversed(range(len(city.days))))
    return found


def _published(city: TrueCity, belief: Field) -> Estimates:
    return published(belief, float(city.grid.upper))


def look(
    city: TrueCity, day: TrueDay, how: Recipe, forecast: Field | None, state: State, noise: Noise | None
) -> tuple[StageValues, ...]:
    """All stages of a day; each around the forecast, or what the stage before it taught."""
    hats, hours = hats_of(city.region, day.hours), np.array(day.hours, np.int64)
    stages: list[StageValues] = []
    belief = forecast
    for settings in how.first if forecast is None else how.later:
        if stages:
            belief = learned(taken_in(state, DayValues(hours=hours, stages=tuple(stages)))).estimate()
        centres = first_centres(hats.cells, hats.slots) if belief is None else centres_around(city, belief)
        stage = stage_of(settings, how.kind, how.spread, hats, city.grid.step, centres)
        stages.append(stage_values(_released(day.rows, stage, noise), city.fleet))
    return tuple(stages)


def centres_around(city: TrueCity, belief: Field) -> Int64s:
    return centres_of(belief.values, MARGIN_KMH, city.grid.upper - MARGIN_KMH)


def _released(rows: Rows, stage: Stage, noise: Noise | None) -> ReleasedStage:
    if noise is not None:
        return release_rows(rows, stage, noise)
    exact = read(np.concatenate(sum_up(rows, stage)), stage)
    levels = [
        replace(level, weight_sd=level.weight_sd * QUIET, speed_sd=level.speed_sd * QUIET) for level in exact.levels
    ]
    return replace(exact, levels=tuple(levels))
