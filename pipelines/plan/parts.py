"""Worth of parts of a period: places and distributions."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from dpops import fitted
from dpops.learning.classes import ExpectedCell, expected_error
from dpops.learning.expected_places import CONCENTRATED, EVEN, SPREAD, ExpectedMap, expected_maps
from dpops.levels.defaults import BoundsOnly, Fleet
from dpops.levels.parts import MOVING, times_of, with_places
from dpops.levels.stages import UNIT, Stage, scaled
from dpops.levels.strategy import PRIOR_SD_KMH, posterior_of, precisions_of
from dpops.spread import INFORMATIVE_KMH, TYPICAL
from dpops.types import Grid
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.parts import ClassesRequest
from pipelines.specification.tables import SHARE
from transforms.releases.periods.classes import edges_in_units, weight_of_one
from transforms.value import Value

DAY_NUMBERS = (1, 2, 4, 7, 14, 28)  # released days of which a map's worth is shown
MOST_DAYS = 365  # released days within which a map may become useful
USEFUL, WELL = 1 / 3, 1 / 2
"""A map is useful where this part of all reports is at places that are `ok`; where the traffic must be concentrated for
that, it is worth its share if this part is."""
FINER = (1, 2)
"""How many resolutions finer than the cells' places are compared."""
CROWDINGS = {"spread": SPREAD, "concentrated": CONCENTRATED}
CROWDINGS_OF_FILES = {"spread": EVEN, "concentrated": SPREAD}
"""Of hexagons, and of the places of a file, such as segments of streets: of these no few have most of the traffic."""
MOST_FLEET = 1_000_000  # vehicles a day; a larger fleet is not looked for


class PlacesWorth(msgspec.Struct, frozen=True, kw_only=True):
    """Worth of places in a city, by released day."""

    what: str
    places: int
    traffic: str
    as_specified: bool
    half_width: list[float]  # median by reports
    ok: list[float]  # share of reports at usable places
    error: list[float]
    cell_error: list[float]
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

    what: str  # as in specifications
    places: int
    cells: int  # of the region that hold places
    as_specified: bool = False
    crowdings: Mapping[str, float] = CROWDINGS  # concentration of traffic by name


def plan_places(spec: Specification, bounds: BoundsOnly) -> PlannedPlaces | None:
    """Plans a map of places; None for public counts, live slots and keys."""
    levels = spec.by_levels
    if levels.counts_public or levels.live is not None or spec.keys is not None:
        return None
    share = SHARE if levels.places is None else levels.places.share
    stage = with_places(levels.recipe.later, share * levels.usual_part)[-1]
    coarse, cells = spec.cells.resolution, bounds.hats.cells
    pieces = None if levels.places is None else levels.places.pieces
    named = None if pieces is None or pieces.places.geometries else pieces.resolution
    finer = {coarse + step for step in FINER if coarse + step <= 15} | (set() if named is None else {named})
    kinds = [
        _Kind(f"resolution {resolution}", cells * 7 ** (resolution - coarse), cells, resolution == named)
        for resolution in sorted(finer)
    ]
    if pieces is not None and named is None:
        cell = pieces.places.cell
        kinds.append(_Kind("the file's", cell.size, int(np.unique(cell).size), True, CROWDINGS_OF_FILES))
    worth = [_worth(spec.value, kind, stage, bounds.fleet, traffic) for kind in kinds for traffic in kind.crowdings]
    return PlannedPlaces(
        share=float(share),
        is_asked=levels.places is not None,
        days=list(DAY_NUMBERS),
        kinds=worth,
        answers=_answers(spec.value, worth, kinds, stage, bounds.fleet),
    )


def _worth(value: Value, kind: _Kind, stage: Stage, fleet: Fleet, traffic: str) -> PlacesWorth:
    """Forecasts a kind of places by released day. traffic: key of its crowdings."""
    maps = _expected(kind, stage, fleet, kind.crowdings[traffic], range(1, MOST_DAYS + 1))
    shown = [maps[day - 1] for day in DAY_NUMBERS]
    return PlacesWorth(
        what=kind.what,
        places=kind.places,
        traffic=traffic,
        as_specified=kind.as_specified,
        half_width=[value.width(expected.half_width_kmh) for expected in shown],
        ok=[expected.ok for expected in shown],
        error=[value.width(expected.kmh) for expected in shown],
        cell_error=[value.width(expected.cell_kmh) for expected in shown],
        useful_from=next((expected.day for expected in maps if expected.ok >= USEFUL), None),
    )


def _expected(kind: _Kind, stage: Stage, fleet: Fleet, crowding: float, days: Sequence[int]) -> list[ExpectedMap]:
    return expected_maps(stage, fleet, places=kind.places, cells=kind.cells, crowding=crowding, days=days)


# --- sentences ----------------------------------------------------------------------------------------------------


def _answers(
    value: Value, worth: Sequence[PlacesWorth], kinds: Sequence[_Kind], stage: Stage, fleet: Fleet
) -> list[str]:
    """Words which hexagons are worthwhile, and the places' worth."""
    of_kind = {(kind.what, kind.traffic): kind for kind in worth}
    hexagons = [kind.what for kind in kinds if kind.what.startswith("resolution")]
    anyway = [noun for noun in hexagons if (of_kind[noun, "spread"].useful_from or MOST_DAYS) <= DAY_NUMBERS[-1]]
    perhaps = [noun for noun in hexagons if of_kind[noun, "concentrated"].ok[-1] >= WELL and noun not in anyway]
    width = f"{value.width(INFORMATIVE_KMH):.2g}"
    answers = [
        f"Places of {noun} are worth it: a third of all reports is expected at places known to ±{width} {value.unit} "
        f"{_days(of_kind[noun, 'spread'].useful_from)}, however the traffic is spread."
        for noun in anyway[-1:]
    ]
    answers += [
        f"Places of {noun} are worth it only where few of them have most of the traffic (stands, a few main streets): "
        f"a third of all reports is then at known places {_days(of_kind[noun, 'concentrated'].useful_from)}; where it "
        f"is spread, {_days(of_kind[noun, 'spread'].useful_from)}."
        for noun in perhaps[-1:]
    ]
    if not answers:

        def is_worth(vehicles: int) -> bool:
            larger = replace(fleet, vehicles=vehicles)
            return _expected(kinds[0], stage, larger, CONCENTRATED, DAY_NUMBERS[-1:])[0].ok >= WELL

        needed = bisect_left(range(MOST_FLEET), True, lo=fleet.vehicles + 1, key=is_worth)
        answers.append(
            "Places are not worth it for this fleet and total: even where few of them have most of the traffic, less "
            "than half of all reports are at known places after four weeks. Leave [places] out, then hexagons and "
            f"hours keep the whole total. At {kinds[0].what} it needs some {needed:,} vehicles, or a larger total."
        )
    if own := [kind for kind in worth if kind.as_specified]:
        week = DAY_NUMBERS.index(7)
        low, high = (f"{bound(kind.ok[week] for kind in own):.0%}" for bound in (min, max))
        useful = "; ".join(f"where traffic is {kind.traffic} {_days(kind.useful_from)}" for kind in own)
        answers.append(
            f"Of {own[0].what} places, as specified: {low} to {high} of all reports at known places after 7 released "
            f"days. A third of all reports {useful}. Public numbers do not tell which: `hatstream evaluate days` "
            "on days before the account began does."
        )
    return answers


def _days(number: int | None) -> str:
    if number is None:
        return "not within a year"
    return "from the first released day on" if number == 1 else f"after {number} released days"


# --- distributions ---------------------------------------------------------------------------------------------------


VEHICLES, DAYS, LEVEL = 10, 4, 0.85  # of the cell's day, released, and of the percentile in the answer
WORTH = 0.8
"""Of one constant's error: above it a distribution is hardly worth its share."""


def of_distributions(spec: Specification, facts: BoundsOnly) -> list[str]:
    """Words the expected error of a cell's daily percentile."""
    value, levels = spec.value, spec.by_levels
    classes = next((part for part in levels.parts if isinstance(part, ClassesRequest)), None)
    if classes is None:
        return []
    errors = (_error(levels, classes, facts, value.standard, days) for days in (1, DAYS, 0))
    first, later, constant = map(value.width, errors)
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
    """Estimates a percentile's error after so many days; at 0, a constant's."""
    *_, coarse, last = classes.with_stage(scaled(levels.strategy.later, levels.usual_part), classes.share)
    edges, prior = edges_in_units(classes.edges, grid), {part: sd**2 for part, sd in PRIOR_SD_KMH.items()}
    precisions = precisions_of(coarse, facts, prior, math.exp(fitted.BUSIER**2 / 2))
    posterior = sum(posterior_of(prior, {part: days * precision for part, precision in precisions.items()}).values())
    hats = VEHICLES * facts.fleet.profile.hats / facts.fleet.profile.cells
    part = float(last.share) if levels.recipe.kind == "laplace" else math.sqrt(float(last.share))
    sd = last.noise_sd / (UNIT * part) / (times_of(edges.size - 1) / MOVING)
    weight = weight_of_one(facts.fleet, levels.recipe.kind) / facts.fleet.profile.cells
    share = np.full(edges.size - 1, weight / (edges.size - 1))
    cell = ExpectedCell(VEHICLES * share, posterior, float(TYPICAL.of(np.array(hats))), hats)
    visitors = facts.fleet.vehicles * facts.fleet.profile.cells / facts.hats.cells
    return expected_error(edges, cell, days / sd**2, LEVEL, (visitors * share, facts.hats.cells) if days else None)
