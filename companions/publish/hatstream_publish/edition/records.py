"""Writes a folder's records: package, DCAT, dictionary, page."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hatstream_publish.edition.edition import Edition
from hatstream_publish.edition.formats import ColumnEntry
from hatstream_publish.pages.rows import STATUSES

_NAME_BY_TYPE = {pa.string(): "string", pa.float64(): "number", pa.int64(): "integer", pa.binary(): "any"}


class PublishedFile(NamedTuple):
    """A file of the folder. schema: of a table, see `table_schema`."""

    path: str
    title: str
    mediatype: str
    size: int
    sha256: str
    schema: Mapping[str, Any] | None = None


def data_package(edition: Edition, parts: Sequence[PublishedFile]) -> dict[str, Any]:
    """Describes the folder. Source: Data Package 1.0, https://specs.frictionlessdata.io/data-package/."""
    info = edition.info
    licence = {"name": info.licence.name, "title": info.licence.title}
    email = {"email": info.contact} if "@" in info.contact else {}
    resources = []
    for part in parts:
        stem, _, ending = part.path.rpartition(".")
        # A table's CSV has the plain name, so that other forms of it need another.
        name = stem.lower() if ending == "csv" and part.schema else f"{stem}-{ending}".lower()
        resource: dict[str, Any] = {"name": name, "path": part.path, "title": part.title, "format": ending}
        resource["mediatype"] = part.mediatype
        if ending != "parquet":  # validators cannot count a Parquet file's bytes; SHA256SUMS has the hash of every file
            resource |= {"bytes": part.size, "hash": f"sha256:{part.sha256}"}
        if part.schema is not None:
            resource |= {"profile": "tabular-data-resource", "encoding": "utf-8"} if ending == "csv" else {}
            resource["schema"] = part.schema
        resources.append(resource)
    return {
        "profile": "data-package",
        "name": re.sub(r"[^a-z0-9._-]+", "-", edition.spec.name.lower()).strip("-") or "dataset",
        "title": info.title,
        "description": info.description,
        **({"homepage": info.url} if info.url else {}),
        "created": edition.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "keywords": list(KEYWORDS),
        "licenses": [licence | ({"path": info.licence.url} if info.licence.url else {})],
        "contributors": [{"title": info.publisher, "role": "publisher", **email}],
        "temporal": {"start": edition.first, "end": edition.last},
        "bbox": list(edition.bbox),
        "privacy": edition.privacy(),
        "provenance": edition.provenance(),
        "resources": resources,
    }


KEYWORDS = ("speed", "public transport", "traffic", "differential privacy", "H3")


def table_schema(schema: pa.Schema, columns: Sequence[ColumnEntry]) -> dict[str, Any]:
    """Describes columns. Source: Table Schema 1.0, https://specs.frictionlessdata.io/table-schema/."""
    fields = []
    for column in columns:
        arrow = schema.field(column.name)
        field: dict[str, Any] = {"name": column.name, "description": column.meaning}
        if column.unit:
            field["unit"] = column.unit
        if column.name in ("slot_start", "slot_end"):
            field |= {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S%z"}
        elif pa.types.is_timestamp(arrow.type):
            field["type"] = "datetime"
        else:
            field["type"] = "array" if pa.types.is_list(arrow.type) else _NAME_BY_TYPE[arrow.type]
        constraints: dict[str, Any] = {} if arrow.nullable else {"required": True}
        if column.name == "status":
            constraints["enum"] = sorted(STATUSES)
        fields.append(field | ({"constraints": constraints} if constraints else {}))
    return {"fields": fields, "primaryKey": ["slot_start", "cell", "statistic"], "missingValues": [""]}


def dictionary_csv(tables: Mapping[str, Sequence[ColumnEntry]]) -> bytes:
    """Lists all columns with their meaning and unit."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["table", "column", "meaning", "unit"])
    for name, columns in tables.items():
        writer.writerows([name, column.name, column.meaning, column.unit] for column in columns)
    return sink.getvalue().encode()


_JSON_LD_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "locn": "http://www.w3.org/ns/locn#",
    "prov": "http://www.w3.org/ns/prov#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "geosparql": "http://www.opengis.net/ont/geosparql#",
}
_EU_VOCABULARY_URL = "http://publications.europa.eu/resource/authority"
_EU_CODE_BY_FORMAT = {"csv": "CSV", "parquet": "PARQUET", "json": "JSON", "geojson": "GEOJSON", "html": "HTML"}
"""File types that the European Union's vocabulary names, by ending."""


def dcat_record(edition: Edition, parts: Sequence[PublishedFile]) -> dict[str, Any]:
    """Describes the folder as JSON-LD. Source: DCAT 3, https://www.w3.org/TR/vocab-dcat-3/, as DCAT-AP 3 asks for."""
    info, (west, south, east, north) = edition.info, edition.bbox
    east += 360 if east < west else 0  # a ring across the antimeridian goes on beyond 180
    licence, contact = {"@id": info.licence.url} if info.licence.url else info.licence.title, info.contact
    link = {"vcard:hasEmail": {"@id": f"mailto:{contact}"}} if "@" in contact else {"vcard:hasURL": {"@id": contact}}
    ring = ", ".join(f"{x} {y}" for x, y in ((west, south), (east, south), (east, north), (west, north), (west, south)))
    return {
        "@context": _JSON_LD_CONTEXT,
        "@id": info.url or f"urn:hatstream:{edition.spec.spec_id}",
        "@type": "dcat:Dataset",
        "dct:title": info.title,
        "dct:description": info.description,
        "dct:identifier": edition.spec.spec_id,
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": info.publisher},
        "dcat:contactPoint": {"@type": "vcard:Organization", "vcard:fn": info.publisher, **(link if contact else {})},
        "dct:modified": _typed(edition.created.isoformat(timespec="seconds"), "dateTime"),
        "dct:license": licence,
        "dct:accessRights": {"@id": f"{_EU_VOCABULARY_URL}/access-right/PUBLIC"},
        "dcat:keyword": list(KEYWORDS),
        "dcat:theme": {"@id": f"{_EU_VOCABULARY_URL}/data-theme/TRAN"},
        "dct:language": {"@id": f"{_EU_VOCABULARY_URL}/language/ENG"},
        "dcat:temporalResolution": _typed(f"PT{edition.spec.timetable.slot_minutes}M", "duration"),
        **({"dcat:landingPage": {"@id": info.url, "@type": "foaf:Document"}} if info.url else {}),
        "dct:temporal": {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": _typed(edition.first, "dateTime"),
            "dcat:endDate": _typed(edition.last, "dateTime"),
        },
        "dct:spatial": {
            "@type": "dct:Location",
            "dcat:bbox": {"@type": "geosparql:wktLiteral", "@value": f"POLYGON(({ring}))"},
        },
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "dct:description": edition.account.guarantee},
        "dcat:distribution": [_distribution(info.url, licence, part) for part in parts],
    }


def _typed(value: str, kind: str) -> dict[str, str]:
    """Writes a value of a type of XML Schema in JSON-LD."""
    return {"@type": f"xsd:{kind}", "@value": value}


def _distribution(url: str, licence: Any, part: PublishedFile) -> dict[str, Any]:
    """Describes a file as DCAT distribution. url: of the folder, or empty."""
    address = f"{url.rstrip('/')}/{part.path}" if url else part.path
    kind = _EU_CODE_BY_FORMAT.get(part.path.rpartition(".")[2])
    return {
        "@type": "dcat:Distribution",
        "dct:title": part.title,
        "dcat:accessURL": {"@id": url or address},
        "dcat:downloadURL": {"@id": address},
        "dcat:mediaType": {"@id": f"https://www.iana.org/assignments/media-types/{part.mediatype}"},
        **({"dct:format": {"@id": f"{_EU_VOCABULARY_URL}/file-type/{kind}"}} if kind else {}),
        "dcat:byteSize": _typed(str(part.size), "nonNegativeInteger"),
        "dct:license": licence,
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": part.sha256},
        },
    }
