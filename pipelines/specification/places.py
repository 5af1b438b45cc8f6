"""What a specification says of places: what they are, and what part of the total is spent on them."""

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np

from pipelines.progress import Report, unheard
from pipelines.specification.types_schema import about
from transforms.places.ground import Keys, Pieces, hexagon_pieces
from transforms.places.shapes import BUFFER_M, shape_pieces

SHARE = Fraction(3, 10)
MOST_PLACES, MOST_VISITS = 200_000, 10_000_000
HARDLY = 0.05
"""A place that public visits leave out may be visited all the same: so much, where 1 is the mean of all places."""


class PlacesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels under add-remove: a map of places that are smaller than cells, which fills day by day.

    Places are H3 cells of a finer resolution, or those of a file; or, without [cells], keys of a column.
    """

    resolution: Annotated[int | None, about("of H3, finer than cells.resolution: all such cells of the region")] = None
    file: Annotated[
        str | None,
        about(
            "instead: a GeoJSON FeatureCollection of lines and polygons, each with a property name; "
            "a line with the property directed is of those who drive in the order of its positions. Public"
        ),
    ] = None
    buffer_m: Annotated[
        Fraction | None, about("with file: so near to a line is what belongs to it; 25 if left out")
    ] = None
    visits: Annotated[
        str | None,
        about(
            "a CSV of columns place and vehicles: how many come to each place on a day, roughly. Public, as"
            " from a timetable; what it leaves out is hardly visited"
        ),
    ] = None
    share: Annotated[Fraction, about("of each period's total; hexagons and hours keep the rest")] = SHARE
    column: Annotated[str | None, about("of the input: names a report's key")] = None
    keys: Annotated[str | list[str] | None, about("of column: all that are released, or their file. Public")] = None
    within: Annotated[str | None, about("a second column: keys are all pairs")] = None
    keys_within: Annotated[str | list[str] | None, about("its keys")] = None


def keys_asked(table: PlacesTable, read: Callable[[str], str]) -> Keys:
    """Makes the keys. read: gives the text of a file. Raises ValueError, which names the rule."""
    other = [name for name in ("resolution", "file", "buffer_m", "visits") if getattr(table, name) is not None]
    if other or table.share != SHARE:
        raise ValueError(f"column goes without {other[0] if other else 'share'}: keys stand in the place of hexagons")
    if table.keys is None or (table.within is None) != (table.keys_within is None):
        raise ValueError("column needs keys, and within needs keys_within")

    def listed(keys: str | list[str]) -> list[str]:
        return keys if isinstance(keys, list) else [line.strip() for line in read(keys).splitlines() if line.strip()]

    return Keys.of(listed(table.keys), None if table.keys_within is None else listed(table.keys_within))


@dataclass(frozen=True)
class PlacesAsked:
    """Checked. pieces: the region cut by the places. text: what tells them apart from others, for the spec_id."""

    share: Fraction
    text: dict[str, Any] = field(hash=False)
    pieces: Pieces = field(compare=False, repr=False)


def places_asked(
    table: PlacesTable,
    region: Sequence[int],
    document: Any,
    visits: str | None = None,
    progress: Report = unheard,
) -> PlacesAsked:
    """Cuts a region by the places. document: of their file. visits: text of that file. Raises ValueError, which names
    the key."""
    asked = _places_asked(table, region, document, progress)
    if visits is None:
        return asked
    numbers = _visits(visits, asked.pieces.places.names)
    text = asked.text | {"visits": hashlib.sha256(np.array(numbers, "<f8").tobytes()).hexdigest()[:16]}
    pieces = replace(asked.pieces, places=asked.pieces.places._replace(visits=numbers))
    return replace(asked, text=text, pieces=pieces)


def _visits(content: str, names: Sequence[str]) -> tuple[float, ...]:
    """Reads the vehicles a day of each place, HARDLY of the mean where the table has less."""
    rows = csv.DictReader(io.StringIO(content))
    number, numbers = {name: index for index, name in enumerate(names)}, np.full(len(names), np.nan)
    try:
        if not {"place", "vehicles"} <= set(rows.fieldnames or ()):
            raise ValueError("visits needs the columns place and vehicles")
        for row in rows:
            place, vehicles = number.get(row["place"] or ""), _number(row["vehicles"] or "")
            if place is None or not np.isnan(numbers[place]):
                raise ValueError(f"visits: line {rows.line_num} needs the name of a place, each once")
            if not 0 <= vehicles <= MOST_VISITS:
                raise ValueError(f"visits: line {rows.line_num} needs vehicles from 0 to {MOST_VISITS:,}")
            numbers[place] = vehicles
    except csv.Error:
        raise ValueError(f"visits: line {rows.reader.line_num} is no row of CSV") from None
    whole = float(np.nansum(numbers))
    if not whole > 0:
        raise ValueError("visits needs a place with vehicles")
    return tuple(np.maximum(np.nan_to_num(numbers), HARDLY * whole / len(names)).tolist())


def _number(text: str) -> float:
    """Reads a number; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _places_asked(table: PlacesTable, region: Sequence[int], document: Any, progress: Report) -> PlacesAsked:
    if not 0 < table.share < 1:
        raise ValueError(f"share must be above 0 and below 1; it is {float(table.share):g}")
    if table.resolution is not None:
        pieces = hexagon_pieces(region, _checked(table.resolution, region))
        return PlacesAsked(table.share, {"share": str(table.share), "resolution": table.resolution}, pieces)
    buffer_m = BUFFER_M if table.buffer_m is None else float(table.buffer_m)
    pieces = shape_pieces(document, region, buffer_m, partial(progress, "places read"))
    return PlacesAsked(table.share, {"share": str(table.share), "places": _digest(pieces)}, pieces)


def _checked(resolution: int, region: Sequence[int]) -> int:
    from transforms.places.hexagons import cell_text

    coarse = int(cell_text(region[0])[1], 16)
    if coarse < resolution <= 15 and len(region) * 7 ** (resolution - coarse) > MOST_PLACES:
        raise ValueError(f"resolution {resolution} gives more than {MOST_PLACES:,} places")
    return resolution


def _digest(pieces: Pieces) -> str:
    """Digests which places there are and which fine cells each has, in 16 hex digits."""
    result = hashlib.sha256("\n".join(pieces.places.names).encode())
    for column in (pieces.fine, pieces.place[pieces.piece], pieces.places.cell):
        result.update(column.astype("<i8").tobytes())
    for column in (pieces.turn, pieces.place[pieces.by_heading]) if pieces.is_directed else ():
        result.update(column.astype("<i8").tobytes())
    return result.hexdigest()[:16]
