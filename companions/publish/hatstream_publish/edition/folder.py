"""The published folder: everything is made first, then it takes its place as a whole."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatstream.api import InputError, UsageError
from hatstream_publish.edition.dictionary import ColumnEntry, columns_of
from hatstream_publish.edition.edition import Edition, shown
from hatstream_publish.edition.records import PublishedFile, data_package, dcat_record, dictionary_csv, table_schema
from hatstream_publish.edition.tables import parquet_bytes
from hatstream_publish.pages.map import MapTexts, Surroundings, map_page
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.page import render, text_of
from hatstream_publish.pages.places import NamedPlaces
from hatstream_publish.pages.rows import CITY, HATS
from hatstream_publish.pages.usable import USABLE, csv_bytes, published
from hatstream_publish.pages.words import ADVICE

PACKAGE = "datapackage.json"
MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "geojson": "application/geo+json",
    "html": "text/html",
    "md": "text/markdown",
    "toml": "application/toml",
}
_TITLES = {
    HATS: "Values by place and slot",
    "cell-day": "Values by place and day",
    "cell-part": "Values by place and part of the day",
    "parent-hour": "Values by coarser place and hour",
    "city-hour": "Values of the whole area by hour",
    "place-standing": "Values of places as they usually are",
    "place-day": "Values of places by day",
    "place-part": "Values of places in parts of the day",
    "place-slot": "Values of places by slot",
}


def write_folder(output: Path, files: Mapping[str, bytes]) -> None:
    """Writes a folder that appears whole, and takes the place of one that was published there before.

    Raises UsageError for a folder that holds something else, and OSError.
    """
    output = output.absolute()
    if output.exists() and any(output.iterdir()) and not (output / PACKAGE).exists():
        raise UsageError(f"{output} holds other files than what `publish` writes: name another folder")
    output.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        part.chmod(0o755)
        for name, content in files.items():
            (part / name).write_bytes(content)
        before = part.with_suffix(".before")
        if output.exists():
            os.rename(output, before)
        os.rename(part, output)
        shutil.rmtree(before, ignore_errors=True)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise


def made(
    edition: Edition, results: Mapping[str, pa.Table], around: Surroundings, texts: MapTexts
) -> tuple[dict[str, bytes], dict[str, int]]:
    """Makes every file of the folder, by name; and says how many rows each table has. results: see `read_results`.

    Raises InputError where nothing is left to publish.
    """
    tables = _tables(edition, results, around)
    if HATS not in tables:
        raise InputError(f"no value of the range may be used. {ADVICE['held-back']} --all publishes all")
    files = {name: content for table in tables.values() for name, (content, _) in table.files.items()}
    schemas = {name: schema for table in tables.values() for name, (_, schema) in table.files.items()}
    files["places.geojson"] = places_geojson(results.values(), around.places)
    rows = results[HATS]
    shown_rows = rows if edition.wishes.everything else rows.filter(pc.is_in(rows["status"], pa.array(USABLE)))
    files["map.html"] = map_page(texts, data=packed(shown_rows, around.places, around.ground))
    about_privacy = f"{edition.wishes.title}: privacy"
    files["privacy.html"] = render("privacy.html", edition=edition, shown=shown, title=about_privacy)
    files["privacy.json"] = _json(edition.privacy())
    files["provenance.json"] = _json(edition.provenance())
    files["specification.toml"] = edition.origin.specification.encode()
    files["dictionary.csv"] = dictionary_csv({name: table.columns for name, table in tables.items()})
    parts = [_part(name, content, schemas.get(name)) for name, content in files.items()]
    files["dcat.jsonld"] = _json(dcat_record(edition, parts))
    files[PACKAGE] = _json(data_package(edition, parts))
    files["README.md"] = text_of("readme.md", edition=edition, parts=parts, shown=shown).encode()
    files["SHA256SUMS"] = "".join(f"{_hash(content)}  {name}\n" for name, content in sorted(files.items())).encode()
    return files, {name: table.rows for name, table in tables.items()}


class _Table(NamedTuple):
    """files: content and Table Schema, by name. columns: those of the CSV file."""

    rows: int
    columns: list[ColumnEntry]
    files: Mapping[str, tuple[bytes, Mapping[str, Any]]]


def _tables(edition: Edition, results: Mapping[str, pa.Table], around: Surroundings) -> dict[str, _Table]:
    """Makes the tables that are not empty, by name."""
    tables: dict[str, _Table] = {}
    about = {"title": edition.wishes.title, "privacy": edition.privacy(), "provenance": edition.provenance()}
    for name, rows in results.items():
        table = published(rows, around.places, everything=edition.wishes.everything)
        if not table.num_rows:
            continue
        columns, parquet = (
            columns_of(table.schema, edition.spec),
            parquet_bytes(table, around.places, edition.spec, about),
        )
        schema = pq.read_schema(pa.BufferReader(parquet))
        files = {
            f"{name}.parquet": (parquet, table_schema(schema, columns_of(schema, edition.spec))),
            f"{name}.csv": (csv_bytes(table), table_schema(table.schema, columns)),
        }
        tables[name] = _Table(table.num_rows, columns, files)
    return tables


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _part(name: str, content: bytes, schema: Mapping[str, Any] | None) -> PublishedFile:
    stem, _, ending = name.rpartition(".")
    title = _TITLES.get(stem, stem.capitalize())
    return PublishedFile(name, title, MEDIA[ending], len(content), _hash(content), schema)


def places_geojson(results: Iterable[pa.Table], places: NamedPlaces) -> bytes:
    """Lists every place of the tables with its shape, name and note."""
    features = []
    for cell in sorted({cell for rows in results for cell in rows["cell"].unique().to_pylist()} - {CITY}):
        place = places.place(cell)
        shape = None if place.shape is None else place.shape.geometry
        said = {"place": cell, "name": place.name, "note": place.note}
        features.append({"type": "Feature", "id": cell, "geometry": shape, "properties": said})
    return _json({"type": "FeatureCollection", "features": features})


def _json(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
