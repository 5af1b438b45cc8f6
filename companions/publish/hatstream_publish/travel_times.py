"""Travel times along routes of places, from published rows alone: post-processing, which spends nothing.

A place's value is the mean of all its reports. Where vehicles report at equal intervals of time that is the length
they drive there over the time they take, so a route's time is the sum of lengths over values.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import h3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_publish.pages.places import LINE, Float64s, NamedPlaces
from hatstream_publish.pages.words import ADVICE

LEAST_KMH = 2.0
"""No mean of a place is taken to be below it: a time of no end is no answer."""
DRAWS = 4_000
MOST_ROUTE = 2_000

Told = Mapping[tuple[str, str], Sequence[float | str | None]]
"""Value, its standard deviation and status by slot and place."""


@dataclass(frozen=True, kw_only=True)
class DrivenRoute:
    """Places in the order of driving. lengths_m: of each. group: int64, places of one number lie in one cell."""

    names: tuple[str, ...]
    lengths_m: Float64s
    group: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TravelTime:
    """A route's time in one slot or period of the rows, minutes, with the bounds of a 95 % interval.

    ok: part of the route's length at places of status `ok`.
    """

    start: str
    end: str
    minutes: float
    lower95: float
    upper95: float
    km: float
    ok: float


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """A slot or period of the rows in which places of a route have no value: their names, each once."""

    start: str
    end: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TravelTimes:
    """What rows tell of a route, in order. held_back: days of which no place of the route has a value, for of the whole
    city too little was known on them; lacking: of other days."""

    times: tuple[TravelTime, ...]
    lacking: tuple[Lacking, ...]
    held_back: tuple[str, ...]


def read_route(path: Path, places: NamedPlaces, cells: Mapping[str, int]) -> DrivenRoute:
    """Reads a CSV file with a column `place`, and `length_m` for places that are no lines; or a GeoJSON file of the
    places.

    cells: which of the region's cells each place lies in. Raises InputError.
    """
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _features(path)
    if not 1 <= len(rows) <= MOST_ROUTE:
        raise InputError(f"{path}: a route has 1 to {MOST_ROUTE:,} places; it has {len(rows):,}")
    for name, _ in rows:
        if name not in cells:
            raise InputError(f"{path}: {name[:60]!r} is no place of the specification")
    lengths = [_length_m(name, length, places, path) for name, length in rows]
    return DrivenRoute(
        names=tuple(name for name, _ in rows),
        lengths_m=np.array(lengths, np.float64),
        group=np.array([cells[name] for name, _ in rows], np.int64),
    )


def travel_times(rows: pa.Table, route: DrivenRoute) -> TravelTimes:
    """Computes a travel time for each slot of the rows, or says what is lacking then. rows: of one product of places;
    see `read_rows`.

    Raises InputError where no time has a value of each of the route's places.
    """
    slots = sorted(set(zip(rows["slot_start"].to_pylist(), rows["slot_end"].to_pylist(), strict=True)))
    columns = (rows[name].to_pylist() for name in ("slot_start", "cell", "value", "noise_std", "status"))
    told = {(start, cell): numbers for start, cell, *numbers in zip(*columns, strict=True)}
    _check_told(rows, route)
    published = [(start, end) for start, end in slots if not _is_held_back(told, route, start)]
    lacking = {slot: _without_value(told, route, slot[0]) for slot in published}
    times = [_travel_time(told, route, *slot) for slot in published if not lacking[slot]]
    if not times:
        raise InputError(f"no slot has a value of each of the route's places{_why_none(lacking)}")
    return TravelTimes(
        times=tuple(times),
        lacking=tuple(Lacking(start=start, end=end, names=names) for (start, end), names in lacking.items() if names),
        held_back=tuple(sorted({start[:10] for start, end in slots if (start, end) not in lacking})),
    )


def _check_told(rows: pa.Table, route: DrivenRoute) -> None:
    if set(route.names).isdisjoint(rows["cell"].unique().to_pylist()):
        others = "take those of one product of places, such as 'place-slot-*'"
        raise InputError(f"the files hold no row of the route's places: {others}")
    if rows["noise_std"].null_count == rows.num_rows > rows["value"].null_count:
        others = "take result files, or what `publish --all` wrote"
        raise InputError(f"the files leave out how well values are known (noise_std): {others}")


def _is_held_back(told: Told, route: DrivenRoute, start: str) -> bool:
    return all(told.get((start, name), (None,))[-1] == "held-back" for name in route.names)


def _why_none(lacking: Mapping[tuple[str, str], tuple[str, ...]]) -> str:
    """Says why there is no travel time, after a sentence that says so. lacking: of slots that are not held back."""
    for (start, _), names in lacking.items():
        return f"; {names[0][:60]!r} has none in the slot {start}"
    return f": each day of the files is held back. {ADVICE['held-back']}"


def _without_value(told: Told, route: DrivenRoute, start: str) -> tuple[str, ...]:
    """Names the route's places without a value or its standard deviation in a slot."""
    numbers_of = {name: told.get((start, name), (None, None)) for name in route.names}
    return tuple(
        name
        for name, numbers in numbers_of.items()
        if any(number is None or number != number for number in numbers[:2])
    )


def _travel_time(told: Told, route: DrivenRoute, start: str, end: str) -> TravelTime:
    numbers = [told[start, name] for name in route.names]
    values, sds = (np.array([row[column] for row in numbers], np.float64) for column in (0, 1))
    drawn = drawn_minutes(values, sds, route)
    is_ok = np.array([row[2] == "ok" for row in numbers])
    return TravelTime(
        start=start,
        end=end,
        minutes=float(np.sum(route.lengths_m / np.maximum(values, LEAST_KMH)) * 0.06),
        lower95=float(np.quantile(drawn, 0.025)),
        upper95=float(np.quantile(drawn, 0.975)),
        km=float(route.lengths_m.sum() / 1_000),
        ok=float(route.lengths_m[is_ok].sum() / route.lengths_m.sum()),
    )


def drawn_minutes(values: Float64s, sds: Float64s, route: DrivenRoute) -> Float64s:
    """Draws times as likely as the values' posterior has them, float64 (DRAWS,); always the same for the same rows.

    Places of one cell share their cell's error: rows do not say how much of theirs it is, so all of it is taken to be,
    which makes no interval too narrow. Cells err independently.
    """
    rng = np.random.default_rng(0)
    _, cell = np.unique(route.group, return_inverse=True)
    errors = rng.normal(size=(DRAWS, int(cell.max()) + 1))[:, cell]
    speeds = np.maximum(values + sds * errors, LEAST_KMH)
    minutes: Float64s = np.sum(route.lengths_m / speeds, axis=1) * 0.06
    return minutes


def _csv_rows(path: Path) -> list[tuple[str, float | None]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        return [(row["place"], float(row["length_m"]) if row.get("length_m") else None) for row in rows]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or type(error).__name__}") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InputError(f"{path}: a route is a CSV file with a column place, and length_m in metres") from None


def _features(path: Path) -> list[tuple[str, float | None]]:
    try:
        document = json.loads(path.read_bytes())
        properties = [feature["properties"] for feature in document["features"]]
        return [(str(said["place"] if "place" in said else said["name"]), said.get("length_m")) for said in properties]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or type(error).__name__}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{path}: a route is a collection of features with the property place or name") from None


def _length_m(name: str, length: float | None, places: NamedPlaces, path: Path) -> float:
    if length is None:
        shape = places.place(name).shape
        if shape is None or shape.kind != LINE:
            raise InputError(f"{path}: the place {name[:60]!r} is no line: its row needs length_m, in metres")
        length = sum(_of_line(part) for part in shape.parts)
    if not isinstance(length, int | float) or not 0 < length < 1e6:
        raise InputError(f"{path}: the place {name[:60]!r} needs a length_m above 0 and below 1,000,000 metres")
    return float(length)


def _of_line(positions: Sequence[tuple[float, float]]) -> float:
    places = [(lat, lon) for lon, lat in positions]
    return float(sum(h3.great_circle_distance(*ends, unit="m") for ends in pairwise(places)))
