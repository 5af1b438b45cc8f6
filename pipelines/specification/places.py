"""What a specification says of places: what they are, and what part of the total is spent on them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from transforms.places.ground import Pieces, hexagon_pieces
from transforms.places.shapes import BUFFER_M, shape_pieces

SHARE = Fraction(3, 10)
MOST_PLACES = 200_000


class PlacesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels under add-remove: a map of places that are smaller than cells, which fills day by day.

    Places are H3 cells of a finer resolution, or those of a file.
    """

    resolution: Annotated[
        int | None, msgspec.Meta(description="of H3, finer than cells.resolution: all such cells of the region")
    ] = None
    file: Annotated[
        str | None,
        msgspec.Meta(
            description="instead: a GeoJSON FeatureCollection of lines and polygons, each with a property name. Public"
        ),
    ] = None
    buffer_m: Annotated[
        Fraction | None, msgspec.Meta(description="with file: so near to a line is what belongs to it; 25 if left out")
    ] = None
    share: Annotated[Fraction, msgspec.Meta(description="of each period's total; hexagons and hours keep the rest")] = (
        SHARE
    )


@dataclass(frozen=True)
class PlacesAsked:
    """Checked. pieces: the region cut by the places. text: what tells them apart from others, for the spec_id."""

    share: Fraction
    text: dict[str, Any]
    pieces: Pieces = field(compare=False, repr=False)


def places_asked(table: PlacesTable, region: Sequence[int], document: Any) -> PlacesAsked:
    """document: of the file. Raises ValueError, which names the key."""
    if not 0 < table.share < 1:
        raise ValueError(f"share must be above 0 and below 1; it is {float(table.share):g}")
    if table.resolution is not None:
        pieces = hexagon_pieces(region, _checked(table.resolution, region))
        return PlacesAsked(table.share, {"share": str(table.share), "resolution": table.resolution}, pieces)
    buffer_m = BUFFER_M if table.buffer_m is None else float(table.buffer_m)
    pieces = shape_pieces(document, region, buffer_m)
    return PlacesAsked(table.share, {"share": str(table.share), "places": _digest(pieces)}, pieces)


def _checked(resolution: int, region: Sequence[int]) -> int:
    from transforms.places.hexagons import cell_text

    coarse = int(cell_text(region[0])[1], 16)
    if coarse < resolution <= 15 and len(region) * 7 ** (resolution - coarse) > MOST_PLACES:
        raise ValueError(f"resolution {resolution} gives more than {MOST_PLACES:,} places")
    return resolution


def _digest(pieces: Pieces) -> str:
    """Digest of which places there are and which fine cells each has, in 16 hex digits."""
    result = hashlib.sha256("\n".join(pieces.places.names).encode())
    for column in (pieces.fine, pieces.place[pieces.piece], pieces.places.cell):
        result.update(column.astype("<i8").tobytes())
    return result.hexdigest()[:16]
