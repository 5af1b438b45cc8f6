"""`hatstream evaluate --places`: what a map of places would be worth on telemetry, day by day."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
from rich.table import Table

from dpops.levels import Kind
from dpops.noise import Noise
from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA, KINDS
from hatstream_lab.evaluation.places import PlaceCity, PlaceErrors, mapped, read_place_city
from pipelines.commands.options import progress_bars
from pipelines.commands.terminal import table_of
from pipelines.errors import InputError, UsageError
from pipelines.progress import Report
from pipelines.specification.checks import REGION_BYTES
from pipelines.specification.places import SHARE
from transforms.errors import reason_of
from transforms.places.ground import Pieces, hexagon_pieces
from transforms.places.shapes import shape_pieces
from transforms.regular_files import read_text

OWN = "own"
"""In the place of a resolution or a file: the places of the specification itself."""


@dataclass(frozen=True)
class AskedPlaces:
    """pieces_of: a region, cut by the places."""

    pieces_of: Callable[[Sequence[int]], Pieces]
    share: Fraction


@dataclass(frozen=True, kw_only=True)
class PlaceTable:
    """Errors at one total after each day, means over the runs; exact: the same without noise."""

    total: str
    delta: str | None
    days: list[PlaceErrors]
    exact: list[PlaceErrors]


def evaluate_places(feed: Feed, which: str, totals: list[str], runs: int, results: Results, days: int | None) -> None:
    """Shows tables on standard output, writes places.json into the folder. which: OWN, a resolution or a file.

    days: so many, the first ones again behind the last; None for those of the feed.
    """
    asked = _asked(feed, which)
    with progress_bars(quiet=results.as_json) as bars:
        city = _city(feed, asked, bars)
        tables = evaluated_places(city, asked.share, totals, runs, partial(bars, "days simulated"), days)
    plain = {
        "days": [day.name for day in city.city.days],
        "cells": len(city.city.region),
        "places": city.pieces.places.cell.size,
        "region_of_first_day": city.city.made_region,
        "share": float(asked.share),
        "tables": [asdict(table) for table in tables],
    }
    places, cells, number = city.pieces.places.cell.size, len(city.city.region), len(city.city.days)
    what = f"{places:,} places in {cells:,} cells, {number} day{'s' * (number != 1)}, {runs} run{'s' * (runs != 1)}"
    results.tell(plain, "places.json", what, *map(place_table, tables))


def evaluated_places(
    city: PlaceCity,
    share: Fraction,
    totals: Sequence[str],
    runs: int,
    report: Callable[[int, int], None],
    days: int | None = None,
) -> list[PlaceTable]:
    """Simulates every total, pure and with delta, `runs` times; the one without noise once."""
    number = days or len(city.days)
    done, whole = 0, number * (1 + len(totals) * len(KINDS) * runs)

    def counted(errors: Iterator[PlaceErrors]) -> Iterator[PlaceErrors]:
        nonlocal done
        for of_day in errors:
            done += 1
            report(done, whole)
            yield of_day

    def one_run(total: str, kind: Kind, noise: Noise | None) -> list[PlaceErrors]:
        return list(counted(mapped(city, recipe_for(city.city, kind, Fraction(total), DELTA), share, noise, number)))

    exact = one_run("1", "gaussian", None)
    return [
        PlaceTable(
            total=total,
            delta=None if kind == "laplace" else str(float(DELTA)),
            days=_means([one_run(total, kind, Noise()) for _ in range(runs)]),
            exact=exact,
        )
        for total, kind in product(totals, KINDS)
    ]


def _means(runs: Sequence[Sequence[PlaceErrors]]) -> list[PlaceErrors]:
    """Averages the runs by day; nan of `held` where no run knows a place."""
    names = [field.name for field in fields(PlaceErrors) if field.name != "day"]
    result = []
    for of_day in zip(*runs, strict=True):
        columns = {name: np.array([getattr(run, name) for run in of_day]) for name in names}
        means = {
            name: float(np.nanmean(column)) if np.isfinite(column).any() else np.nan for name, column in columns.items()
        }
        result.append(PlaceErrors(day=of_day[0].day, **means))
    return result


def _asked(feed: Feed, which: str) -> AskedPlaces:
    """Raises UsageError and InputError."""
    own = feed.spec.places
    share = SHARE if own is None else own.share
    if which == OWN:
        if own is None:
            raise UsageError("--places needs a specification with [places], or a resolution or a file: --places 8")
        return AskedPlaces(lambda _: own.pieces, share)
    if which.isdecimal():
        resolution, coarse = int(which), feed.spec.cells.resolution
        if not coarse < resolution <= 15:
            raise UsageError(
                f"--places needs a resolution from {coarse + 1} to 15, finer than the cells'; it is {which}"
            )
        return AskedPlaces(lambda region: hexagon_pieces(region, resolution), share)
    document = _document(Path(which))
    return AskedPlaces(lambda region: shape_pieces(document, region), share)


def _document(path: Path) -> object:
    try:
        return msgspec.json.decode(read_text(path, REGION_BYTES))
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}") from None
    except (msgspec.MsgspecError, RecursionError):
        raise InputError(f"{path} is no GeoJSON") from None


def _city(feed: Feed, asked: AskedPlaces, report: Report) -> PlaceCity:
    try:
        return read_place_city(feed, asked.pieces_of, report)
    except ValueError as error:
        raise InputError(f"--places: {error}") from None


def place_table(of_total: PlaceTable) -> Table:
    """Shows a row for each day, 80 columns wide."""
    with_delta = "" if of_total.delta is None else f", delta {of_total.delta}"
    table = table_of(
        f"NOT PRIVATE: error of the map of places by reports, km/h; total {of_total.total}{with_delta}",
        "Of all days until then. learned: `value`. as shown: the cell's value where a place is not ok. cell: the "
        "released cell's value everywhere. constant: the city's true mean. ok: reports at places that are ok, of "
        "all; held: these places' intervals that hold the truth.",
        (),
        ("day", "learned", "as shown", "cell", "constant", "no noise", "ok", "held"),
        whole=True,
    )
    for noisy, exact in zip(of_total.days, of_total.exact, strict=True):
        errors = (noisy.learned, noisy.published, noisy.copied, noisy.constant, exact.learned)
        held = "-" if np.isnan(noisy.held) else f"{noisy.held:.2f}"
        table.add_row(str(noisy.day), *(f"{error:.2f}" for error in errors), f"{noisy.known:.2f}", held)
    return table
