"""Parts of a period beside means, as a specification asks for them.

A part has a stage, with a share of a period's total. Pieces are places' parts in cells of the region, whose cells are
H3's. `read` returns a file's text, by its path and the key that names it.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import h3.api.basic_int as h3_int
import msgspec
import numpy as np

from dpops.levels.parts import class_edges, with_classes, with_places
from dpops.levels.stages import Stage
from dpops.types import Grid
from pipelines.errors import Report, SpecificationError, need, raise_as, shortened
from pipelines.specification.document import Document, converted, options_of
from pipelines.specification.tables import STATISTIC, ClassOptions, PlacesTable
from transforms.places.ground import Pieces, hexagon_pieces
from transforms.places.shapes import BUFFER_M, shape_pieces
from transforms.recorded.units import VECTOR

MOST_PLACES, MOST_VISITS = 200_000, 10_000_000
HARDLY = 0.05  # visits of a place that the list leaves out, relative to the mean: it may have some all the same


@dataclass(frozen=True)
class ClassesRequest:
    """Checked statistic `distribution`. edges: of speed classes, in steps of the grid."""

    share: Fraction
    edges: tuple[int, ...]
    statistics, facts = (STATISTIC,), ()
    needs_headings = adds_days_up = False

    def with_stage(self, stages: tuple[Stage, ...], share: Fraction) -> tuple[Stage, ...]:
        """Adds the part's stage, at a share of the stages' total."""
        return with_classes(stages, share, self.edges)

    def describe(self, tables: dict[str, Any]) -> None:
        """Adds what decides the release to the tables that the spec_id hashes."""
        table = {"name": STATISTIC, "mechanism": VECTOR, "share": str(self.share), "edges": list(self.edges)}
        tables["statistic"].append(table)


@dataclass(frozen=True)
class PlacesRequest:
    """Checked places, and the region cut by them.

    text: what decides the release, for the spec_id. adds_days_up: whether a map shows a vehicle's days at one place
    together.
    """

    share: Fraction
    text: dict[str, Any] = field(hash=False)
    pieces: Pieces = field(compare=False, repr=False)
    statistics, adds_days_up = (), True

    def with_stage(self, stages: tuple[Stage, ...], share: Fraction) -> tuple[Stage, ...]:
        """Adds the part's stage, at a share of the stages' total."""
        return with_places(stages, share)

    @property
    def needs_headings(self) -> bool:
        """Whether headings of reports decide the place of some."""
        return self.pieces.is_directed

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Names and texts of what `spec check` shows."""
        return (("places", f"{len(self.pieces.places.names):,}, within the cells"),)

    def describe(self, tables: dict[str, Any]) -> None:
        """Adds what decides the release to the tables that the spec_id hashes."""
        tables["places"] = self.text


PartRequest = ClassesRequest | PlacesRequest


def parts_of(
    document: Document, grid: Grid, region: Sequence[int], read: Callable[[str, str], str], progress: Report
) -> tuple[PartRequest, ...]:
    """Checks and builds parts, in the order of their stages. Raises SpecificationError."""
    table, statistics = document.places, {table.get("name"): table for table in document.statistic}
    # With a column the table names public keys, in place of cells: it asks for no part of the total.
    places = () if table is None or table.column else (_places_of(table, document, region, read, progress),)
    if STATISTIC not in statistics:
        return places
    field = f"statistic {STATISTIC!r} with mechanism 'levels'"
    _check_whole_periods(document, field, "classes are counted")
    written = converted(options_of(statistics[STATISTIC]), ClassOptions, field)
    need(0 < written.share < 1, f"{field}: share", "must be above 0 and below 1", written.share)
    need(6 <= written.classes <= 10, f"{field}: classes", "must be 6 to 10", written.classes)  # near 8, the default
    fits = written.share + sum(part.share for part in places) < 1
    need(fits, field, "must leave the mean a part of the total beside places", written.share)
    with raise_as(SpecificationError, ValueError, f"{field}: "):
        return ClassesRequest(written.share, class_edges(written.classes, grid)), *places


def _check_whole_periods(document: Document, field: str, action: str) -> None:
    """Checks the rules of statistics of whole periods. field, action: for the message."""
    adjacency = document.account.adjacency
    need(adjacency == "add-remove", field, "goes with account.adjacency = 'add-remove'", adjacency)
    need(document.live is None, field, f"goes without [live]: {action} once a period is over", "both")


def _places_of(
    table: PlacesTable, document: Document, region: Sequence[int], read: Callable[[str, str], str], progress: Report
) -> PlacesRequest:
    """Reads hexagons or shapes, and cuts the region by them. Raises SpecificationError."""
    _check_whole_periods(document, "places", "places are looked at")
    is_one = (table.resolution is None) != (table.file is None)
    need(is_one, "places", "needs resolution or file, one of them", "neither" if table.file is None else "both")
    rule = "goes with places.file: hexagons need none"
    need(table.buffer_m is None or table.file is not None, "places.buffer_m", rule, table.buffer_m)
    try:
        content = None if table.file is None else msgspec.json.decode(read(table.file, "places.file"))
        visits = None if table.visits is None else read(table.visits, "places.visits")
        need(0 < table.share < 1, "places: share", "must be above 0 and below 1", table.share)
        hashed: dict[str, Any] = {"share": str(table.share)}  # what a spec_id rests on
        if table.resolution is not None:
            steps = table.resolution - h3_int.get_resolution(region[0])  # each divides a cell by seven
            # No steps, and resolutions above 15, are refused by `hexagon_pieces`.
            if steps > 0 and table.resolution <= 15 and len(region) * 7**steps > MOST_PLACES:
                raise ValueError(f"resolution {table.resolution} gives more than {MOST_PLACES:,} places")
            pieces, hashed["resolution"] = hexagon_pieces(region, table.resolution), table.resolution
        else:
            buffer_m = BUFFER_M if table.buffer_m is None else float(table.buffer_m)
            pieces = shape_pieces(content, region, buffer_m, partial(progress, "places read"))
            hashed["places"] = _digest(pieces)
        if visits is not None:
            numbers = _visits(visits, pieces.places.names)
            hashed["visits"] = hashlib.sha256(np.array(numbers, "<f8").tobytes()).hexdigest()[:16]
            pieces = replace(pieces, places=pieces.places._replace(visits=numbers))
        return PlacesRequest(table.share, hashed, pieces)
    except RecursionError:
        raise SpecificationError(f"places.file: {shortened(repr(table.file))} is nested too deeply") from None
    except msgspec.MsgspecError as error:
        reason = shortened(str(error))
        raise SpecificationError(f"places.file: {shortened(repr(table.file))} is no GeoJSON: {reason}") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise SpecificationError(f"places: {shortened(str(error))}") from None


def _digest(pieces: Pieces) -> str:
    """Hashes what of shapes decides a report's place: names, and where they lie.

    Columns: fine H3 cells, the place of each (by its piece, a place's part in a cell of the region), the cell of each
    place, and with headings the row of each fine cell and the place of each row and sector.
    """
    digest = hashlib.sha256("\n".join(pieces.places.names).encode())
    of_headings = (pieces.heading_row, pieces.place[pieces.by_heading]) if pieces.is_directed else ()
    for column in (pieces.fine, pieces.place[pieces.piece], pieces.places.cell, *of_headings):
        digest.update(column.astype("<i8").tobytes())  # in the same order of bytes on every machine
    return digest.hexdigest()[:16]  # 64 bits tell files apart


def _visits(content: str, names: Sequence[str]) -> tuple[float, ...]:
    """Reads vehicles a day by place, (places,), at least HARDLY of the mean."""
    rows = csv.DictReader(io.StringIO(content))
    index_by_name, visits = {name: index for index, name in enumerate(names)}, np.full(len(names), np.nan)
    try:
        if not {"place", "vehicles"} <= set(rows.fieldnames or ()):
            raise ValueError("visits needs the columns place and vehicles")
        for row in rows:
            place, vehicles = index_by_name.get(row["place"] or ""), np.nan
            with suppress(ValueError):
                vehicles = float(row["vehicles"] or "")
            if place is None or not np.isnan(visits[place]):
                raise ValueError(f"visits: line {rows.line_num} needs the name of a place, each once")
            if not 0 <= vehicles <= MOST_VISITS:  # this refuses NaN too, where the text is no number
                raise ValueError(f"visits: line {rows.line_num} needs vehicles from 0 to {MOST_VISITS:,}")
            visits[place] = vehicles
    except csv.Error:
        raise ValueError(f"visits: line {rows.reader.line_num} is no row of CSV") from None
    total = float(np.nansum(visits))
    if not total > 0:
        raise ValueError("visits needs a place with vehicles")
    return tuple(np.maximum(np.nan_to_num(visits), HARDLY * total / len(names)).tolist())  # a 0 may be wrong
