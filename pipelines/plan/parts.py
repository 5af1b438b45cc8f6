"""Worth of parts of a period: places and distributions.

`bounds` or `facts`: a day's public HATs, and the fleet. `width` of a value turns differences in km/h into its unit. A
place is `ok`, or known, if it surely has reports and its half width is below INFORMATIVE_KMH; a map is worth its share
of the total if enough of all reports, USEFUL or WELL, are at such places. DAY_NUMBERS: numbers of released days.
Nobody knows how traffic is spread over places: each kind of places has two `crowdings`, "spread" and "concentrated".
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from dpops import fitted
from dpops.learning.classes import ExpectedCell, expected_error
from dpops.learning.expected import CONCENTRATED, EVEN, SPREAD, expected_maps
from dpops.levels.defaults import BoundsOnly, Fleet
from dpops.levels.parts import MOVING, times_of, with_places
from dpops.levels.stages import UNIT, Stage, scaled
from dpops.levels.strategy import PRIOR_SD_KMH, posterior_of, precisions_of
from dpops.spread import INFORMATIVE_KMH, PRIOR_SPREAD
from dpops.types import Grid
from pipelines.plan.needs import fewest
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.parts import ClassesRequest
from pipelines.specification.tables import SHARE
from transforms.releases.periods.learned import edges_in_units, weight_of_one
from transforms.value import Value

DAY_NUMBERS = (1, 2, 4, 7, 14, 28)  # released days of which a map's worth is shown
MOST_DAYS = 365  # released days within which a map may become useful
USEFUL = 1 / 3  # a map is worth its share if this part of all reports is at places that are `ok`
WELL = 1 / 2  # the part that is needed if the traffic must be concentrated for it, which nobody knows beforehand
FINER = (1, 2)  # how many resolutions finer than the cells the compared places are
CROWDINGS = {"spread": SPREAD, "concentrated": CONCENTRATED}  # unevenness of traffic over hexagons
CROWDINGS_OF_FILES = {"spread": EVEN, "concentrated": SPREAD}  # over segments of streets: no few have most of it
MOST_FLEET = 1_000_000  # vehicles a day; a larger fleet is not looked for


class PlacesWorth(msgspec.Struct, frozen=True, kw_only=True):
    """Expected errors of one kind of places and traffic; lists are by DAY_NUMBERS."""

    what: str  # kind of places
    places: int
    traffic: str  # key of _Kind.crowdings
    as_specified: bool
    half_width: list[float]  # median by reports, in the value's unit, as are errors
    ok: list[float]  # share of reports at usable places
    error: list[float]  # mean absolute one
    cell_error: list[float]  # the same, if each place is taken to be like its cell
    useful_from: int | None  # first day on which a third of reports is at usable places


class PlannedPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a map of places."""

    share: float  # of the total
    is_asked: bool  # the specification has [places]
    days: list[int]
    kinds: list[PlacesWorth]
    answers: list[str]  # advice in words


class _Kind(NamedTuple):
    """Kind of places to plan, such as a finer resolution."""

    noun: str  # as in specifications
    places: int  # number of places
    cells: int  # of the region that hold places
    as_specified: bool = False
    crowdings: Mapping[str, float] = CROWDINGS  # concentration of traffic by name


def plan_places(spec: Specification, bounds: BoundsOnly) -> PlannedPlaces | None:
    """Plans a map of places; None for public counts, live slots and keys."""
    levels = spec.by_levels
    if levels.counts_public or levels.live is not None or spec.keys is not None:
        return None
    share = SHARE if levels.places is None else levels.places.share  # the default, if none are specified
    stage = with_places(levels.recipe.later, share * levels.usual_share)[-1]  # [-1]: a usual day's stage of places
    coarse, cells = spec.cells.resolution, bounds.hats.cells
    pieces = None if levels.places is None else levels.places.pieces  # places' parts in cells
    specified = None if pieces is None or pieces.places.geometries else pieces.resolution  # None for a file's shapes
    fine = {coarse + step for step in FINER if coarse + step <= 15} | (set() if specified is None else {specified})
    kinds = [  # an H3 cell has 7 cells of the next resolution, of which 15 is the finest
        _Kind(f"resolution {finer}", places=cells * 7 ** (finer - coarse), cells=cells, as_specified=finer == specified)
        for finer in sorted(fine)
    ]
    if pieces is not None and specified is None:
        place_count, occupied_cells = pieces.places.cell.size, int(np.unique(pieces.places.cell).size)
        kinds.append(_Kind("the file's", place_count, occupied_cells, as_specified=True, crowdings=CROWDINGS_OF_FILES))
    worth = [_worth(spec.value, kind, stage, bounds.fleet, traffic) for kind in kinds for traffic in kind.crowdings]
    return PlannedPlaces(
        share=float(share),
        is_asked=levels.places is not None,
        days=list(DAY_NUMBERS),
        kinds=worth,
        answers=_answers(spec.value, worth, kinds, stage, bounds.fleet),
    )


def _worth(value: Value, kind: _Kind, stage: Stage, fleet: Fleet, traffic: str) -> PlacesWorth:
    """Forecasts maps of places by released day. traffic: name of its concentration, in `crowdings`."""
    crowding, days = kind.crowdings[traffic], range(1, MOST_DAYS + 1)
    maps = expected_maps(stage, fleet, places=kind.places, cells=kind.cells, crowding=crowding, days=days)
    shown = [maps[day - 1] for day in DAY_NUMBERS]  # days count from 1
    return PlacesWorth(
        what=kind.noun,
        places=kind.places,
        traffic=traffic,
        as_specified=kind.as_specified,
        half_width=[value.width(expected.half_width_kmh) for expected in shown],
        ok=[expected.ok for expected in shown],
        error=[value.width(expected.error_kmh) for expected in shown],
        cell_error=[value.width(expected.cell_error_kmh) for expected in shown],
        useful_from=next((expected.day for expected in maps if expected.ok >= USEFUL), None),
    )


def _answers(value: Value, worth: list[PlacesWorth], kinds: list[_Kind], stage: Stage, fleet: Fleet) -> list[str]:
    """Describes hexagons worth their share, or the fleet needed, and the specified places."""
    of_kind = {(kind.what, kind.traffic): kind for kind in worth}
    hexagons = [kind.noun for kind in kinds if kind.noun.startswith("resolution")]  # the finest, which is named, last
    if_spread = [noun for noun in hexagons if (of_kind[noun, "spread"].useful_from or MOST_DAYS) <= DAY_NUMBERS[-1]]
    if_crowded = [noun for noun in hexagons if of_kind[noun, "concentrated"].ok[-1] >= WELL and noun not in if_spread]
    width = f"{value.width(INFORMATIVE_KMH):.2g}"
    answers = [
        f"Places of {noun} are worth it: a third of all reports is expected at places known to ±{width} {value.unit} "
        f"{_days(of_kind[noun, 'spread'].useful_from)}, however the traffic is spread."
        for noun in if_spread[-1:]
    ]
    answers += [
        f"Places of {noun} are worth it only where few of them have most of the traffic (stands, a few main streets): "
        f"a third of all reports is then at known places {_days(of_kind[noun, 'concentrated'].useful_from)}; where it "
        f"is spread, {_days(of_kind[noun, 'spread'].useful_from)}."
        for noun in if_crowded[-1:]
    ]
    if not answers:

        def is_worth(vehicles: int) -> bool:
            """Checks whether so many vehicles make the coarsest hexagons worth their share."""
            larger, days = replace(fleet, vehicles=vehicles), DAY_NUMBERS[-1:]
            places, cells = kinds[0].places, kinds[0].cells
            maps = expected_maps(stage, larger, places=places, cells=cells, crowding=CONCENTRATED, days=days)
            return maps[0].ok >= WELL

        needed = fewest(is_worth, MOST_FLEET)
        vehicles = "" if needed is None else f"some {needed:,} vehicles, or "
        answers.append(
            "Places are not worth it for this fleet and total: even where few of them have most of the traffic, less "
            "than half of all reports are at known places after four weeks. Leave [places] out, then hexagons and "
            f"hours keep the whole total. At {kinds[0].noun} it needs {vehicles}a larger total."
        )
    if chosen := [kind for kind in worth if kind.as_specified]:
        week = DAY_NUMBERS.index(7)
        low, high = (f"{bound(kind.ok[week] for kind in chosen):.0%}" for bound in (min, max))
        useful = "; ".join(f"where traffic is {kind.traffic} {_days(kind.useful_from)}" for kind in chosen)
        answers.append(
            f"Of {chosen[0].what} places, as specified: {low} to {high} of all reports at known places after 7 "
            f"released days. A third of all reports {useful}. Public numbers do not tell which: `hatstream evaluate "
            "days` on days before the account began does."
        )
    return answers


def _days(number: int | None) -> str:
    """Says after how many released days; None: beyond MOST_DAYS."""
    if number is None:
        return "not within a year"
    return "from the first released day on" if number == 1 else f"after {number} released days"


VEHICLES, DAYS, LEVEL = 10, 4, 0.85  # the answer's example: vehicles of a cell's day, released days, percentile
WORTH = 0.8  # part of one constant's error, above which a distribution is hardly worth its share


def of_distributions(spec: Specification, facts: BoundsOnly) -> list[str]:
    """Describes the expected error of a cell's daily percentile; empty without a distribution."""
    value, levels, grid_kmh = spec.value, spec.by_levels, spec.value.standard
    classes = next((part for part in levels.parts if isinstance(part, ClassesRequest)), None)
    if classes is None:
        return []
    errors = (_error(levels, classes, facts, grid_kmh, days) for days in (1, DAYS, 0))  # 0: of a constant
    first, later, constant = map(value.width, errors)  # in the value's unit
    sentence = (
        f"The 85th percentile of a cell's day with {VEHICLES} vehicles is expected to be missed by {first:.1f} "
        f"{value.unit} after a day and by {later:.1f} after {DAYS}; one constant for all cells by {constant:.1f}."
    )
    if later <= WORTH * constant:
        return [sentence]
    return [
        f"{sentence} That is hardly worth the {float(classes.share):.0%} of the total that means go without: "
        "leave the statistic 'distribution' out, or take a larger total, privacy.delta, or larger cells."
    ]


def _error(levels: LevelsRelease, classes: ClassesRequest, facts: BoundsOnly, grid: Grid, days: int) -> float:
    """Forecasts the error, km/h, of percentile LEVEL after so many released days."""
    later = scaled(levels.strategy.later, levels.usual_share)  # stages of a day with the usual part of its span's total
    *_, means_stage, last = classes.with_stage(later, classes.share)  # the last stage is of classes
    edges, profile, kind = edges_in_units(classes.edges, grid), facts.fleet.profile, levels.recipe.kind
    # Variances of a busy cell's mean after stages of means: errors are by reports, and those are mostly in busy cells.
    busyness = math.exp(fitted.BUSIER**2 / 2)  # a lognormal's mean over its median
    prior = {name: sd**2 for name, sd in PRIOR_SD_KMH.items()}  # variances of a mean's independent components, by name
    precisions = precisions_of(means_stage, facts, centres=prior, busyness=busyness)  # of a day; centres err by `prior`
    posterior = posterior_of(prior, {name: days * precision for name, precision in precisions.items()})
    mean_variance = sum(posterior.values())
    # Noise of classes' weights, (classes,), in moving reports: `times_of` is MOVING for these, 1 for standing ones.
    norm = float(last.share) if kind == "laplace" else math.sqrt(float(last.share))  # of a vehicle's weights, in UNITs
    class_count = edges.size - 1
    weight_sds = last.noise_sd / (UNIT * norm) / (times_of(class_count) / MOVING)
    # The cell whose error is forecast has VEHICLES of the fleet; the city is learned from cells of average visitors.
    visits = VEHICLES * profile.hats / profile.cells  # of vehicles to HATs of the cell
    weight = weight_of_one(facts.fleet, kind) / profile.cells  # a vehicle's weight in a cell
    class_weights = np.full(class_count, weight / class_count)  # approximation: classes have equal parts of it
    day_variance = float(PRIOR_SPREAD.of(np.array(visits)))  # of a mean of so many visits around the usual mean
    cell = ExpectedCell(VEHICLES * class_weights, mean_variance, day_variance, visits)
    visitors = facts.fleet.vehicles * profile.cells / facts.hats.cells
    typical = (visitors * class_weights, facts.hats.cells) if days else None  # 0 days: a constant, of a known city
    return expected_error(edges, cell, precisions=days / weight_sds**2, target=LEVEL, typical=typical)
