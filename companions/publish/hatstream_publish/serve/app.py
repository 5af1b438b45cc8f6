"""The web application: a map that follows, the interface, health. Everything it answers is made of a snapshot."""

import asyncio
import gzip
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hatstream.api import InputError
from hatstream_publish.pages.map import MapTexts, map_page
from hatstream_publish.serve import answers, openapi
from hatstream_publish.serve.answers import Answer, BadQuery
from hatstream_publish.serve.snapshot import Follower, Snapshot
from hatstream_publish.serve.tiles import tile

LOOK_EVERY_S = 2.0
STALE_S = 60.0
"""A folder that was not looked at for so long is a fault."""
CACHE_BYTES = 64 << 20
LEAST_GZIP = 512
MAKERS = 2
"""Threads that make answers: more would only wait for one another, and one long answer must not hold the others."""
MAP_DATA = "/map.bin"

_HEADERS = {
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
}
_OPEN = {"access-control-allow-origin": "*"}
"""Of the interface: pages of others may read it."""

_BYTES = "application/octet-stream"

Make = Callable[[Snapshot], Answer]
Endpoint = Callable[[Request], Awaitable[Response]]
Key = tuple[str, str, bool]
"""A tag of what it is made of, an address, and whether the answer may be packed."""


class _StoredAnswer(NamedTuple):
    media: str
    is_packed: bool
    content: bytes


@dataclass
class SnapshotServer:
    """The newest snapshot, and answers that were made of it, each once however many ask for it at a time.

    fault: why the folder could not be looked at.
    """

    follower: Follower
    texts: MapTexts
    snapshot: Snapshot | None = None
    fault: str = ""
    _made: OrderedDict[Key, _StoredAnswer] = field(default_factory=OrderedDict)
    _made_bytes: int = 0
    _making: dict[Key, asyncio.Task[_StoredAnswer]] = field(default_factory=dict)
    _makers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MAKERS, "answers"))

    def look(self) -> None:
        try:
            self.snapshot = self.follower.look(self.snapshot)
            self.fault = ""
        except (InputError, OSError) as error:
            self.fault = str(error)

    async def follow(self) -> None:
        """Looks again and again, without an end."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.to_thread(self.look)

    async def answer(self, request: Request, make: Make) -> Response:
        """Answers from the newest snapshot; sends nothing that the client has, and makes nothing a second time."""
        snapshot = self.snapshot
        if snapshot is None:
            return _problem(503, self.fault or "nothing is published yet")
        tag = f'"{snapshot.tag_of(request.query_params.get("slot"))}"'
        headers = {**_HEADERS, **_OPEN, "etag": tag}
        if tag in request.headers.get("if-none-match", "").replace("W/", "").split(", "):
            return Response(status_code=304, headers=headers)
        packs = "gzip" in request.headers.get("accept-encoding", "")
        key = (tag, f"{request.url.path}?{request.url.query}", packs)
        try:
            kept = await self._answer(key, make, snapshot)
        except BadQuery as error:
            return _problem(400, str(error))
        packing = {"content-encoding": "gzip"} if kept.is_packed else {}
        return Response(kept.content, media_type=kept.media, headers=headers | packing)

    async def _answer(self, key: Key, make: Make, snapshot: Snapshot) -> _StoredAnswer:
        """Gives the answer that was made, is being made for others, or is made now. Raises BadQuery."""
        if key in self._made:
            self._made.move_to_end(key)
            return self._made[key]
        if key not in self._making:
            self._making[key] = asyncio.create_task(self._make(key, make, snapshot))
        return await asyncio.shield(self._making[key])

    async def _make(self, key: Key, make: Make, snapshot: Snapshot) -> _StoredAnswer:
        """Keeps it; throws away what was asked for longest ago."""
        try:
            work = asyncio.get_running_loop().run_in_executor
            kept = await work(self._makers, lambda: _kept(make(snapshot), packs=key[2]))
        finally:
            del self._making[key]
        self._made[key] = kept
        self._made_bytes += len(kept.content)
        while self._made_bytes > CACHE_BYTES and len(self._made) > 1:
            self._made_bytes -= len(self._made.popitem(last=False)[1].content)
        return kept

    def health(self) -> tuple[int, dict[str, object]]:
        """Tells how the server is: 200 where the folder is followed and holds something."""
        snapshot, age_s = self.snapshot, time.time() - self.follower.seen_s
        well = snapshot is not None and not self.fault and age_s < STALE_S
        return 200 if well else 503, {
            "status": "ok" if well else self.fault or ("nothing is published yet" if snapshot is None else "stale"),
            "looked_s_ago": round(age_s, 1),
            "slots": len(snapshot.starts) if snapshot else 0,
            "newest_slot": snapshot.starts[-1] if snapshot else None,
            "unreadable_files": list(self.follower.unreadable),
        }


def _kept(answer: Answer, *, packs: bool) -> _StoredAnswer:
    """Packs an answer, but not the map's data: these are packed already, for its program."""
    is_packed = packs and len(answer.content) >= LEAST_GZIP and answer.media != _BYTES
    return _StoredAnswer(
        answer.media, is_packed, gzip.compress(answer.content, 6, mtime=0) if is_packed else answer.content
    )


def _problem(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status, headers=_HEADERS | _OPEN)


def application(follower: Follower, texts: MapTexts) -> Starlette:
    """Looks at the folder once before it answers, then follows it."""
    server = SnapshotServer(follower, texts)

    @asynccontextmanager
    async def following(_app: Starlette) -> AsyncIterator[None]:
        server.look()
        task = asyncio.create_task(server.follow())
        yield
        task.cancel()

    return Starlette(routes=_routes(server), lifespan=following)


def _routes(server: SnapshotServer) -> list[Route]:
    page = map_page(server.texts, source=MAP_DATA, follow_s=2 * LOOK_EVERY_S)
    described = openapi.document(server.texts.title, version("hatstream"))

    async def home(_request: Request) -> Response:
        return Response(page, media_type="text/html", headers=_HEADERS)

    async def health(_request: Request) -> Response:
        status, said = server.health()
        return JSONResponse(said, status, headers=_HEADERS)

    async def interface(_request: Request) -> Response:
        return JSONResponse(described, headers=_HEADERS | _OPEN)

    async def vector_tile(request: Request) -> Response:
        place, query = request.path_params, dict(request.query_params)
        return await server.answer(request, lambda snapshot: tile(snapshot, place["z"], place["x"], place["y"], query))

    return [
        Route("/", home),
        Route("/health", health),
        Route("/openapi.json", interface),
        Route("/api", interface),
        Route("/tiles/{z:int}/{x:int}/{y:int}.mvt", vector_tile),
        *(Route(path, _endpoint(server, make)) for path, make in _PLAIN.items()),
        *(Route(f"/api/values{ending}", _values(server, form)) for ending, form in _FORMS.items()),
    ]


_PLAIN: Mapping[str, Make] = {
    MAP_DATA: lambda snapshot: Answer(snapshot.map_data, _BYTES),
    "/api/places": answers.places,
    "/api/slots": answers.slots,
}
_FORMS = {"": "json", ".csv": "csv", ".geojson": "geojson"}


def _endpoint(server: SnapshotServer, make: Make) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await server.answer(request, make)

    return answer


def _values(server: SnapshotServer, form: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        query = dict(request.query_params)
        return await server.answer(request, lambda snapshot: answers.values(snapshot, query, form))

    return answer
