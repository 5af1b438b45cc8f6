"""Packs a map's data compactly, as compressed byte planes.

`templates/map/unpack.js` reads it. An array of numbers of several bytes is stored as all their lowest bytes, then all
the next ones: neighbours are alike, and compress. A layer is a statistic, as matrices, (slots, places), of values, of
distances to both bounds, and of codes, which tell how values are drawn. A row's area is the coarser cell around its
place ("parent"), whose value it shows if its status is "parent". "Standing": usual values of places.
"""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_publish.pages.places import LINE, DrawnShape, Float64s, GroundLine, NamedPlaces, middle_of, turns
from hatstream_publish.pages.rows import DAYS, LIVE_MECHANISM, STANDING, shows_parent

Array = NDArray[Any]
WIDE_KMH = 15.0  # an interval wider than this to either side is drawn as not known, whatever its status says
KNOWN, AREA, DAY, FORECAST, UNKNOWN = "known", "area", "day", "forecast", "unknown"
"""How a value is drawn: known there; of the area around; of the place's whole day; expected; not to be used."""
_CLASS_BY_STATUS = {"ok": KNOWN, "parent": AREA, "forecast": FORECAST}
MOST_FIELDS = 20_000_000  # slots times places of one page: about 60 MB
DEGREE = 1e5  # positions are whole parts of a degree: about a metre
_NONE, _NO_CODE = 65_535, 255  # where a matrix of 16-bit numbers, or one of 8-bit codes, has nothing
_SEPARATOR = "\x1f"  # between texts; no column holds it
USUAL_KMH = 0.1  # what usual values are whole multiples of


class _Grid(NamedTuple):
    """Slots and places of rows, the axes of matrices."""

    starts: list[str]  # of the slots
    ends: list[str]
    ids: list[str]  # of the places
    slot: Array  # index of each row's slot, (rows,)
    place: Array  # index of each row's place, (rows,)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts), len(self.ids)


def packed(
    rows: pa.Table, places: NamedPlaces, ground: Sequence[GroundLine] = (), standing_rows: pa.Table | None = None
) -> bytes:
    """Packs a map's data: a line of JSON, then the arrays that it names.

    rows: of slots, see `read_rows`. standing_rows: usual values of places; else the map takes them from other days.
    Raises InputError for a place without a shape.
    """
    grid, codes = _grid(rows), _Codes()
    of_grid = [places.place(place_id) for place_id in grid.ids]
    shapes = [place.shape for place in of_grid if place.shape is not None]  # all: `places.place` raises otherwise
    middle = middle_of(_first_longitudes(shapes))  # longitude around which no shape is torn at the antimeridian
    arrays: dict[str, Array] = {
        **_shape_arrays("places", shapes, middle),
        **_shape_arrays("ground", [line.shape for line in ground], middle),
        **({} if standing_rows is None else _usual_values(standing_rows, grid)),
        **_vehicle_bounds(rows, grid),  # at least so many vehicles passed, by slot and place
    }
    # Each layer adds its arrays to `arrays`, and origins of its rows to `codes`.
    layers = [_packed_layer(rows, grid, number, layer, codes, arrays) for number, layer in enumerate(_layers(rows))]
    departures = [place.departures for place in of_grid]  # the map names the busiest places at first
    order = np.argsort(-np.array(departures), kind="stable")[:5]
    head = {
        **_standing_head(rows, grid),  # "standing": whether values are cumulative; "days": over how many, by slot
        "slots": list(map(list, zip(grid.starts, grid.ends, strict=True))),
        "places": {
            "id": grid.ids,
            "name": [place.name for place in of_grid],
            "note": [place.note for place in of_grid],
            "area": _parent_ids(rows, grid),
            "busiest": [int(place) for place in order if departures[place] > 0],
        },
        "ground": [[line.name, line.colour, line.kind] for line in ground],
        "layers": layers,
        "codes": [_code_facts(text) for text in codes],
        "wide": WIDE_KMH,
        "degree": DEGREE,
        "usualStep": USUAL_KMH,
        "arrays": [[name, array.dtype.str[1:], array.size] for name, array in arrays.items()],  # type such as "u2"
    }
    body = b"".join(  # byte planes: all lowest bytes of an array, then all next ones
        array.astype(array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T.tobytes()
        for array in arrays.values()
    )
    return gzip.compress(msgspec.json.encode(head) + b"\n" + body, compresslevel=6, mtime=0)  # 0: same data, same bytes


def _usual_values(standing_rows: pa.Table, grid: _Grid) -> dict[str, Array]:
    """Packs places' usual values in steps of USUAL_KMH, by the newest rows of `standing_rows`."""
    newest = max(standing_rows["slot_start"].unique().to_pylist(), key=_instant)
    rows = standing_rows.filter(pc.equal(standing_rows["slot_start"], newest))
    value, is_area = np.full(len(grid.ids), _NONE, np.uint16), np.zeros(len(grid.ids), np.uint8)
    place = pc.index_in(rows["cell"], pa.array(grid.ids)).fill_null(-1).to_numpy()  # index in grid.ids, or -1
    is_parent = shows_parent(rows)
    numbers = shown_numbers(rows, "value", is_parent)
    has_value = (place >= 0) & ~np.isnan(numbers) & (is_parent | pc.equal(rows["status"], "ok").to_numpy())
    value[place[has_value]] = np.rint(numbers[has_value] / USUAL_KMH).astype(np.uint16)
    is_area[place[has_value]] = is_parent[has_value]
    return {"usual.value": value, "usual.area": is_area}  # the latter marks values of the area around


def _standing_head(rows: pa.Table, grid: _Grid) -> dict[str, Any]:
    """Packs whether values are usual ones, and of how many days, by slot."""
    is_standing = "product" in rows.column_names and set(rows["product"].unique().to_pylist()) == {STANDING}
    if "days" not in rows.column_names:
        return {"standing": is_standing, "days": []}
    maxima = rows.group_by("slot_start").aggregate([("days", "max")])
    days = dict(zip(maxima["slot_start"].to_pylist(), maxima["days_max"].to_pylist(), strict=True))
    return {"standing": is_standing, "days": [days[start] for start in grid.starts]}


def _vehicle_bounds(rows: pa.Table, grid: _Grid) -> dict[str, Array]:
    """Packs lower bounds of vehicles, up to 255, if there are any."""
    if "vehicles_at_least" not in rows.column_names or not pc.any(pc.is_valid(rows["vehicles_at_least"])).as_py():
        return {}
    matrix = np.zeros(grid.shape, np.uint8)
    matrix[grid.slot, grid.place] = pc.fill_null(rows["vehicles_at_least"], 0).to_numpy().clip(0, 255)
    return {"vehicles": matrix}


def _grid(rows: pa.Table) -> _Grid:
    """Numbers rows by slot and place, both ascending. Raises InputError for too many."""
    try:
        starts = sorted(rows["slot_start"].unique().to_pylist(), key=_instant)
    except ValueError:
        raise InputError("slot_start must be a time with a UTC offset, like 2026-05-13T06:00:00-06:00") from None
    ids = sorted(rows["cell"].unique().to_pylist())
    if len(starts) * len(ids) > MOST_FIELDS:
        raise InputError(
            f"{len(starts):,} slots of {len(ids):,} places: a map holds {MOST_FIELDS:,} fields; name fewer files"
        )
    spans = rows.group_by("slot_start").aggregate([("slot_end", "min")])  # a slot's rows end alike
    end = dict(zip(spans["slot_start"].to_pylist(), spans["slot_end_min"].to_pylist(), strict=True))
    slot = pc.index_in(rows["slot_start"], pa.array(starts)).to_numpy()
    place = pc.index_in(rows["cell"], pa.array(ids)).to_numpy()
    return _Grid(starts, [end[start] for start in starts], ids, slot, place)


def _instant(text: str) -> datetime:
    """Reads a time with an offset. Raises ValueError without."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("no offset")
    return instant


def _parent_ids(rows: pa.Table, grid: _Grid) -> list[str]:
    """Lists each place's coarser cell, empty without one."""
    if "parent" not in rows.column_names:
        return [""] * len(grid.ids)
    inside = rows.filter(pc.not_equal(rows["parent"], ""))
    area_of = dict(zip(inside["cell"].to_pylist(), inside["parent"].to_pylist(), strict=True))
    return [area_of.get(place, "") for place in grid.ids]


class _Codes(dict[str, int]):
    """Codes of rows' status, mechanism and area or day, numbered on first use."""

    def of(self, texts: pa.ChunkedArray) -> Array:
        """Numbers each row's text, (rows,)."""
        for text in sorted(texts.unique().to_pylist()):
            self.setdefault(text, min(len(self), _NO_CODE - 1))  # beyond 254 texts the last code stands for several
        numbers: Array = np.array(list(self.values()), np.uint8)[pc.index_in(texts, pa.array(list(self))).to_numpy()]
        return numbers


def _code_facts(text: str) -> dict[str, Any]:
    """Decodes a text of `_packed_layer` for the page: how its rows are drawn."""
    status, mechanism, about = text.split(_SEPARATOR)  # about: AREA or DAY, if the value describes one; else empty
    drawn, live = _CLASS_BY_STATUS.get(status, UNKNOWN), mechanism.endswith(LIVE_MECHANISM)
    drawn = DAY if about == DAY and drawn == KNOWN else drawn
    return {"status": status, "mechanism": mechanism, "about": about, "drawn": drawn, "live": live}


_Layer = tuple[str, tuple[str, ...], Any]  # title; columns of a value and its bounds; mask of the rows that have it


def _layers(rows: pa.Table) -> Iterable[_Layer]:
    """Yields each statistic and further column with intervals: title, columns, rows' mask."""
    for statistic in sorted(rows["statistic"].unique().to_pylist()):
        yield statistic, ("value", "lower95", "upper95"), pc.equal(rows["statistic"], statistic)
    for name in (bound.removesuffix("_lower95") for bound in rows.column_names if bound.endswith("_lower95")):
        if name not in ("parent", "traffic"):  # these have no layer of their own
            yield name, (name, f"{name}_lower95", f"{name}_upper95"), pc.is_valid(rows[name])


def _packed_layer(
    rows: pa.Table, grid: _Grid, number: int, layer: _Layer, codes: _Codes, arrays: dict[str, Array]
) -> dict[str, Any]:
    """Adds a layer's matrices, (slots, places), to `arrays`, and returns its header.

    Values are stored as (value - origin) / step in 16 bits, bounds as steps below and above the value.
    """
    prefix, (title, columns, mask) = f"layer{number}", layer  # of arrays' names; columns: of the value and its bounds
    subset, chosen = rows.filter(mask), mask.to_numpy()
    slot, place, is_parent = grid.slot[chosen], grid.place[chosen], shows_parent(subset)  # parent: larger area
    numbers = [shown_numbers(subset, column, is_parent) for column in columns]
    finite = np.nan_to_num(numbers)
    origin = min(0.0, float(np.floor(finite.min(initial=0.0))))
    step = _step(float(finite.max(initial=0.0)) - origin)  # the power of 10 in which this span fits 16 bits
    value, lower, upper = (np.rint((column - origin) / step) for column in numbers)
    for name, column in (("value", value), ("below", value - lower), ("above", upper - value)):
        matrix = np.full(grid.shape, _NONE, np.uint16)
        matrix[slot, place] = np.where(np.isnan(column), _NONE, column.clip(0, _NONE - 1)).astype(np.uint16)
        arrays[f"{prefix}.{name}"] = matrix
    about: pa.Array = pc.if_else(pa.array(is_parent), AREA, "")  # what the value is of, unless of its place and slot
    if "product" in subset.column_names:
        about = pc.if_else(pc.equal(pc.fill_null(subset["product"], ""), DAYS), DAY, about)
    texts = pc.binary_join_element_wise(pc.fill_null(subset["status"], ""), subset["mechanism"], about, _SEPARATOR)
    arrays[f"{prefix}.code"] = np.full(grid.shape, _NO_CODE, np.uint8)
    arrays[f"{prefix}.code"][slot, place] = codes.of(texts)  # each text's number, shared by all layers
    unit = subset["unit"][0].as_py() if subset.num_rows else ""
    return {"title": title, "unit": unit, "step": step, "origin": origin, "arrays": prefix}


def shown_numbers(rows: pa.Table, column: str, is_parent: Array) -> Array:
    """Reads a column, with the area's number where a row shows that one, (rows,)."""
    numbers: Array = rows[column].to_numpy().astype(np.float64)
    area_column = {"value": "parent_value", "lower95": "parent_lower95", "upper95": "parent_upper95"}.get(column)
    return np.where(is_parent, rows[area_column].to_numpy(), numbers) if is_parent.any() and area_column else numbers


def _step(span: float) -> float:
    """Finds the smallest power of 10 in whose steps a span fits 16 bits."""
    step = 0.1  # at least
    while span / step >= _NONE - 1:  # all numbers but _NONE are values
        step *= 10
    return round(step, 1)  # 0.1 * 10 ** n without the error of floats


def _first_longitudes(shapes: Sequence[DrawnShape]) -> Float64s:
    """Finds the longitude at which each shape begins."""
    return np.array([shape.parts[0][0][0] for shape in shapes], np.float64)


def _shape_arrays(name: str, shapes: Sequence[DrawnShape], middle: float) -> Mapping[str, Array]:
    """Packs shapes' kinds, parts, and steps between positions in 1 / DEGREE degrees."""
    polygons = [polygon for shape in shapes for polygon in shape.parts]
    flat = np.array([position for polygon in polygons for position in polygon], np.float64).reshape(-1, 2)
    # A shape's longitudes are shifted by 360 degrees where that brings it nearer to the middle.
    flat[:, 0] += np.repeat(turns(_first_longitudes(shapes), middle), [sum(map(len, shape.parts)) for shape in shapes])
    steps = np.diff(np.rint(flat * DEGREE).astype(np.int32), axis=0, prepend=np.zeros((1, 2), np.int32))
    return {
        f"{name}.line": np.array([shape.kind == LINE for shape in shapes], np.uint8),
        f"{name}.parts": np.array([len(shape.parts) for shape in shapes], np.uint16),
        f"{name}.positions": np.array([len(polygon) for polygon in polygons], np.uint32),
        f"{name}.x": steps[:, 0].astype(np.int32),
        f"{name}.y": steps[:, 1].astype(np.int32),
    }
