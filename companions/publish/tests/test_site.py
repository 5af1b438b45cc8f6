"""The static site: it grows with its results, is whole at every moment, and nothing that lies beside them stops it."""

import errno
import hashlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hatstream_publish.commands import following
from hatstream_publish.edition import formats, writing
from pipelines.cli import main
from tests import city
from tests.kit.static_server import served

TEXTS = ("--publisher", "City of Town", "--licence", "CC-BY-4.0", "--title", "Speeds of Town")
WAIT_S = 60.0


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The small city with a released day, to be copied."""
    folder = tmp_path_factory.mktemp("released")
    city.write(folder)
    assert [main(command) for command in (city.init(folder), city.release(folder, end=city.DAYS[0]))] == [0, 0]
    return folder


@pytest.fixture
def grown(tmp_path, released):
    """A released day, its slots aside, and an empty folder that they come into."""
    town = shutil.copytree(released, tmp_path, dirs_exist_ok=True)
    slots = sorted((town / "out").glob("hats-*.parquet"))
    assert len(slots) == 4
    (town / "results").mkdir()
    return town, slots


@pytest.fixture
def site(grown):
    return made(grown[0])


def made(town):
    """The site as `publish --follow` makes it; each is a process of its own."""
    from hatstream.api import load
    from hatstream_publish.commands.publish import site_of
    from pipelines.account import location

    path = town / "spec.toml"
    texts = dict.fromkeys(("title", "description", "tiles", "start", "end", "places_path", "ground_path"))
    texts |= {"publisher": "City of Town", "contact": "", "licence_name": "CC-BY-4.0", "url": "", "credit": ""}
    place = location.find(str(town / "ledger.sqlite"), None)
    return site_of(
        load(path), path, place, str(town / "results"), town / "public", texts | {"everything": False}, follows=True
    )


def come(town, path):
    shutil.copy(path, town / "results" / path.name)


def updated(site):
    return site.update() if site.files.look() else None


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def check_whole(folder):
    """Every file is what the checksums say, and the pointer names files that are there."""
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    latest = json.loads((folder / "latest.json").read_text())
    for name in ("map", "values", "days"):
        assert (folder / latest[name]).is_file()
    for day in json.loads((folder / latest["days"]).read_text())["days"]:
        for file in day["files"]:
            assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    return latest


def until(holds):
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_site_grows_slot_by_slot_and_rewrites_nothing_else(grown, site):
    town, slots = grown
    assert updated(site) is None
    for hour, slot in zip(("08", "09", "10"), slots, strict=False):
        come(town, slot)
        former = times(town / "public") if hour != "08" else {}
        changes = updated(site)
        latest = check_whole(town / "public")
        assert latest["slot"]["start"][11:13] == hour
        features = json.loads((town / "public" / latest["values"]).read_text())["features"]
        assert {feature["properties"]["slot_start"] for feature in features} == {latest["slot"]["start"]}
        assert features[0]["geometry"]["type"] == "Polygon"
        repeated = times(town / "public")
        rewritten = {str(path.relative_to(town / "public")) for path in former if former[path] != repeated.get(path)}
        assert rewritten <= set(changes.changed)
        assert not rewritten & {"specification.toml", "dictionary.csv", "map.html"}
    day = pq.read_table(town / "public/api/days/2022-01-01.parquet").to_pylist()
    assert {row["slot_start"][11:13] for row in day} == {"08", "09", "10"}
    values = json.loads((town / "public/api/days/2022-01-01.json").read_text())["values"]
    assert [row["value"] for row in values] == [row["value"] for row in day]
    assert not (town / "public" / "hats.csv").exists()  # which holds days that are over
    former = times(town / "public")
    assert updated(site) is None
    assert updated(made(town)).changed == []
    assert times(town / "public") == former


def test_tables_of_the_whole_range_hold_days_that_are_over(grown, site, hatstream):
    town, slots = grown
    for slot in slots:
        come(town, slot)
    updated(site)
    assert hatstream(*city.release(town, start=city.DAYS[1], end=city.DAYS[1]))[0] == 0
    come(town, min((town / "out").glob("hats-*-20220102*.parquet")))
    assert {"hats.csv", "hats.parquet", "api/days/2022-01-02.json"} <= set(updated(site).changed)
    assert {row["slot_start"][:10] for row in pq.read_table(town / "public/hats.parquet").to_pylist()} == {city.DAYS[0]}
    check_whole(town / "public")


def test_a_day_whose_update_failed_is_written_by_the_next_one(grown, site, monkeypatch):
    """Its file has as many bytes as before: only its digest tells that it is another."""
    town, slots = grown
    come(town, slots[0])
    updated(site)
    rows = pq.read_table(slots[0])
    reversed_values = pa.array(rows["value"].to_pylist()[::-1])
    column = rows.schema.get_field_index("value")
    pq.write_table(rows.set_column(column, rows.schema.field("value"), reversed_values), town / "results/late.parquet")
    (town / "results/late.parquet").replace(town / "results" / slots[0].name)

    def fail(_edition):
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as full:
        full.setattr(formats, "openapi", fail)
        with pytest.raises(OSError, match="full"):
            updated(site)
    site.update()
    check_whole(town / "public")


def spoil(town, slots):
    """Files that no edition can use, each with what is said of it."""
    results = town / "results"
    rows = pq.read_table(slots[1]).to_pylist()
    schema = pq.read_schema(slots[1])
    data = slots[1].read_bytes()
    (results / "corrupt.parquet").write_bytes(data[:100] + b"\0" * 50 + data[150:-60] + b"\xff" * 60)
    (results / "empty.parquet").write_bytes(b"")
    (results / "half.parquet").write_bytes(data[: len(data) // 2])
    (results / "odd.csv").write_text("slot_start,slot_end\nnoon,later\n")
    os.mkfifo(results / "pipe.parquet")
    (results / "dangling.parquet").symlink_to(town / "nowhere")
    others = {
        "no-time": [row | {"slot_start": "soon"} for row in rows],
        "no-offset": [row | {"slot_start": "2022-01-01T09:00:00"} for row in rows],
        "other": [row | {"spec_id": "0" * 16} for row in rows],
        "nowhere": [rows[0] | {"cell": "atlantis"}],
        "otherwise": [row | {"value": 1.25} for row in pq.read_table(slots[0]).to_pylist()],
    }
    for name, spoilt in others.items():
        pq.write_table(pa.Table.from_pylist(spoilt, schema=schema), results / f"{name}.parquet")
    return {path.name for path in results.iterdir() if path.name not in (slots[0].name,)}


def test_files_that_cannot_be_used_are_named_once_and_never_stop_it(grown, site, monkeypatch):
    town, slots = grown
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(following, "PAUSE_FACTOR", 0.0)
    sentences, stop = [], threading.Event()
    thread = threading.Thread(target=following.follow, args=(site, stop, sentences.append))
    thread.start()
    try:
        come(town, slots[0])
        until((town / "public" / "latest.json").exists)
        names = spoil(town, slots)
        until(lambda: not {name for name in names if not any(f"{name}:" in line for line in sentences)})
        come(town, slots[1])
        until(lambda: "T09" in (town / "public/latest.json").read_text())
        (town / "results" / "half.parquet").write_bytes(slots[2].read_bytes())
        until(lambda: "T10" in (town / "public/latest.json").read_text())
    finally:
        stop.set()
        thread.join(WAIT_S)
    assert not thread.is_alive()
    left_out = [line for line in sentences if line.startswith("left out")]
    assert len(left_out) == len(names), sentences
    check_whole(town / "public")
    public = b"".join(path.read_bytes() for path in (town / "public").rglob("*") if path.is_file())
    assert str(town).encode() not in public


def test_a_file_that_is_being_written_is_named_once_when_it_stays_as_it_is(monkeypatch):
    reasons = ["", "is empty", "is damaged", "is damaged", "is damaged", ""]
    looks = iter([*({"a": why} if why else {} for why in reasons), {"b": "no"}, {"b": "no"}])
    stop, sentences = threading.Event(), []
    files = SimpleNamespace(skipped={})

    def look():
        files.skipped = next(looks)
        if "b" in files.skipped:
            stop.set()
        return True

    files.look = look
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0.0)
    following.follow(SimpleNamespace(files=files, update=lambda: None, folder="public"), stop, sentences.append)
    assert sentences == ["left out: a: is damaged", "left out: b: no"]


def test_fuzzed_result_files_raise_nothing(grown, site):
    import random

    town, slots = grown
    come(town, slots[0])
    chance = random.Random(7)
    for number in range(60):
        source = chance.choice(sorted(path for path in (town / "out").glob("hats-*") if path.stat().st_size))
        content = bytearray(source.read_bytes())
        for _ in range(chance.randint(1, 20)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        (town / "results" / f"fuzzed-{number}{source.suffix}").write_bytes(content[: chance.randint(1, len(content))])
    site.files.look()
    assert site.update() is not None
    check_whole(town / "public")


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [1, 3, 9])
def test_a_full_disk_leaves_the_site_as_it_was_until_there_is_room(grown, site, monkeypatch, number):
    town, slots = grown
    come(town, slots[0])
    updated(site)
    former = times(town / "public")
    come(town, slots[1])
    writes, write_whole = [], writing.write_whole

    def full(path: Path, content: bytes, **options: object) -> None:
        writes.append(path)
        if len(writes) == number:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content, **options)

    monkeypatch.setattr(writing, "write_whole", full)
    site.files.look()
    with pytest.raises(OSError, match="No space"):
        site.update()
    assert times(town / "public") == former
    check_whole(town / "public")
    monkeypatch.undo()
    site.update()
    assert check_whole(town / "public")["slot"]["start"][11:13] == "09"


def test_killed_between_two_files_the_pointer_names_what_is_there(grown, site, monkeypatch):
    """A new process brings the rest; the first file says whose folder it is."""
    town, slots = grown
    come(town, slots[0])
    site.files.look()
    replace, written = os.replace, []

    class Killed(BaseException):
        pass

    def killed(source, target):
        if Path(target).is_relative_to(town / "public") and ".staging" not in str(target):
            written.append(target)
            if len(written) == 4:
                raise Killed
        replace(source, target)

    monkeypatch.setattr(writing.os, "replace", killed)
    with pytest.raises(Killed):
        site.update()
    monkeypatch.undo()
    assert not (town / "public" / "latest.json").exists()
    updated(made(town))
    check_whole(town / "public")


def test_two_that_keep_the_same_folder_current_do_not_meet(grown, site):
    from hatstream.api import InputError

    town, slots = grown
    come(town, slots[0])
    site.files.look()
    with writing.updating(town / "public", {}), pytest.raises(InputError, match="another process"):
        site.update()


def test_a_released_range_goes_to_the_site_that_publish_made(grown, hatstream):
    town, _ = grown
    account = ("--spec", town / "spec.toml", "--ledger", town / "ledger.sqlite")
    code, _, err = hatstream(*city.release(town, "--site", str(town / "public")))
    assert (code, "run it once" in err) == (1, True)
    code, out, err = hatstream("publish", *account, "--input", town / "out", *TEXTS, "--output", town / "public")
    assert code == 0, out + err
    code, _, err = hatstream(*city.release(town, "--site", str(town / "public")))
    assert code == 0, err
    assert check_whole(town / "public")["slot"]["start"][:10] == city.DAYS[1]
    assert json.loads((town / "public/latest.json").read_text())["title"] == "Speeds of Town"


def test_the_description_names_what_there_is(grown, site):
    town, slots = grown
    come(town, slots[0])
    updated(site)
    description = json.loads((town / "public/api/openapi.json").read_text())
    assert description["openapi"] == "3.1.0"
    for path, item in description["paths"].items():
        content = (town / "public" / path[1:].format(date=city.DAYS[0])).read_bytes()
        for media, body in item["get"]["responses"]["200"]["content"].items():
            if "json" in media:
                assert set(body["schema"]["required"]) <= json.loads(content).keys()


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(1280, 860), (390, 844)])
def test_the_map_of_a_site_shows_what_comes_and_the_first_page_leads_to_it(grown, site, size, page):
    town, slots = grown
    come(town, slots[0])
    updated(site)
    with served(town / "public") as address, page.screen(*size):
        page.open(f"{address}/map.html")
        assert "08:00 to 09:00" in page.one("#when").text
        come(town, slots[1])
        updated(site)
        page.driver.execute_script("clearTimeout(polling); follow();")
        page.wait(lambda: "09:00 to 10:00" in page.one("#when").text)
        assert page.complaints() == []
        page.open(f"{address}/")
        assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert (page.one("iframe").is_displayed()) == (size[0] > 760)
        for link in page.all("a"):
            target = link.get_attribute("href")
            assert not target.startswith(address) or (town / "public" / target[len(address) + 1 :]).is_file(), target
        assert page.complaints() == []


def test_a_range_is_asked_of_parquet_files_over_http(grown, site):
    duckdb = pytest.importorskip("duckdb")
    extension = pytest.importorskip("duckdb_ext").__path__[0]
    town, slots = grown
    for slot in slots:
        come(town, slot)
    updated(site)
    rows = pq.read_table(town / "public/api/days/2022-01-01.parquet").to_pylist()
    with served(town / "public") as address, duckdb.connect() as client:
        client.load_extension(str(next(Path(extension).rglob("httpfs.duckdb_extension"))))
        days = [f"{address}/api/days/{city.DAYS[0]}.parquet"]
        query = "SELECT cell, value FROM read_parquet(?) WHERE slot_start >= ? AND slot_start < ? ORDER BY ALL"
        result = client.execute(query, [days, "2022-01-01T09", "2022-01-01T11"]).fetchall()
    assert sorted(result) == sorted((row["cell"], row["value"]) for row in rows if row["slot_start"][11:13] in "09 10")
