"""What a map of places would be worth, day by day: simulated with the real integers and noise, against true means.

Not private.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpops.learning import DayValues, Learned, State, learned, taken_in
from dpops.learning.expected_places import CAUTIOUS
from dpops.levels import Differences, Recipe, ReleasedStage, Rows, Stage, release_rows, with_places
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import centres_around, look
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, read_city, read_tallies, rough_fleet, true_day
from pipelines.progress import Report
from transforms.places.ground import Pieces
from transforms.places.hierarchy import design_of, hats_of_places
from transforms.releases.periods.learned_places import LearnedPlaces, Taught, differences_of, learned_places
from transforms.releases.periods.stages import rows_of_pieces
from transforms.releases.periods.states import facts_of
from transforms.time.days_off import hours_of
from transforms.wire import joined


@dataclass(frozen=True, kw_only=True)
class PlaceCity:
    """A feed's days, counted under cells and under places. days: what vehicles did at places, in the city's order."""

    city: TrueCity
    pieces: Pieces
    days: list[Rows]


@dataclass(frozen=True, kw_only=True)
class PlaceErrors:
    """After a day: mean absolute errors of the map by reports so far, km/h.

    copied: the released cell's value at its places. constant: the city's own true mean. known: part of all reports at
    places with a half width below 8 km/h; held: how many of these places' intervals hold the truth.
    """

    day: int
    learned: float
    copied: float
    constant: float
    known: float
    held: float
    published: float


def mapped(
    city: PlaceCity, how: Recipe, share: Fraction, noise: Noise | None, days: int | None = None
) -> Iterator[PlaceErrors]:
    """Releases all days in order; days that are asked for beyond those of the feed are its first ones again."""
    true, places = city.city, city.pieces.places.cell.size
    first, later = (with_places(stages, share) for stages in (how.first, how.later))
    coarse = Recipe(first=first[:-1], later=later[:-1])
    state, taught, seen = (
        State.new(design_of(true.region), facts_of(true.fleet)),
        Taught.none(places),
        np.zeros((2, places)),
    )
    models: Learned | None = None
    believed: LearnedPlaces | None = None
    for number in range(days or len(city.days)):
        day, rows = true.days[number % len(city.days)], city.days[number % len(city.days)]
        hours = np.array(day.hours, np.int64)
        stages = look(true, day, coarse, None if models is None else models.forecast(hours), state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        models = learned(state)
        far = None if believed is None else believed.differences
        laid = differences_of(far, models, city.pieces, true.grid)
        stage = _laid((later if number else first)[-1], city, day, laid, models)
        taught = taught.after(_released(rows, stage, noise), day.hours)
        believed = learned_places(taught, models, city.pieces, true.fleet, stage.kind)
        seen += _truth(rows, seen.shape[1], true)
        yield _errors(number + 1, believed, seen, float(true.grid.upper))


def _laid(stage: Stage, city: PlaceCity, day: TrueDay, laid: Differences, models: Learned) -> Stage:
    centres = centres_around(city.city, models.estimate())
    hats = hats_of_places(city.pieces.places, day.hours)
    return stage.on(hats, centres, city.city.grid.step, 0, laid)


def _released(rows: Rows, stage: Stage, noise: Noise | None) -> ReleasedStage:
    if noise is None:
        stage = replace(stage, spread=Fraction(1))
        return release_rows(rows, stage, Noise())
    return release_rows(rows, stage, noise)


def _truth(rows: Rows, places: int, city: TrueCity) -> Float64s:
    """Adds up reports and speeds, (2, places)."""
    reports, total = (np.bincount(rows.cell, part, places) for part in (rows.reports, rows.total))
    result: Float64s = np.stack([reports, total * float(city.grid.step)])
    return result


def _errors(day: int, believed: LearnedPlaces, seen: Float64s, upper: float) -> PlaceErrors:
    places, cells = believed.places, believed.cells
    reports = seen[0]
    there = reports > 0
    truth = seen[1][there] / reports[there]
    weight = reports[there] / reports.sum()
    half = 1.96 * np.sqrt(places.variances)[there]
    ok = (half < 8) & ((places.weights - CAUTIOUS * np.sqrt(places.weight_variances))[there] > 1)
    values = np.clip(places.values, 0, upper)[there]
    missed = np.abs(values - truth)
    copied = np.abs(cells[there] - truth)
    return PlaceErrors(
        day=day,
        learned=float(weight @ missed),
        copied=float(weight @ copied),
        constant=float(weight @ np.abs(truth - weight @ truth)),
        known=float(weight @ ok),
        held=float(np.mean(missed[ok] <= half[ok])) if ok.any() else np.nan,
        published=float(weight @ np.where(ok, missed, copied)),
    )


def read_place_city(feed: Feed, pieces_of: Callable[[Sequence[int]], Pieces], report: Report) -> PlaceCity:
    """Reads the days of some files, under cells and under places. pieces_of: a region, cut by the places.

    A region or fleet that the specification does not name is made of the first day. Raises ValueError for places at
    which no report lies.
    """
    spec = feed.spec
    region = spec.cells.region or read_city(feed, report).region
    pieces, days, at_places = pieces_of(region), [], []
    if pieces.is_directed and not spec.input.headed and spec.input.turning is None:
        raise ValueError("some are of one direction, and rows are read without headings: name the file under [places]")
    tallies, periods = read_tallies(feed, pieces, report)
    for name, slots in periods.items():
        tally = joined([tallies[slot_s] for slot_s in slots if slot_s in tallies])
        rows = rows_of_pieces(tally, pieces.cell, slots)
        days.append(true_day(name, rows, hours_of(slots, spec.timetable.zone), len(region), spec.value.grid))
        at_places.append(rows_of_pieces(tally, pieces.place, slots))
    if not any(rows.cell.size for rows in at_places):
        raise ValueError("no report lies at any of them")
    fleet = spec.fleet or rough_fleet(region, days)
    city = TrueCity(region, spec.value.grid, fleet, days, spec.cells.region is None)
    return PlaceCity(city=city, pieces=pieces, days=at_places)
