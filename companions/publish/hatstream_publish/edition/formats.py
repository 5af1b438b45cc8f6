"""Writes published tables as GeoParquet, and programs' files of days and slots.

`published` selects the rows and columns to publish, for which the column "cell" has the place's id. `own_value` is of
the place itself, where `value` is of the coarser cell around it, its area. `everything`: unusable values too. A live
row is of a slot released while its day lasted.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
import shapely.geometry

from hatstream.api import Specification, cut_at_antimeridian, result_columns
from hatstream_publish.edition.edition import Edition
from hatstream_publish.pages.places import NamedPlaces, box_of
from hatstream_publish.pages.rows import CITY, LIVE_MECHANISM, STATUSES, of_each, published


class ColumnEntry(NamedTuple):
    """Column of the data dictionary; unit may be empty."""

    name: str
    meaning: str
    unit: str = ""


def columns_of(table: pa.Schema, spec: Specification) -> list[ColumnEntry]:
    """Describes columns in order. Raises KeyError for unknown ones."""
    declared = {name: ColumnEntry(name, column.meaning, column.unit) for name, column in result_columns(spec).items()}
    listed = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    bounds = [(f"own_{name}", declared[name].meaning) for name in ("lower95", "upper95")]
    about_own = [declared[name] for name in ("noise_std", "bias_bound")]
    name = "What people call the place: its busiest stop, from the timetable; no part of what is measured"
    value_of = "What the value is of: place; area (the coarser hexagon around it, in the column area), where all "
    value_of += "places of it that are not known by themselves have the same value"
    own_value = "What is estimated of the place and slot by itself, however little is known"
    coarser = max(spec.cells.resolution - 1, 0)
    own_entries = [  # columns that only published tables have, or that mean more in them
        ColumnEntry("name", name),
        ColumnEntry("value_of", value_of),
        ColumnEntry("area", f"The coarser H3 hexagon, of resolution {coarser}, where the value is of the area"),
        ColumnEntry("status", f"{declared['status'].meaning}. {listed}"),
        ColumnEntry("own_value", own_value, "column unit"),
        *(ColumnEntry(end, f"Of own_value: {text[:1].lower()}{text[1:]}", "column unit") for end, text in bounds),
        # In published tables these are about the place's value, even where `value` is the area's.
        *(entry._replace(meaning=re.sub(r"\bvalue\b", "own_value", entry.meaning)) for entry in about_own),
        ColumnEntry("slot_start_at", "Instant at which the slot begins"),
        ColumnEntry("slot_end_at", "Instant at which the slot ends"),
        ColumnEntry("geometry", "Outline of the place, longitude and latitude (OGC:CRS84)", "degrees"),
    ]
    entry_of = declared | {entry.name: entry for entry in own_entries}
    return [entry_of[name] for name in table.names]


def parquet_bytes(table: pa.Table, places: NamedPlaces, spec: Specification, facts: Mapping[str, Any]) -> bytes:
    """Writes GeoParquet with meanings of columns. Source: https://geoparquet.org/releases/v1.1.0/.

    Outlines are ISO WKB, little-endian, without heights (OGC 06-103r4, section 8). facts: what metadata has under the
    key "hatstream".
    """
    cells = [cell for cell in table["cell"].unique().to_pylist() if cell != CITY]
    shapes = {cell: places.place(cell).shape for cell in cells}
    cut = {cell: cut_at_antimeridian(shape.geometry) for cell, shape in shapes.items() if shape}
    wkb_of = {
        cell: shapely.to_wkb(shapely.force_2d(shapely.geometry.shape(geometry)), byte_order=1, flavor="iso")
        for cell, geometry in cut.items()
    }
    for name in ("slot_start", "slot_end"):
        instants = of_each(table[name], datetime.fromisoformat).cast(pa.timestamp("us", spec.timetable.zone))
        table = table.append_column(f"{name}_at", instants)
    table = table.append_column("geometry", of_each(table["cell"], wkb_of.get).cast(pa.binary()))
    described = zip(table.schema, columns_of(table.schema, spec), strict=True)
    fields = [
        field.with_metadata({"description": column.meaning, **({"unit": column.unit} if column.unit else {})})
        for field, column in described
    ]
    kinds = sorted({str(geometry["type"]) for geometry in cut.values()})
    column = {"encoding": "WKB", "geometry_types": kinds, "bbox": list(box_of(filter(None, shapes.values())))}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
    metadata = {"geo": msgspec.json.encode(geo), "hatstream": msgspec.json.encode(facts)}
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields, metadata)), sink, compression="zstd")
    return sink.getvalue()


def places_geojson(results: Iterable[pa.Table], places: NamedPlaces) -> dict[str, Any]:
    """Lists the places of all rows with shape, name and note, as GeoJSON."""
    features = []
    for cell in sorted({cell for rows in results for cell in rows["cell"].unique().to_pylist()} - {CITY}):
        place = places.place(cell)
        properties = {"place": cell, "name": place.name, "note": place.note}
        geometry = place.shape and place.shape.geometry
        features.append({"type": "Feature", "id": cell, "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": features}


DAYS, LATEST_VALUES, OPENAPI = "api/days.json", "api/latest.geojson", "api/openapi.json"


class PublishedDay(NamedTuple):
    """Files of a local day."""

    date: str
    rows: int
    columns: list[ColumnEntry]  # none without rows
    digests: Mapping[str, str] = {}  # SHA-256 of its files, by name, once they are staged


class NewestSlot(NamedTuple):
    """Newest slot with its published rows; kind `live` (preliminary), `forecast`, or empty."""

    start: str
    end: str
    kind: str
    values: pa.Table


def day_files(
    date: str, rows: pa.Table, day: pa.Table, edition: Edition, places: NamedPlaces
) -> tuple[PublishedDay, dict[str, bytes]]:
    """Writes a day's files, by name, of `rows` by slot, `day` by place."""
    everything = edition.info.everything  # unusable values too
    table, day_table = (published(released, places, everything=everything) for released in (rows, day))
    about = {"date": date, "licence": edition.info.licence.name, "spec_id": edition.spec.spec_id}
    values = {"values": table.to_pylist(), "of_the_day": day_table.to_pylist()}
    content = {f"api/days/{date}.json": msgspec.json.encode(about | values)}
    if not table.num_rows:
        return PublishedDay(date, rows=0, columns=[]), content
    content[f"api/days/{date}.parquet"] = parquet_bytes(table, places, edition.spec, about)
    return PublishedDay(date, table.num_rows, columns_of(table.schema, edition.spec)), content


def newest_slot(rows: pa.Table, places: NamedPlaces, *, everything: bool) -> NewestSlot:
    """Picks the newest slot of released rows, else of forecasts. everything: unusable values too."""
    released = rows.filter(pc.not_equal(rows["status"], "forecast"))
    chosen = released if released.num_rows else rows
    last = max(chosen["slot_start"].unique().to_pylist(), key=datetime.fromisoformat)
    slot_rows = chosen.filter(pc.equal(chosen["slot_start"], last))
    is_live = pc.any(pc.ends_with(slot_rows["mechanism"], LIVE_MECHANISM)).as_py()
    kind = "live" if is_live else "" if released.num_rows else "forecast"
    values = published(slot_rows, places, everything=everything)
    return NewestSlot(last, slot_rows["slot_end"][0].as_py(), kind, values)


def slot_geojson(slot: NewestSlot, places: NamedPlaces) -> bytes:
    """Writes a slot's values as GeoJSON features with outlines."""
    features = []
    for row in slot.values.to_pylist():
        shape = places.place(row["cell"]).shape
        features.append({"type": "Feature", "geometry": shape and shape.geometry, "properties": row})
    return msgspec.json.encode({"type": "FeatureCollection", "features": features})


def days_json(days: Sequence[PublishedDay]) -> bytes:
    """Lists the days with their files, rows and checksums."""
    listed = []
    for day in days:
        paths = [{"path": name, "sha256": digest} for name, digest in day.digests.items()]
        listed.append({"date": day.date, "rows": day.rows, "files": paths})
    return msgspec.json.format(msgspec.json.encode({"days": listed}), indent=1) + b"\n"


def openapi(edition: Edition) -> dict[str, Any]:
    """Describes the files in OpenAPI 3.1."""
    info = edition.info
    document: dict[str, Any] = msgspec.json.decode(files(__package__).joinpath("openapi.json").read_bytes())
    licence = {"name": info.licence.title} | ({"url": info.licence.url} if info.licence.url else {})
    document["info"] = {"title": info.title, "version": edition.version, "license": licence}
    document["servers"] = [{"url": info.url.rstrip("/") or ".."}]  # the folder above this file
    return document
