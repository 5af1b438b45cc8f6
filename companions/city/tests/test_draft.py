"""`hatstream spec new`: what it drafts from a sample loads, reads the sample, and warns where it guessed."""

import bz2
import errno
import gzip
import json
import lzma
import math
import os
import re
import sys
from datetime import datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from companions.city.tests.feeds import as_csv as written
from companions.city.tests.feeds import drafted, rows, taken
from hatstream_city.draft import files
from hatstream_city.draft.draft import draft
from hatstream_city.draft.notation import zones_at
from pipelines.errors import InputError, SpecificationError
from pipelines.plan.levels import worth_by_day
from pipelines.specification import load
from tests import city

NAMES = ("Vehicle_ID", "GPS Time", "Latitude", "Longitude", "speed")


def as_csv(path, lines, delimiter=",", header=True):
    return written(path, NAMES if header else (), lines, delimiter)


def in_form(form, folder, speed="speed"):
    """The sample in a file of that form. speed: the name of the last column."""
    records = [dict(zip(NAMES, row, strict=True)) for row in rows()]
    path = folder / f"sample.{form}"
    if form == "csv":
        return as_csv(path, rows())
    if form == "csv.gz":
        path.write_bytes(gzip.compress(as_csv(folder / "plain.csv", rows()).read_bytes()))
    elif form == "json":
        nested = [
            {"bus": {"id": bus}, "t": {"recordedAtTime": time}, "geo": {"coordinates": [lon, lat]}, speed: kmh}
            for bus, time, lat, lon, kmh in rows()
        ]
        path.write_text(json.dumps(nested, indent=2))
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, records)))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        named = [{name.replace(" ", "_"): value for name, value in record.items()} for record in records]
        types = {name: "double" if isinstance(value, float) else "string" for name, value in named[0].items()}
        fields = [{"name": name, "type": kind} for name, kind in types.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, named)
    return path


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["csv", "csv.gz", "json", "jsonl", "parquet", "avro"])
def test_a_feed_without_speeds_gets_limits_to_derive_them(form, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "NAMES", (*NAMES[:4], "occupancy"))
    path = in_form(form, tmp_path, speed="occupancy")
    result, spec = drafted(path, tmp_path)
    assert spec.input.derived is not None
    assert spec.input.derived.max_gap_s == 60, "at least twice the 20 s between reports"
    assert "no column of speeds" in "\n".join(result.findings)
    assert taken(spec, path) == len(rows())
    with pytest.raises(InputError, match="positions are public"):
        draft(path, adds_and_removes=False)


@pytest.mark.parametrize(("buses", "days"), [(100, [1]), (101, [1, 28])])
def test_a_fleet_that_is_large_enough_is_drafted_four_weeks_behind_one_total(buses, days, tmp_path):
    positions = [(f"B-{bus}", *row[1:]) for bus in range(buses) for row in rows()[: 2 if bus else 40]]
    draft_, spec = drafted(as_csv(tmp_path / "sample.csv", positions), tmp_path)
    assert [span.days for span in spec.account.limit.spans] == days
    assert ("A habit of a month is not protected" in draft_.toml) == (days == [1])
    assert spec.levels is not None
    assert (spec.levels.span is None) == (days == [1])
    if days == [1]:  # the lines of a month's limit, taken in
        month = draft_.toml.replace("limit = {", "# limit = {").replace("epsilon = 2.64  #", "# epsilon = 2.64  #")
        month = re.sub(r"^# (limits = \[|  \{ days|\]|epsilon = 10|span_days = 28)", r"\1", month, flags=re.MULTILINE)
        (tmp_path / "month.toml").write_text(month)
        assert [span.days for span in load(tmp_path / "month.toml").account.limit.spans] == [1, 28]
        day, limited = (worth_by_day(load(tmp_path / f"{name}.toml"))[28] for name in ("drafted", "month"))
        price = f"{100 * day[0]:.0f} -> {100 * limited[0]:.0f} and {day[1]:.1f} -> {limited[1]:.1f} on day 28."
        assert price in draft_.toml
        assert day[1] < limited[1]


def snapshot(form):
    """The sample's rows as all vehicles of one document; and the path of their array."""
    vehicles = [dict(zip(("id", "t", "lat", "lon", "speed"), row, strict=True)) for row in rows()]
    if form == "GTFS-realtime":
        entities = [
            {"id": str(number), "vehicle": {"vehicle": {"id": row["id"]}, "timestamp": row["t"],
             "position": {"latitude": row["lat"], "longitude": row["lon"], "speed": row["speed"]}}}
            for number, row in enumerate(vehicles)
        ]  # fmt: skip
        return {"header": {"gtfsRealtimeVersion": "2.0", "timestamp": "1772459000"}, "entity": entities}, "entity"
    if form == "GeoJSON":
        features = [
            {"type": "Feature", "geometry": {"type": "Point", "coordinates": [row["lon"], row["lat"]]},
             "properties": {"vehicle": row["id"], "time": row["t"], "speed": row["speed"]}}
            for row in vehicles
        ]  # fmt: skip
        return {"type": "FeatureCollection", "features": features}, "features"
    if form == "Swiftly":
        return {"success": True, "data": {"agencyKey": "x", "vehicles": vehicles}}, "data.vehicles"
    return {"result": vehicles}, "result"


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["GTFS-realtime", "GeoJSON", "Swiftly", "result"])
@pytest.mark.parametrize("in_lines", [False, True])
def test_of_a_snapshot_in_json_every_vehicle_is_read(form, in_lines, tmp_path):
    document, place = snapshot(form)
    path = tmp_path / "poll.json"
    other = json.dumps(document | {place.split(".")[0]: None}) if in_lines else ""
    path.write_text(f"{json.dumps(document)}\n{other}")
    draft_, spec = drafted(path, tmp_path)
    assert f'records = "{place}"' in draft_.toml
    assert spec.input.layout.records == place
    assert taken(spec, path) == len(rows())
    without = draft_.toml.replace(f'records = "{place}"', "")
    (tmp_path / "other.toml").write_text(without)
    assert load(tmp_path / "other.toml").spec_id != spec.spec_id


@pytest.mark.parametrize(
    ("per_mps", "unit"), [(1, "m/s"), (3.6, "km/h"), (2.237, "mph"), (1.944, "knots"), (100, "cm/s")]
)
def test_the_unit_of_speeds_is_told_by_the_distances_between_positions(per_mps, unit, tmp_path):
    draft_, spec = drafted(as_csv(tmp_path / "f.csv", rows(per_mps)), tmp_path)
    assert f'speed_unit = "{unit}"' in draft_.toml
    assert "by the distances" in draft_.toml
    assert spec.input.layout.units.value_per_unit == pytest.approx(3.6 / per_mps, rel=1e-3)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("%d.%m.%Y %H:%M:%S", "23.03.2026 08:05:00"),
        ("%m/%d/%Y %I:%M:%S %p", "03/23/2026 08:05:00 AM"),
        ("%d/%m/%Y %H:%M:%S", "23/03/2026 08:05:00"),
    ],
)
def test_dates_of_any_country_and_decimal_commas_are_found(form, written, tmp_path):
    lines = []
    for bus, time, lat, lon, kmh in rows():
        moment = datetime.fromisoformat(time).replace(day=23, tzinfo=None)
        lines.append((bus, moment.strftime(form), *(f"{number}".replace(".", ",") for number in (lat, lon, kmh))))
    path = as_csv(tmp_path / "f.csv", lines, ";")
    draft_, spec = drafted(path, tmp_path)
    assert f'time_format = "{form}"\n' in draft_.toml, written
    assert 'decimal = ","' in draft_.toml
    assert 'time_zone = "America/Chicago"' in draft_.toml
    assert taken(spec, path) == len(rows())


def test_days_and_months_that_cannot_be_told_apart_are_said(tmp_path):
    texts = [(bus, f"02/03/2026 {time[11:19]}", *others) for bus, time, *others in rows()]
    draft_, _ = drafted(as_csv(tmp_path / "f.csv", texts), tmp_path)
    assert 'time_format = "%m/%d/%Y %H:%M:%S"  # or "%d/%m/%Y %H:%M:%S"' in draft_.toml
    assert any("cannot be told apart" in line for line in draft_.warnings)


def test_a_field_that_cannot_be_made_out_is_named_with_what_was_looked_for(tmp_path):
    texts = [(bus, "yesterday", *others) for bus, _, *others in rows()]
    path = as_csv(tmp_path / "f.csv", texts)
    result = draft(path, adds_and_removes=True)
    sentence = "No column of time was made out. time: looked for ISO 8601"
    (warning,) = (line for line in result.warnings if sentence in line)
    assert "lat:" not in warning
    assert "yesterday" not in result.toml + warning
    (tmp_path / "drafted.toml").write_text(result.toml)
    with pytest.raises(SpecificationError, match=r"input\.columns\.time: left open by a draft"):
        load(tmp_path / "drafted.toml")
    (tmp_path / "drafted.toml").write_text(result.toml.replace('time = "?"', 'time = "when"'))
    assert load(tmp_path / "drafted.toml").input.columns["time"] == "when"


def test_without_positions_nothing_is_told_of_zones_or_speeds(tmp_path):
    lines = [(bus, time, "here", "there", speed) for bus, time, _, _, speed in rows()]
    result = draft(as_csv(tmp_path / "f.csv", lines), adds_and_removes=True)
    assert "where the sample lies" not in result.toml
    assert "fastest of a hundred" not in "".join((result.toml, *result.findings))


def test_of_one_name_for_several_columns_none_is_read_and_that_is_said(tmp_path):
    path = as_csv(tmp_path / "f.csv", [(*NAMES, "speed"), *((*row, 1) for row in rows())], header=False)
    warnings = draft(path, adds_and_removes=True).warnings
    assert any('Of one name for several columns none is read: "speed"' in line for line in warnings)


def test_a_ferry_is_at_sea_where_its_operator_says_so(tmp_path):
    lines = [(bus, time, 60 + 0.1 * lat, -20 - 0.1 * lon, speed) for bus, time, lat, lon, speed in rows()]
    path = as_csv(tmp_path / "f.csv", lines)
    with pytest.raises(InputError, match=r"most positions lie at sea .* of ferries say --at-sea"):
        draft(path, adds_and_removes=True)
    assert 'lat = "' in draft(path, adds_and_removes=True, at_sea=True).toml


@pytest.mark.parametrize(
    ("encoding", "rule"), [("utf-16", "the text is UTF-16: save it as UTF-8"), ("latin-1", "first line is not UTF-8")]
)
def test_letters_that_no_release_can_read_are_named(encoding, rule, tmp_path):
    path = as_csv(tmp_path / "f.csv", rows())
    path.write_bytes(path.read_text().replace("Longitude", "Länge").encode(encoding))
    with pytest.raises(InputError, match=rule):
        draft(path, adds_and_removes=True)


@pytest.mark.slow
def test_vehicles_and_cells_that_come_late_in_a_sample_are_counted(tmp_path, monkeypatch):
    """As of a file that is sorted by vehicle: the rows from which the columns are told are of two vehicles."""
    early = [row for row in rows() if row[0] in ("B-0", "B-1")] * 260
    late = [(bus, time, lat + 0.3, *columns) for bus, time, lat, *columns in rows()]
    assert len(early) > 20_000
    path = as_csv(tmp_path / "f.csv", early + late)
    of_early, of_all = (draft(sample, adds_and_removes=True) for sample in (as_csv(tmp_path / "e.csv", early), path))
    assert "vehicles = 2 " in of_early.toml
    assert "vehicles = 6 " in of_all.toml
    assert of_all.toml.count("ffffff") > of_early.toml.count("ffffff")
    warning = "Not all rows of the sample were looked at"
    assert not any(warning in line for line in of_all.warnings)
    monkeypatch.setattr(files, "MOST_ROWS", 20_000)
    assert any(warning in line for line in draft(path, adds_and_removes=True).warnings)


def test_a_tides_table_is_known_by_its_header_and_by_offsets_of_its_times(tmp_path):
    names = ("location_ping_id", "service_date", "event_timestamp", "vehicle_id", "latitude", "longitude", "speed")
    for offset, layout in (("-06:00", "tides"), ("", "csv")):
        lines = [(number, row[1][:10], row[1][:19] + offset, row[0], *row[2:]) for number, row in enumerate(rows(1))]
        path = written(tmp_path / f"{layout}.csv", names, lines)
        _, spec = drafted(path, tmp_path)
        assert spec.input.name == layout
        assert taken(spec, path) == len(rows())


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_and_no_header_are_found(delimiter, tmp_path):
    draft_, spec = drafted(as_csv(tmp_path / "f.csv", rows(), delimiter, header=False), tmp_path)
    table = json.loads(spec.text)["input"]
    assert table["delimiter"] == delimiter
    assert table["columns"] == {"vehicle": "1", "time": "2", "lat": "3", "lon": "4", "speed": "5"}
    assert any("by values alone" in line for line in draft_.warnings)


@pytest.mark.parametrize("by_lon", [False, True])
def test_which_of_two_numbers_is_the_latitude_is_told_by_where_land_is(by_lon, tmp_path):
    moved = [(bus, time, lat - 53.8, lon + 51.0, speed) for bus, time, lat, lon, speed in rows()]  # Sao Paulo
    lines = [(bus, time, lon, lat, speed) for bus, time, lat, lon, speed in moved] if by_lon else moved
    columns = json.loads(drafted(as_csv(tmp_path / "f.csv", lines, header=False), tmp_path)[1].text)["input"]["columns"]
    assert (columns["lat"], columns["lon"]) == (("4", "3") if by_lon else ("3", "4"))


@pytest.mark.parametrize("by_lat", [True, False])
@pytest.mark.parametrize("names", [("x", "y"), ("lon", "lat")])
def test_which_of_two_numbers_is_the_latitude_is_told_by_speeds(names, by_lat, tmp_path):
    """In Warsaw, which is on land if it is swapped; the circles of `rows` are wider in degrees there."""
    wider = math.cos(math.radians(30.3)) / math.cos(math.radians(52.3))
    places = [(lat + 22, (lon + 97.75) * wider + 21) for _, _, lat, lon, _ in rows()]
    lines = [(*row[:2], *(place if by_lat else place[::-1]), row[4]) for row, place in zip(rows(), places, strict=True)]
    path = as_csv(tmp_path / "f.csv", [("bus", "t", *names, "v"), *lines], header=False)
    result, spec = drafted(path, tmp_path)
    assert spec.input.columns["lat"] == ("x" if by_lat and "x" in names else names[1])
    assert any("swapped: check" in line for line in result.warnings) == (by_lat and "lat" in names)


def test_times_without_an_offset_get_a_zone_to_check(tmp_path):
    lines = [(bus, time.removesuffix("-06:00"), *columns) for bus, time, *columns in rows()]
    draft_, spec = drafted(as_csv(tmp_path / "f.csv", lines), tmp_path)
    assert 'time_zone = "America/Chicago"  # times have no offset' in draft_.toml
    assert spec.input.layout.units.zone == "America/Chicago"


def test_names_of_columns_may_be_of_another_language(tmp_path):
    names = {"vehicle": "Fahrzeug", "time": "Zeit", "lat": "Breite", "lon": "Länge", "speed": "v_kmh"}
    draft_, spec = drafted(written(tmp_path / "feed.csv", names.values(), rows(), ";"), tmp_path)
    assert dict(spec.input.columns) == names
    assert not any("by values alone" in line for line in draft_.warnings)
    assert any("speeds in km/h" in line for line in draft_.findings)


def test_the_time_zone_is_that_of_the_place_and_not_of_the_nearest_city():
    assert zones_at(28.6, 77.2) == ["Asia/Kolkata"]  # Delhi, though Kathmandu is nearer than Kolkata
    assert zones_at(48.1, 11.6) == ["Europe/Berlin"]
    assert zones_at(43.8, 87.6) == ["Asia/Shanghai", "Asia/Urumqi"]  # both clocks are in use


REPORTS = [dict(zip(NAMES, row, strict=True)) for row in rows()]
WITHOUT_NAMES = {
    "commas": [";".join(map(str, row)).replace(".", ",") for row in rows()],
    "signs": [f"{bus},{time},{lat}N,{-lon}W" for bus, time, lat, lon in (row[:4] for row in rows())],
    "letters": [f"{bus},Mon {time[:19]},N{lat},W{-lon}" for bus, time, lat, lon in (row[:4] for row in rows())],
    "topics": [f"/vp/{report[NAMES[0]]} {json.dumps(report)}" for report in REPORTS],
    "keys": [json.dumps({f"B-{bus}": REPORTS[40 * bus : 40 * bus + 40] for bus in range(3)})],
    "two keys": [json.dumps({f"B-{100 + bus}": {key: REPORTS[bus][key] for key in NAMES[1:]} for bus in range(2)})],
}


@pytest.mark.parametrize("form", [None, *WITHOUT_NAMES])
def test_no_message_shows_a_value_of_a_row(form, tmp_path):
    path = as_csv(tmp_path / "f.csv", rows())
    path.write_text("\n".join(WITHOUT_NAMES[form]) if form else path.read_text())
    try:
        result = draft(path, adds_and_removes=True)
        text = "\n".join([result.toml, *result.findings, *result.warnings])
    except InputError as error:
        text = str(error)
    for value in ("B-1", "B-0", "2026-03-02", "30.25", "30,25"):
        assert value not in text


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "it is empty"),
        *((content, "no CSV") for content in (b"hello\n", b"a,b\n1,2\n", b"\x00\x01\x02", b"PAR1", b"Obj\x01")),
        (
            b"bus,colour,doors,seats\n" + b"B1,red,3,40\nB2,blue,2,30\n" * 9,
            "no column of time and lat and lon was made",
        ),
        (b"{", "no single document"),
        (b'{"a": 1}\n', "no column of time"),
        *((content, "has no object") for content in (b"[]", b"[1,2]")),
        *((pack(b"a,b"), "its compression is not read") for pack in (bz2.compress, lzma.compress)),
        (b'<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/"/>', "save its sheet as"),
    ],
)
def test_what_is_no_feed_is_refused(content, rule, tmp_path):
    path = tmp_path / "sample"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rule):
        draft(path, adds_and_removes=True)


def test_a_draft_that_the_disk_had_no_room_for_leaves_nothing_in_the_way(tmp_path, hatstream, monkeypatch):
    def full(path, _content):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command = ["spec", "new", "--sample", city.write(tmp_path)[1], "--output", tmp_path / "new.toml"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        code, _, err = hatstream(*command)
    assert (code, err.splitlines()[-1]) == (4, f"hatstream: {tmp_path / 'new.toml'}: No space left on device")
    assert hatstream(*command)[0] == 0


def test_a_draft_is_written_once_and_checked(tmp_path, hatstream):
    sample = city.write(tmp_path)[1]
    code, out, err = hatstream("spec", "new", "--sample", sample, "--output", tmp_path / "new.toml")
    assert (code, out) == (0, "")
    assert "WARNING: The region" in err
    quiet = hatstream("--quiet", "spec", "new", "--sample", sample, "--output", tmp_path / "quiet.toml")[2]
    assert all(line.startswith("WARNING: ") for line in quiet.splitlines())
    assert hatstream("spec", "check", tmp_path / "new.toml")[0] == 0
    opening = ["init", "--spec", tmp_path / "new.toml", "--ledger", tmp_path / "ledger.sqlite"]
    code, _, err = hatstream(*opening)
    assert (code, (tmp_path / "ledger.sqlite").exists()) == (2, False)
    assert "the region was drafted from a sample of reports" in err
    assert hatstream(*opening, "--region-is-public")[0] == 0
    report = ["report", "--spec", tmp_path / "new.toml", *opening[3:], "--output", tmp_path / "report.html"]
    assert hatstream(*report)[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert "from a sample of reports: where these vehicles drove is not hidden" in page
    assert "Not protected: the region itself" in page
    assert hatstream("spec", "new", "--sample", sample, "--output", tmp_path / "new.toml")[0] == 1


def test_where_a_region_comes_from_decides_no_release_and_is_no_matter_where_driving_is_public(tmp_path, hatstream):
    draft_, spec = drafted(as_csv(tmp_path / "f.csv", rows()), tmp_path)
    copy = tmp_path / "other.toml"
    copy.write_text(draft_.toml.replace('region_source = "sample"', 'region_source = "timetable"'))
    assert (load(copy).spec_id, spec.region_tells, load(copy).region_tells) == (spec.spec_id, True, False)
    assert hatstream("init", "--spec", copy, "--ledger", tmp_path / "a.sqlite")[0] == 0
    public, _ = drafted(tmp_path / "f.csv", tmp_path, adds_and_removes=False)
    copy.write_text(public.toml.replace('region = "occupied"', 'region = "occupied"\nregion_source = "sample"'))
    assert hatstream("init", "--spec", copy, "--ledger", tmp_path / "b.sqlite")[0] == 0


@pytest.mark.parametrize(
    ("file", "layout"),
    [("capmetro/2016-11-24.csv", "capmetro"), ("surat/suratITMS.json", "iudx"), ("gtfs_rt/mbta.pb", "gtfs-realtime")],
)
def test_real_feeds_are_recognised(telemetry, file, layout, tmp_path):
    _, spec = drafted(telemetry / file, tmp_path)
    assert spec.input.name == layout
    assert len(spec.cells.region) > 40
