"""The published folder: usable values alone, each column described, records that agree with the files."""

import csv
import hashlib
import io
import json
import re
import shutil
import sqlite3
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
import shapely.geometry

from dpops.noise import Noise
from hatstream_publish.pages.places import NamedPlaces
from hatstream_publish.pages.rows import published
from pipelines.cli import main
from tests import city, levels_city
from tests.kit.results import CELLS, PARENT, WITH_PARENTS, known_of, row

SPEC = levels_city.SPEC.replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }").replace(
    "epsilon = 2.64\nper", "epsilon = 2.64\ndelta = 1e-6\nper"
)
TEXTS = ("--publisher", "City of Town", "--contact", "data@town.example", "--licence", "cc-by-4.0")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A city of which two days are released, with a forecast of the next."""
    folder = tmp_path_factory.mktemp("city")
    levels_city.write(folder, spec=SPEC + '[[output]]\nproduct = "city-hour"\n', lines=levels_city.rows(buses=20))
    again = ["estimate", *place(folder), "--from", "2022-01-01", "--to", "2022-01-02", "--output", folder / "whole"]
    again += ["--whole", "--forecast", 1]
    draws = np.random.default_rng(1)  # which noise holds a day of so few buses back is not tried here
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.releases.base.Noise", lambda: Noise(draws.bytes))
        for command in (city.init(folder), city.release(folder, end=levels_city.DAYS[1]), again):
            assert main(list(map(str, command))) == 0
    return folder


def place(folder):
    return ["--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite"]


@pytest.fixture(scope="module")
def edition(released, tmp_path_factory):
    """The city's folder with all its values, which tests only read."""
    folder = tmp_path_factory.mktemp("edition") / "portal"
    command = ["publish", *place(released), "--input", released / "whole/*.parquet", *TEXTS, "--all"]
    assert main([str(word) for word in (*command, "--output", folder)]) == 0
    return folder


@pytest.fixture
def publish(hatstream, tmp_path):
    def run(folder, *options, pattern="whole/*.parquet"):
        target = tmp_path / "portal"
        arguments = [*place(folder), "--input", folder / pattern, *TEXTS, *options, "--output", target]
        code, out, err = hatstream("publish", *arguments)
        return target, code, out + err

    return run


@pytest.fixture
def portal(publish, released):
    """Of the city with all its values: so few buses are held back."""
    return partial(publish, released, "--all")


def test_only_values_that_may_be_used_are_published(publish, town, hatstream):
    """HAT by HAT, of which some have no data."""
    assert hatstream(*city.release(town, end=city.DAYS[0]))[0] == 0
    rows = [row for path in (town / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    folder, code, output = publish(town, pattern="out/*.parquet")
    assert code == 0, output
    shown = pq.read_table(folder / "hats.parquet").to_pylist()
    usable = {(row["slot_start"], row["cell"], row["value"]) for row in rows if row["status"] == "ok"}
    assert {(row["slot_start"], row["cell"], row["value"]) for row in shown} == usable
    assert {row["status"] for row in shown} == {"ok"}
    assert "counts-public" in (folder / "privacy.json").read_text()


@pytest.mark.slow
def test_all_publishes_what_is_held_back_and_forecasts_with_their_status(portal):
    folder, code, output = portal()
    assert code == 0, output
    rows = pq.read_table(folder / "hats.parquet").to_pylist()
    days = pq.read_table(folder / "days.parquet").to_pylist()
    coming = {row["status"] for row in days if row["slot_start"].startswith(levels_city.DAYS[2])}
    assert coming & {"forecast", "held-back"}, "of so few buses noise decides which"
    assert "ok" not in coming
    assert {row["slot_start"][:10] for row in (*rows, *days)} == set(levels_city.DAYS)
    assert (folder / "city-hour.csv").exists()


def test_a_city_of_which_nothing_is_known_publishes_nothing(publish, released):
    (first, *_) = (released / "whole").glob("hats-*.parquet")
    rows = [row | {"status": "unreliable"} for row in pq.read_table(first).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(first)), released / "unknown.parquet")
    folder, code, output = publish(released, pattern="unknown.parquet")
    assert (code, "What helps: more days" in output) == (4, True), output
    assert not folder.exists()


def test_every_record_agrees_with_the_files(portal):
    folder, code, output = portal("--url", "https://data.town.example/speeds")
    assert code == 0, output
    package = json.loads((folder / "datapackage.json").read_text())
    for resource in package["resources"]:
        content = (folder / resource["path"]).read_bytes()
        if "hash" in resource:
            digest = hashlib.sha256(content).hexdigest()
            assert (resource["bytes"], resource["hash"]) == (len(content), f"sha256:{digest}")
        if "schema" in resource:
            file, is_csv = io.BytesIO(content), resource["format"] == "csv"
            names = next(csv.reader([file.readline().decode()])) if is_csv else pq.read_schema(file).names
            assert names == [field["name"] for field in resource["schema"]["fields"]]
    assert {resource["format"] for resource in package["resources"] if "schema" in resource} == {"csv", "parquet"}
    assert package["licenses"][0]["name"] == "CC-BY-4.0"
    dcat = json.loads((folder / "dcat.jsonld").read_text())
    paths = {part["dcat:downloadURL"]["@id"] for part in dcat["dcat:distribution"]}
    assert paths == {f"https://data.town.example/speeds/{resource['path']}" for resource in package["resources"]}
    eu = "http://publications.europa.eu/resource/authority"
    asked = {"title", "description", "publisher", "license", "accessRights", "language", "temporal", "spatial"}
    assert {f"dct:{name}" for name in asked} | {"dcat:contactPoint", "dcat:theme", "dcat:landingPage"} <= dcat.keys()
    assert dcat["dcat:temporalResolution"]["@value"] == "PT60M"
    formats = {part["dcat:downloadURL"]["@id"].rpartition(".")[2]: part for part in dcat["dcat:distribution"]}
    assert formats["csv"]["dct:format"] == {"@id": f"{eu}/file-type/CSV"}
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert {*sums, "SHA256SUMS"} == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())


def test_the_first_page_names_days_for_an_hour_s_values_do_not_tell_that_anything_drove(portal):
    folder, code, said = portal(pattern="out/*.parquet")
    assert code == 0, said
    text = (folder / "index.html").read_text()
    assert "<p>Newest day: 2022-01-02.<br>First day: 2022-01-01.</p>" in text


def test_the_publisher_is_the_specifications_controller_where_none_is_named(released, tmp_path, hatstream):
    spec = (released / "spec.toml").read_text()
    spec = spec.replace("minutes = 60", 'minutes = 60\ntrips = "hours.csv"')
    (tmp_path / "hours.csv").write_text("cell,weekdays,hours\n8742d9d6bffffff,sat sun,8 9\n")
    named = f'{spec}\n[publisher]\ncontroller = "Transport of Town"\ncontact = "a@b.example"\n'
    (tmp_path / "named.toml").write_text(named)
    asked = ["publish", "--ledger", released / "ledger.sqlite", "--input", released / "whole" / "*.parquet", "--all"]
    asked += ["--licence", "cc0-1.0", "--output", tmp_path / "portal", "--description", "Ours.", "--spec"]
    code, _, err = hatstream(*asked, released / "spec.toml")
    assert (code, "publisher.controller" in err) == (1, True)
    assert hatstream(*asked, tmp_path / "named.toml")[0] == 0
    dcat = json.loads((tmp_path / "portal" / "dcat.jsonld").read_text())
    assert dcat["dct:description"] == "Ours. Hours in which the timetable has no trip of a place have no row."
    assert (tmp_path / "portal" / "trips.csv").read_bytes() == (tmp_path / "hours.csv").read_bytes()
    assert dcat["dct:publisher"]["foaf:name"] == dcat["dcat:contactPoint"]["vcard:fn"] == "Transport of Town"
    assert dcat["dcat:contactPoint"]["vcard:hasEmail"] == {"@id": "mailto:a@b.example"}


def test_every_column_of_every_table_is_described_in_the_dictionary_and_in_the_file(edition):
    entries = csv.DictReader(io.StringIO((edition / "dictionary.csv").read_text()))
    described = {(entry["table"], entry["column"]) for entry in entries}
    for path in edition.glob("*.parquet"):
        schema = pq.read_schema(path)
        assert all(field.metadata and field.metadata[b"description"] for field in schema)
        assert {(path.stem, name) for name in schema.names if not re.search("_at$|^geometry$", name)} <= described
    value = pq.read_schema(edition / "hats.parquet").field("value").metadata[b"description"].decode()
    assert "n^0.75" in value  # which mean it is


def test_geoparquet_says_where_places_are(edition):
    table = pq.read_table(edition / "hats.parquet")
    geo = json.loads(table.schema.metadata[b"geo"])
    assert geo["columns"]["geometry"]["geometry_types"] == ["Polygon"]
    west, south, east, north = geo["columns"]["geometry"]["bbox"]
    assert west < 72.83 < east
    assert south < 21.17 < north
    assert table["geometry"][0].as_py()[:5] == b"\x01\x03\x00\x00\x00"
    assert table.schema.field("slot_start_at").type == pa.timestamp("us", "Asia/Kolkata")


def test_the_card_tells_the_promise_and_what_days_cost_together(edition):
    card = json.loads((edition / "privacy.json").read_text())
    assert [(cost["days"], cost["epsilon"]) for cost in card["cost_of_days"]] == [(1, 2.64), (7, 7.89), (30, 18.96)]
    assert (card["epsilon"], card["delta"], card["adjacency"]) == (pytest.approx(2.64), 1e-6, "add-remove")
    assert card["chance_beyond_epsilon"] == pytest.approx(2.07e-6, rel=1e-2)
    text = (edition / "privacy.html").read_text()
    assert "that it drove at all" in text
    assert "18.96" in text
    assert "93.34\u00a0%" in text


def test_provenance_names_the_newest_release_and_no_number_that_audit_events_move(edition, portal, released, hatstream):
    former = json.loads((edition / "provenance.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", former["ledger"]["newest_release"])
    (released / "other.csv").write_text(city.HEADER + "".join(levels_city.rows(buses=21)))
    again = city.release(released, end=levels_city.DAYS[1])
    again[again.index("--input") + 1] = released / "other.csv"
    hatstream(*again)
    latter = json.loads((portal()[0] / "provenance.json").read_text())
    assert latter["ledger"] == former["ledger"]
    assert "entries" not in json.dumps(latter)


def test_a_ledger_that_is_not_whole_publishes_nothing(released, tmp_path, publish):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in released.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    with sqlite3.connect(copy / "ledger.sqlite") as db:
        db.execute("update entry set period = '2022-01-09' where seq = (select max(seq) from entry)")
    shutil.copytree(released / "whole", copy / "whole")
    folder, code, output = publish(copy, "--all")
    assert code == 4, output
    assert not folder.exists()


def test_a_folder_of_something_else_is_left_alone_and_an_older_edition_is_replaced(portal, tmp_path):
    (tmp_path / "portal").mkdir()
    (tmp_path / "portal" / "notes.txt").write_text("mine")
    _, code, output = portal()
    assert (code, "holds files that `publish` did not write" in output) == (1, True)
    assert (tmp_path / "portal" / "notes.txt").read_text() == "mine"
    (tmp_path / "portal" / "notes.txt").unlink()
    assert portal()[1] == 0
    folder, code, _ = portal("--from", "2022-01-02", "--to", "2022-01-02")
    assert code == 0
    days = {row["slot_start"][:10] for row in pq.read_table(folder / "hats.parquet").to_pylist()}
    assert days == {"2022-01-02"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".portal.json", "portal"]


def test_what_only_the_area_tells_is_published_as_the_area_s():
    rows = [known_of(row(CELLS[0], 6, 30.0), PARENT, 21.0)]
    rows += [row(CELLS[2], 6, 12.0), row(CELLS[3], 6, 9.0, status="unreliable"), row(CELLS[4], 6, None)]
    table = pa.Table.from_pylist(rows, schema=WITH_PARENTS)
    output = published(table, NamedPlaces(), everything=False).to_pylist()
    assert [(row["value"], row["lower95"], row["value_of"], row["area"]) for row in output] == [
        (21.0, 17.0, "area", PARENT),
        (12.0, 7.0, "place", None),
    ]
    all_rows = published(table, NamedPlaces(), everything=True).to_pylist()
    assert [row["own_value"] for row in all_rows] == [30.0, 12.0, 9.0, None]


STREETS = {
    "First": {"type": "LineString", "coordinates": [[72.83, 21.165, 7.5], [72.83, 21.176, 8.0]]},
    "Square": {
        "type": "MultiPolygon",
        "coordinates": [[[[72.828, 21.188], [72.832, 21.188], [72.832, 21.192], [72.828, 21.188]]]],
    },
}


@pytest.mark.slow
def test_geoparquet_has_the_lines_and_polygons_of_the_specifications_file(publish, tmp_path):
    features = [{"type": "Feature", "properties": {"name": name}, "geometry": STREETS[name]} for name in STREETS]
    spec = SPEC + '[places]\nfile = "streets.geojson"\n[[output]]\nproduct = "place-standing"\n'
    levels_city.write(tmp_path, spec=spec, lines=levels_city.rows(levels_city.DAYS[:1], buses=20))
    (tmp_path / "streets.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    for command in (city.init(tmp_path), city.release(tmp_path, end=levels_city.DAYS[0])):
        assert main(list(map(str, command))) == 0
    folder, code, output = publish(tmp_path, "--all", pattern="out/*.parquet")
    assert code == 0, output
    table = pq.read_table(folder / "place-standing.parquet")
    assert set(table["place"].to_pylist()) == set(STREETS)
    geo = json.loads(table.schema.metadata[b"geo"])["columns"]["geometry"]
    assert geo["geometry_types"] == ["LineString", "MultiPolygon"]
    assert geo["bbox"] == [72.828, 21.165, 72.832, 21.192]
    drawn = dict(zip(table["place"].to_pylist(), table["geometry"].to_pylist(), strict=True))
    for name, geometry in STREETS.items():
        assert shapely.from_wkb(drawn[name]).equals(shapely.force_2d(shapely.geometry.shape(geometry)))
    listed = json.loads((folder / "places.geojson").read_text())["features"]
    assert set(STREETS) <= {feature["id"] for feature in listed}
