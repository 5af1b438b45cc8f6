"""The read-only server: what it answers, that it follows its folder, and that nothing else is within its reach."""

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress

import mapbox_vector_tile
import pytest
import requests
import uvicorn

from hatstream_publish.commands.map import claim_of
from hatstream_publish.pages.map import MapTexts, Surroundings
from hatstream_publish.pages.places import NamedPlaces, Place
from hatstream_publish.serve import app as serving
from hatstream_publish.serve import connections
from hatstream_publish.serve.app import application
from hatstream_publish.serve.connections import BoundedConnection
from hatstream_publish.serve.snapshot import Follower
from tests import levels_city
from tests.browser import browser
from tests.kit.results import CELLS, PARENT, known_of, row, write

NAMED = NamedPlaces({CELLS[0]: Place(CELLS[0], "Market Square", "route 4")})
WAIT_S = 30.0


@contextmanager
def served(folder, around=None, slots=168):
    """The address of a server over a folder."""
    app = application(Follower(folder, around or Surroundings(NAMED), slots), MapTexts("Town", "Noise protects."))
    config = uvicorn.Config(app, port=0, log_level="error", http=BoundedConnection)
    listening, server = config.bind_socket(), uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def until(holds):
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(serving, "LOOK_EVERY_S", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """At 06:00 a value of each kind, at 07:00 live ones, at 08:00 forecasts."""
    made = tmp_path_factory.mktemp("out")
    settled = [row(CELLS[0], 6, 12.0), row(CELLS[1], 6, 30.0, status="unreliable"), row(CELLS[2], 6, None)]
    settled.append(known_of(row(CELLS[3], 6, 30.0), PARENT, 21.0))
    write(made / "hats-0-1.parquet", settled)
    write(made / "live-0-2.parquet", [row(CELLS[0], 7, 13.0) | {"mechanism": "levels-live"}])
    write(made / "hats-0-3.parquet", [row(CELLS[0], 8, 14.0, status="forecast")])
    return made


@pytest.fixture(scope="module")
def address(folder):
    with served(folder) as url:
        yield url


def test_values_are_those_that_may_be_used_unless_all_are_asked_for(address):
    asked = {"slot": "2026-05-13T06:00:00-06:00"}
    rows = requests.get(f"{address}/api/values", asked, timeout=9).json()["values"]
    assert [(row["cell"], row["value"], row["value_of"]) for row in rows] == [
        (CELLS[0], 12.0, "place"),
        (CELLS[3], 21.0, "area"),
    ]
    assert rows[0]["name"] == "Market Square"
    everything = requests.get(f"{address}/api/values", asked | {"all": "1"}, timeout=9).json()["values"]
    assert [row["status"] for row in everything] == ["ok", "unreliable", "no-data", "parent"]


def test_without_a_slot_the_newest_that_is_no_forecast_is_meant(address):
    rows = requests.get(f"{address}/api/values", timeout=9).json()["values"]
    assert [(row["slot_start"][11:13], row["value"]) for row in rows] == [("07", 13.0)]


@pytest.mark.parametrize(
    ("query", "hours"),
    [
        ({"from": "2026-05-13", "to": "2026-05-14"}, {"06", "07"}),
        ({"from": "2026-05-13T07:00"}, {"07"}),
        ({"to": "2026-05-13T13:00:00+00:00"}, {"06"}),
        ({"from": "2026-05-14"}, set()),
    ],
)
def test_ranges_are_local_or_carry_an_offset(address, query, hours):
    rows = requests.get(f"{address}/api/values", query, timeout=9).json()["values"]
    assert {row["slot_start"][11:13] for row in rows} == hours


def test_a_slot_is_found_whether_its_offset_is_encoded_or_not(tmp_path):
    east = {"slot_start": "2026-05-13T06:00:00+05:45", "slot_end": "2026-05-13T07:00:00+05:45"}
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0) | east])
    with served(tmp_path) as address:
        for plus in ("+", "%2B", "%20"):
            asked = f"{address}/api/values?slot={east['slot_start'].replace('+', plus)}"
            assert len(requests.get(asked, timeout=9).json()["values"]) == 1


def test_a_range_that_ends_before_it_begins_is_refused(address):
    told = requests.get(f"{address}/api/values", {"from": "2026-05-14", "to": "2026-05-13"}, timeout=9)
    assert (told.status_code, told.json()) == (400, {"error": "the range is empty: to is before from"})


def test_slots_say_what_they_hold(address):
    answer = requests.get(f"{address}/api/slots", timeout=9).json()
    assert [(slot["start"][11:13], slot["values"], slot["kind"]) for slot in answer["slots"]] == [
        ("06", 2, ""),
        ("07", 1, "live"),
        ("08", 0, "forecast"),
    ]
    assert answer["statistics"] == ["mean"]


def test_every_form_says_the_same(address):
    asked = {"from": "2026-05-13"}
    rows = requests.get(f"{address}/api/values", asked, timeout=9).json()["values"]
    lines = requests.get(f"{address}/api/values.csv", asked, timeout=9).text.splitlines()
    assert len(lines) == len(rows) + 1
    features = requests.get(f"{address}/api/values.geojson", asked, timeout=9).json()["features"]
    assert [feature["properties"] for feature in features] == rows
    assert {feature["geometry"]["type"] for feature in features} == {"Polygon"}
    places = requests.get(f"{address}/api/places", timeout=9).json()["places"]
    assert {place["id"] for place in places} == set(CELLS[:4])


def test_a_vector_tile_has_the_places_that_lie_in_it(address):
    lon, lat = -104.6, 50.45
    zoom = 9
    column = int((lon / 360 + 0.5) * 2**zoom)
    import math

    row_of = int((0.5 - math.log(math.tan(math.pi / 4 + math.radians(lat) / 2)) / (2 * math.pi)) * 2**zoom)
    asked = {"from": "2026-05-13", "to": "2026-05-14"}
    answer = requests.get(f"{address}/tiles/{zoom}/{column}/{row_of}.mvt", asked, timeout=9)
    layer = mapbox_vector_tile.decode(answer.content)["places"]
    assert {feature["properties"]["cell"] for feature in layer["features"]} == {CELLS[0], CELLS[3]}
    corners = [xy for feature in layer["features"] for xy in feature["geometry"]["coordinates"][0]]
    assert all(-500 <= number <= 4596 for xy in corners for number in xy)
    assert requests.get(f"{address}/tiles/{zoom}/{column + 9}/{row_of}.mvt", asked, timeout=9).content == b""


@pytest.mark.parametrize(
    "path",
    ["api/values?slot=noon", "api/values?from=x", "api/values?colour=red", "tiles/3/8/0.mvt", "tiles/40/0/0.mvt"],
)
def test_a_question_without_an_answer_is_400_with_a_sentence(address, path):
    answer = requests.get(f"{address}/{path}", timeout=9)
    assert (answer.status_code, len(answer.json()["error"]) > 10) == (400, True)


def test_what_a_client_has_is_not_sent_again_and_large_answers_are_packed(address):
    first = requests.get(f"{address}/api/places", timeout=9)
    assert first.headers["content-encoding"] == "gzip"
    again = requests.get(f"{address}/api/places", headers={"If-None-Match": first.headers["etag"]}, timeout=9)
    assert (again.status_code, again.content) == (304, b"")
    plain = requests.get(f"{address}/api/places", headers={"Accept-Encoding": "identity"}, timeout=9)
    assert "content-encoding" not in plain.headers
    assert plain.json() == first.json()


def test_nothing_but_reading_is_possible_and_no_other_file_can_be_asked_for(address, folder):
    (folder / "secret.txt").write_text("do not read")
    for path in ("secret.txt", "..%2f..%2fetc/passwd", "hats-0-1.parquet", "api/../secret.txt"):
        assert requests.get(f"{address}/{path}", timeout=9).status_code == 404
    for method in ("post", "put", "delete", "patch"):
        assert getattr(requests, method)(f"{address}/api/values", timeout=9).status_code == 405


def test_the_description_names_what_there_is(address):
    said = requests.get(f"{address}/openapi.json", timeout=9).json()
    assert said["openapi"].startswith("3.1")
    assert requests.get(f"{address}/api", timeout=9).json() == said
    for path in said["paths"]:
        asked = path.replace("{z}", "0").replace("{x}", "0").replace("{y}", "0")
        answer = requests.get(address + asked, timeout=9)
        contents = said["paths"][path]["get"]["responses"]["200"]["content"]
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] in contents


def test_the_server_follows_its_folder_and_the_map_with_it(tmp_path):
    write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
    with served(tmp_path) as address, browser() as page:
        page.open(f"{address}/")
        assert "06:00 to 07:00" in page.one("#when").text
        before = requests.get(f"{address}/api/slots", timeout=9)
        write(tmp_path / "hats-0-2.parquet", [row(CELLS[0], 7, 13.0)])
        until(lambda: len(requests.get(f"{address}/api/slots", timeout=9).json()["slots"]) == 2)
        tag = {"If-None-Match": before.headers["etag"]}
        assert requests.get(f"{address}/api/slots", headers=tag, timeout=9).status_code == 200
        page.wait(lambda: "07:00 to 08:00" in page.one("#when").text)
        assert page.complaints() == []


def test_a_page_that_is_opened_before_anything_is_published_says_so_and_shows_what_comes(tmp_path):
    with served(tmp_path) as address, browser() as page:
        page.driver.get(f"{address}/")
        page.wait(lambda: "Nothing is published yet" in page.one("#empty").text)
        write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
        page.wait(lambda: "06:00 to 07:00" in page.one("#when").text)
        page.wait(lambda: not page.one("#empty").is_displayed())


def test_health_tells_an_empty_folder_and_files_that_cannot_be_read(tmp_path):
    with served(tmp_path) as address:
        empty = requests.get(f"{address}/health", timeout=9)
        assert (empty.status_code, empty.json()["status"]) == (503, "nothing is published yet")
        assert requests.get(f"{address}/api/values", timeout=9).status_code == 503
        (tmp_path / "hats-0-0.csv").write_text("half a")
        write(tmp_path / "hats-0-1.parquet", [row(CELLS[0], 6, 12.0)])
        until(lambda: requests.get(f"{address}/health", timeout=9).status_code == 200)
        assert requests.get(f"{address}/health", timeout=9).json()["unreadable_files"] == ["hats-0-0.csv"]
        assert requests.get(f"{address}/api/values", timeout=9).json()["values"][0]["value"] == 12.0


def test_a_published_folder_is_served_as_it_was_published(tmp_path):
    from hatstream_publish.pages.rows import HATS, read_results
    from hatstream_publish.pages.usable import csv_bytes, published

    rows = [known_of(row(CELLS[0], 6, 30.0), PARENT, 21.0), known_of(row(CELLS[1], 6, 30.0), "day", 17.0)]
    rows.append(row(CELLS[2], 6, 12.0))
    table = published(read_results([write(tmp_path / "rows.parquet", rows)])[HATS], NAMED, everything=False)
    (tmp_path / "portal").mkdir()
    (tmp_path / "portal" / "hats.csv").write_bytes(csv_bytes(table))
    with served(tmp_path / "portal") as address:
        values = requests.get(f"{address}/api/values", timeout=9).json()["values"]
    keys = ("cell", "value", "value_of", "area", "status", "name")
    assert [{key: row[key] for key in keys} for row in values] == table.select(keys).to_pylist()


@pytest.mark.parametrize("name", ["town.key", "town.key.head", "ledger.sqlite", "deep/town.sqlite"])
def test_a_folder_with_a_key_or_a_ledger_is_refused(tmp_path, hatstream, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    code, _, err = hatstream("serve", "--output", tmp_path)
    assert (code, name.rpartition("/")[2] in err) == (4, True)


def test_a_taken_port_is_told(address, folder, hatstream):
    (folder / "secret.txt").unlink(missing_ok=True)
    code, _, err = hatstream("serve", "--output", folder, "--port", address.rpartition(":")[2])
    assert (code, "is it taken" in err) == (4, True)
    assert json.loads(requests.get(f"{address}/health", timeout=9).text)["status"] == "ok"


def test_a_page_tells_every_limit_of_an_account_of_which_the_specification_is_named(tmp_path):
    limits = "limits = [{ days = 1, epsilon = 2.64, delta = 1e-6 }, { days = 28, epsilon = 10, delta = 1e-6 }]"
    spec = tmp_path / "spec.toml"
    spec.write_text(levels_city.SPEC.replace("limit = 2.64", limits))
    said = claim_of(spec)
    assert said.startswith(claim_of(None))
    assert "epsilon at most 2.64 at delta 1e-06 in a day, 10 at delta 1e-06 in any 28 days" in said


ASKED = b"GET /api/slots HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize("before", [b"", ASKED + b"\r\n"], ids=["a first question", "a second one"])
@pytest.mark.parametrize("said", [b"", ASKED + b"X-Half: "], ids=["silent", "half"])
def test_who_never_ends_a_question_is_hung_up_on(said, before, folder, monkeypatch):
    """Else some hundred of them are all that the server ever hears. What drips does not put the end off."""
    monkeypatch.setattr(connections, "ASKED_S", 0.5)
    with served(folder) as address, connected(address) as connection:
        connection.sendall(before)
        if before:
            assert connection.recv(5) == b"HTTP/"
        connection.sendall(said)
        assert ended(connection, said)
        assert requests.get(f"{address}/api/slots", timeout=WAIT_S).status_code == 200


def test_who_reads_no_answer_is_hung_up_on(folder, monkeypatch):
    monkeypatch.setattr(connections, "ASKED_S", 0.5)
    monkeypatch.setattr(connections, "ANSWERED_S", 0.5)
    lost, was_lost = BoundedConnection.connection_lost, threading.Event()
    monkeypatch.setattr(BoundedConnection, "connection_lost", lambda *given: (was_lost.set(), lost(*given)))
    with served(folder) as address, connected(address) as connection:
        with suppress(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 200)  # more than is kept for one who reads none
        assert was_lost.wait(WAIT_S)


def connected(address):
    """Takes little that it has not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(WAIT_S)
    connection.connect(("127.0.0.1", int(address.rpartition(":")[2])))
    return connection


def ended(connection, drop):
    """Whether the other side ended it, while drops of a question still came."""
    until_s = time.monotonic() + WAIT_S
    connection.settimeout(0.05)
    while time.monotonic() < until_s:
        try:
            connection.sendall(drop[-1:])
            if not connection.recv(1 << 16):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False
