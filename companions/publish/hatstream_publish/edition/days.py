"""Writes programs' files: days, newest slot and index."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hatstream_publish.edition.edition import Edition
from hatstream_publish.edition.tables import parquet_bytes
from hatstream_publish.pages.places import NamedPlaces
from hatstream_publish.pages.rows import LIVE_MECHANISM, published

DAYS, LATEST_VALUES, OPENAPI = "api/days.json", "api/latest.geojson", "api/openapi.json"


class PublishedDay(NamedTuple):
    """Files of a local day."""

    date: str
    rows: int
    columns: pa.Schema | None  # None without rows
    content: Mapping[str, bytes]  # of each file, by name; empty once it is written


class NewestSlot(NamedTuple):
    """Newest slot with its published rows; kind `live` (preliminary), `forecast`, or empty."""

    start: str
    end: str
    kind: str
    values: pa.Table


def day_files(date: str, rows: pa.Table, day: pa.Table, edition: Edition, places: NamedPlaces) -> PublishedDay:
    """Writes a day's files of `rows` by slot and place, `day` by place."""
    everything = edition.info.everything  # unusable values too
    table, day_table = (published(released, places, everything=everything) for released in (rows, day))
    about = {"date": date, "licence": edition.info.licence.name, "spec_id": edition.spec.spec_id}
    values = {"values": table.to_pylist(), "of_the_day": day_table.to_pylist()}
    content = {f"api/days/{date}.json": msgspec.json.encode(about | values)}
    if not table.num_rows:
        return PublishedDay(date, rows=0, columns=None, content=content)
    content[f"api/days/{date}.parquet"] = parquet_bytes(table, places, edition.spec, about)
    return PublishedDay(date, table.num_rows, table.schema, content)


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


def days_json(days: Sequence[PublishedDay], digests: Mapping[str, str]) -> bytes:
    """Lists the days with their files, rows and checksums. digests: SHA-256 by file name."""
    listed = []
    for day in days:
        names = [name for name in sorted(digests) if f"/{day.date}." in name]
        paths = [{"path": name, "sha256": digests[name]} for name in names]
        listed.append({"date": day.date, "rows": day.rows, "files": paths})
    return msgspec.json.format(msgspec.json.encode({"days": listed}), indent=1) + b"\n"


def openapi(edition: Edition) -> dict[str, Any]:
    """Describes the files in OpenAPI 3.1."""
    info = edition.info
    date = {"name": "date", "in": "path", "required": True, "schema": {"type": "string", "format": "date"}}
    latest = {"updated": "string", "slot": "object", "values": "string", "days": "string"}
    documents = {  # summary, media type, and kinds of properties, by path
        "/latest.json": ("The last slot that has values, and where its files are", "application/json", latest),
        f"/{DAYS}": ("Every day with its files and checksums", "application/json", {"days": "array"}),
        "/api/days/{date}.json": (
            "Values of a local day: of its slots, and of the places' whole day",
            "application/json",
            {"values": "array", "of_the_day": "array"},
        ),
        "/api/days/{date}.parquet": ("Values of its slots as GeoParquet 1.1", "application/vnd.apache.parquet", None),
        f"/{LATEST_VALUES}": ("Values of the last slot that has any", "application/geo+json", {"features": "array"}),
        "/places.geojson": ("Every place with its outline", "application/geo+json", {"features": "array"}),
    }
    licence = {"name": info.licence.title} | ({"url": info.licence.url} if info.licence.url else {})
    return {
        "openapi": "3.1.0",
        "info": {"title": info.title, "version": edition.version, "license": licence},
        "servers": [{"url": info.url.rstrip("/") or ".."}],  # the folder above this file
        "paths": {
            path: {
                **({"parameters": [date]} if "{date}" in path else {}),
                "get": {"summary": summary, "responses": {"200": _content(summary, media, properties)}},
            }
            for path, (summary, media, properties) in documents.items()
        },
    }


def _content(summary: str, media: str, properties: Mapping[str, str] | None) -> dict[str, Any]:
    """Describes a response: JSON with these properties (kinds by name), or binary."""
    schema: dict[str, Any] = {"type": "string", "format": "binary"}
    if properties is not None:
        kinds = {name: {"type": kind} for name, kind in properties.items()}
        schema = {"type": "object", "properties": kinds, "required": [*properties]}
    return {"description": summary, "content": {media: {"schema": schema}}}
