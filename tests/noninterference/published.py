"""What is made of results for the public: a portal's folder, and the answers of a server over it."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from hatstream_publish.pages.map import MapTexts, Surroundings
from hatstream_publish.pages.places import NamedPlaces
from hatstream_publish.serve.app import application
from hatstream_publish.serve.snapshot import Follower
from tests.noninterference.roads import Job
from tests.noninterference.world import Feed, Town

OF_A_LOOK = re.compile(rb'"looked_s_ago":[0-9.]+')
TEXTS = ("--publisher", "City of Town", "--licence", "CC-BY-4.0", "--all")
ASKED = (
    "/", "/health", "/openapi.json", "/map.bin", "/api/places", "/api/slots", "/api/values", "/api/values.csv?all=1",
    "/api/values.geojson?all=1", "/api/values?slot=nonsense", "/tiles/10/719/454.mvt", "/nothing",
)  # fmt: skip


def portal(town: Town, feed: Feed) -> None:
    """A release, published twice: with values that may be used, and with all."""
    Job(formats=("parquet", "jsonl"))(town, feed)
    for name, texts in (("usable", TEXTS[:-1]), ("all", TEXTS)):
        command = ("publish", *town.ledger(), "--input", f"{town.out}/hats-*.parquet", *texts)
        town.run(*command, "--output", town.folder / "public" / name)
        town.run(*command, "--output", town.folder / "public" / f"{name}-again", "--json")


def server(town: Town, feed: Feed) -> None:
    """What a server over the results answers, its tags aside: they are of times at which files were written."""
    Job(formats=("parquet",))(town, feed)
    follower = Follower(town.out, Surroundings(NamedPlaces({})), 168)
    app = application(follower, MapTexts("Town", "Noise protects."))
    for address, (status, headers, body) in asyncio.run(_answers(app)).items():
        headers.pop("etag", None)
        town.show(f"answer of {address}", f"{status} {sorted(headers.items())}")
        town.show(f"what {address} holds", OF_A_LOOK.sub(b"", body))


async def _answers(app: Any) -> dict[str, tuple[int, dict[str, str], bytes]]:
    async with app.router.lifespan_context(app):
        return {address: await _asked(app, address) for address in ASKED}


async def _asked(app: Any, address: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body, by the interface between a server and an application (ASGI 3)."""
    path, _, query = address.partition("?")
    scope: Mapping[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": [(b"host", b"town")],
        "client": ("127.0.0.1", 1), "server": ("town", 80), "root_path": "",
    }  # fmt: skip
    said: list[Any] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        said.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    return said[0]["status"], headers, b"".join(message.get("body", b"") for message in said[1:])
