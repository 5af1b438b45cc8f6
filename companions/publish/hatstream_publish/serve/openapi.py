"""The interface in OpenAPI 3.1: what can be asked, and what an answer looks like."""

from typing import Any

from hatstream_publish.serve.answers import FIELDS, MOST_ROWS
from hatstream_publish.serve.tiles import MEDIA

_JSON = "application/json"
_FIELD_WORDS = {
    "slot": "Start of a slot as /api/slots has it, or `latest`",
    "from": "First local date or time of slots; with `to` in place of `slot`",
    "to": "Local date or time that slots start before",
    "place": "Id of a place as /api/places has it",
    "statistic": "Name of a statistic as /api/slots has it",
    "all": "1: values that are not to be used as well, with their status",
}


def document(title: str, version: str) -> dict[str, Any]:
    described = "Published values with differential privacy; read only."
    tile = {MEDIA: {"type": "string", "format": "binary"}}
    address = [{"name": name, "in": "path", "required": True, "schema": {"type": "integer"}} for name in "zxy"]
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": described},
        "paths": {
            "/api/places": _get("Every place with its shape", {_JSON: _object("places")}),
            "/api/slots": _get("Every slot, with its number of values", {_JSON: _object("slots", "statistics")}),
            "/api/values": _get("Values as JSON", {_JSON: _object("newest", "values")}, _fields()),
            "/api/values.csv": _get("Values as CSV", {"text/csv": {"type": "string"}}, _fields()),
            "/api/values.geojson": _get("Values as GeoJSON", {"application/geo+json": _object("features")}, _fields()),
            "/tiles/{z}/{x}/{y}.mvt": _get("Values as a vector tile", tile, [*address, *_fields()]),
            "/health": _get("Whether the server is well", {_JSON: _object("status")}),
        },
    }


def _get(summary: str, contents: dict[str, Any], parameters: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": summary, "content": {media: {"schema": schema} for media, schema in contents.items()}},
        "304": {"description": "What the request's If-None-Match names is still so"},
    }
    if parameters:
        answers["400"] = {"description": f"The question has no answer, or one of more than {MOST_ROWS:,} rows"}
    return {"get": {"summary": summary, "parameters": parameters or [], "responses": answers}}


def _object(*names: str) -> dict[str, Any]:
    return {"type": "object", "required": list(names)}


def _fields() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": _FIELD_WORDS[name],
            "schema": {"type": "string"},
        }
        for name in FIELDS
    ]
