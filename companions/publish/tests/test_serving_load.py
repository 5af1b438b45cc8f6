"""Many who ask at once: what is made once, what never waits, and what stays while a folder changes."""

import asyncio
import json
import math
import socket

import mapbox_vector_tile
import pytest
from starlette.requests import Request

from hatstream_publish.commands.serve import _listening
from hatstream_publish.pages.map import MapTexts, Surroundings
from hatstream_publish.pages.places import NamedPlaces, Place, read_places
from hatstream_publish.serve.answers import Answer, BadQuery
from hatstream_publish.serve.app import SnapshotServer
from hatstream_publish.serve.snapshot import Follower
from hatstream_publish.serve.tiles import tile
from tests.kit.results import CELLS, row, write


def looking(folder, around=None):
    server = SnapshotServer(Follower(folder, around or Surroundings(), 168), MapTexts("Town", ""))
    server.look()
    return server


def asking(path="/api/values", query=""):
    return Request({"type": "http", "path": path, "query_string": query.encode(), "headers": [], "method": "GET"})


def test_what_many_ask_for_at_once_is_made_once(tmp_path):
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
    server, made = looking(tmp_path), []

    def make(snapshot):
        made.append(snapshot)
        return Answer(b"x" * 2_000, "text/plain")

    async def ask():
        together = await asyncio.gather(*(server.answer(asking(), make) for _ in range(50)))
        return [*together, await server.answer(asking(), make)]

    assert {answer.body for answer in asyncio.run(ask())} == {b"x" * 2_000}
    assert len(made) == 1


def test_a_question_without_an_answer_is_told_to_all_who_asked_and_not_kept(tmp_path):
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
    server = looking(tmp_path)

    def refuse(_snapshot):
        raise BadQuery("there is no such slot")

    async def ask():
        refused = await asyncio.gather(*(server.answer(asking(), refuse) for _ in range(3)))
        return [*refused, await server.answer(asking(), lambda _: Answer(b"now", "text/plain"))]

    assert [answer.status_code for answer in asyncio.run(ask())] == [400, 400, 400, 200]


def test_a_fault_stays_until_it_is_mended_and_what_was_there_answers_meanwhile(tmp_path):
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
    server = looking(tmp_path)
    before = server.snapshot
    write(tmp_path / "hats-1-1.parquet", [row(CELLS[0], 6, 13.0)])
    for _ in range(3):
        server.look()
        assert "different values" in server.fault
        assert (server.health()[0], server.snapshot) == (503, before)
    (tmp_path / "hats-1-1.parquet").unlink()
    server.look()
    assert server.health()[0] == 200


def test_what_no_map_can_show_takes_nobodys_place(tmp_path):
    write(tmp_path / "hats-0-1.parquet", [row("High Street", 6, 12.0)])
    server = looking(tmp_path)
    assert "'High Street' is no H3 cell" in server.health()[1]["status"]
    answer = asyncio.run(server.answer(asking(), lambda _: Answer(b"", "text/plain")))
    assert (answer.status_code, b"High Street" in answer.body) == (503, True)


def test_no_part_of_an_answer_waits_for_the_clients_word_that_the_first_came():
    with _listening("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with socket.create_connection(listening.getsockname()) as _, listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("way", [1, -1])
def test_a_tile_keeps_the_hole_of_a_place_however_its_rings_are_wound(tmp_path, way):
    zoom, column, row_of = 12, 858, 1378
    corners = [_lonlat(zoom, column + x, row_of + y) for x, y in ((0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9))]
    inner = [_lonlat(zoom, column + x, row_of + y) for x, y in ((0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6))]
    rings = [[*ring, ring[0]][::way] for ring in (corners, inner)]
    path = tmp_path / "places.geojson"
    path.write_text(_feature(rings))
    write(tmp_path / "hats-0-1.parquet", [row("square", 6, 12.0)])
    snapshot = looking(tmp_path, Surroundings(read_places(path))).snapshot
    layer = mapbox_vector_tile.decode(tile(snapshot, zoom, column, row_of, {}).content)["places"]
    (feature,) = layer["features"]
    assert feature["geometry"]["type"] == "Polygon"
    assert [_bounds(ring) for ring in feature["geometry"]["coordinates"]] == [
        (410, 410, 3686, 3686),
        (1638, 1638, 2458, 2458),
    ]


def test_a_place_of_a_tile_lies_where_it_lay_before(tmp_path):
    """By the formula for one position, which the columns of the server must agree with."""
    named = Surroundings(NamedPlaces({CELLS[0]: Place(CELLS[0], "Market Square")}))
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
    snapshot = looking(tmp_path, named).snapshot
    for (lon, lat), (x, y) in zip(
        snapshot.places[CELLS[0]].shape.parts[0], snapshot.on_square[CELLS[0]].exterior.coords, strict=True
    ):
        assert x == pytest.approx(lon / 360 + 0.5, abs=1e-12)
        assert y == pytest.approx(0.5 + math.asinh(math.tan(math.radians(lat))) / (2 * math.pi), abs=1e-12)


def _lonlat(zoom, x, y):
    lat = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * y / 2**zoom))))
    return [x / 2**zoom * 360 - 180, lat]


def _feature(rings):
    geometry = {"type": "Polygon", "coordinates": rings}
    feature = {"type": "Feature", "properties": {"place": "square", "name": "Square"}, "geometry": geometry}
    return json.dumps({"type": "FeatureCollection", "features": [feature]})


def _bounds(ring):
    xs, ys = zip(*ring, strict=True)
    return min(xs), min(ys), max(xs), max(ys)
