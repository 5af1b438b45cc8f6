"""Compares estimates and a constant with the truth, by vehicles in the HAT: the fleet is made up, so it is known."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpops.types import Float64s
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.places import read_place_city
from hatstream_lab.evaluation.truth import TrueCity
from pipelines.progress import Report
from transforms.places.hexagons import cell_text

CLASSES = ((1, 2), (3, 9), (10, 29), (30, None))
"""HATs by the number of vehicles that drove through them, from and to, both included."""


class ClassError(NamedTuple):
    """Mean absolute errors in km/h over the HATs of a class. covered: share of HATs whose interval holds the truth;
    None where none of them has a value."""

    name: str
    hats: int
    known: int
    estimate: float | None
    constant: float
    covered: float | None
    half_width: float | None


class HatComparison(NamedTuple):
    """One entry per HAT with reports. value, lower, upper: as published, nan where there is none."""

    truth: Float64s
    vehicles: Float64s
    value: Float64s
    lower: Float64s
    upper: Float64s


class StreetErrors(NamedTuple):
    """Mean absolute errors in km/h by reports of all days. constant: of one value for all, the streets' true mean."""

    streets: int
    learned: float
    constant: float


def compared_streets(feed: Feed, rows: pa.Table, report: Report) -> StreetErrors:
    """Compares streets with the truth. rows: what the specification's own places usually are (see `read_results`), of
    which the newest count.
    """
    if feed.spec.places is None:
        raise ValueError("the specification has no places")
    pieces = feed.spec.places.pieces
    days, names = read_place_city(feed, lambda _: pieces, report).days, pieces.places.names
    reports = np.sum([np.bincount(day.cell, day.reports, len(names)) for day in days], axis=0)
    total = np.sum([np.bincount(day.cell, day.total, len(names)) for day in days], axis=0)
    newest = rows.filter(pc.equal(rows["slot_start"], pc.max(rows["slot_start"])))
    value = newest["value"].to_numpy()[pc.index_in(pa.array(names), newest["cell"].combine_chunks()).to_numpy()]
    there = reports > 0
    truth = total[there] / reports[there] * float(feed.spec.value.grid.step)
    weight = reports[there] / reports.sum()
    learned, constant = (float(weight @ np.abs(speed - truth)) for speed in (value[there], weight @ truth))
    return StreetErrors(int(there.sum()), learned, constant)


def compared(city: TrueCity, rows: pa.Table) -> list[ClassError]:
    """Compares HATs with the truth. rows: what was published of the city's days (`read_rows`), each with every HAT."""
    hats = _joined(city, rows)
    constant = np.abs(hats.truth - city.mean_kmh)
    error = np.abs(hats.truth - hats.value)
    inside = (hats.lower <= hats.truth) & (hats.truth <= hats.upper)
    classes = []
    for least, most in CLASSES:
        in_class = (hats.vehicles >= least) & (hats.vehicles <= (most or np.inf))
        has_value = in_class & ~np.isnan(hats.value)
        if not in_class.any():
            continue
        half = (hats.upper - hats.lower)[has_value] / 2
        classes.append(
            ClassError(
                name=f"{least} to {most}" if most else f"{least} or more",
                hats=int(in_class.sum()),
                known=int(has_value.sum()),
                estimate=float(error[has_value].mean()) if has_value.any() else None,
                constant=float(constant[has_value if has_value.any() else in_class].mean()),
                covered=float(inside[has_value].mean()) if has_value.any() else None,
                half_width=float(np.median(half)) if has_value.any() else None,
            )
        )
    return classes


def _joined(city: TrueCity, rows: pa.Table) -> HatComparison:
    keys = zip(rows["slot_start"].to_pylist(), rows["cell"].to_pylist(), strict=True)
    place = {key: index for index, key in enumerate(keys)}
    truth, vehicles, places = [], [], []
    names = [cell_text(cell) for cell in city.region]
    starts = sorted({start for start, _ in place})
    of_day = {day.name: [start for start in starts if start.startswith(day.name)] for day in city.days}
    for day in city.days:
        for cell, slot in np.argwhere(day.vehicles > 0).tolist():
            truth.append(day.means[cell, slot])
            vehicles.append(day.vehicles[cell, slot])
            places.append(place[of_day[day.name][slot], names[cell]])
    chosen = np.array(places, np.int64)
    value, lower, upper = (rows[name].to_numpy()[chosen] for name in ("value", "lower95", "upper95"))
    return HatComparison(np.array(truth), np.array(vehicles), value, lower, upper)
