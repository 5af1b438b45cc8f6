"""`spec new` of MDS and of feeds that are written in another way: a release reads its draft, or it says why not."""

import csv
import json
import re
import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from companions.city.tests.feeds import as_csv, rows, taken
from companions.city.tests.feeds import drafted as draft_of
from hatstream_city.draft.draft import Draft, draft
from pipelines.errors import InputError, SpecificationError
from pipelines.inputs import input_paths
from pipelines.specification import load
from tests.kit import feeds
from transforms.layouts.decoder_process import read_apart
from transforms.observe.parse import parse
from transforms.time.calendar import Where

NAMES = ("vehicle", "time", "lat", "lon", "speed")


def drafted(lines, folder, names=NAMES, delimiter=","):
    """The specification that is drafted from these rows, and how many of them a release would take."""
    sample = as_csv(folder / "feed.csv", names, lines, delimiter)
    _, spec = draft_of(sample, folder)
    return spec, taken(spec, sample)


def moved(degrees):
    return [(bus, time, lat, lon + degrees, speed) for bus, time, lat, lon, speed in rows()]


def test_longitudes_from_0_to_360_are_those_of_the_same_places(tmp_path):
    spec, names = drafted(moved(360), tmp_path)
    assert (spec.cells, spec.timetable.zone, names) == (drafted(rows(), tmp_path)[0].cells, "America/Chicago", 240)


def test_a_town_on_both_sides_of_the_date_line_lies_on_neither_other_side_of_the_earth(tmp_path):
    east = [(bus, time, lat - 47.05, lon + 277.7, speed) for bus, time, lat, lon, speed in rows()[:120]]
    west = [(f"W{bus}", time, lat, lon - 359.9, speed) for bus, time, lat, lon, speed in east]
    assert drafted(east + west, tmp_path)[0].timetable.zone == "Pacific/Fiji"


def test_devices_that_do_not_know_where_they_are_do_not_hide_the_columns_of_positions(tmp_path):
    lost = [(bus, time, 91, 181, speed) for bus, time, _, _, speed in rows()[::9]]
    spec, names = drafted(lost + rows(), tmp_path)
    assert (spec.cells, names) == (drafted(rows(), tmp_path)[0].cells, 240)


LINES = [",".join(map(str, row)) for row in (NAMES, *rows())]
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in rows()]


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (["# exported", "", *LINES], "the header is in line 2, blank lines aside: remove the lines above it"),
        ([LINES[0], *(f"{line}," for line in LINES[1:])], "the first line has not as many fields as most others"),
        (
            [json.dumps(RECORDS[row : row + 6]) for row in range(0, 240, 6)],
            "write one object a line, or one array of all",
        ),
        ([json.dumps({"vehicles": RECORDS}, indent=1)] * 2, "write one object a line, or one array of all"),
    ],
    ids=["title", "commas", "arrays", "documents"],
)
def test_a_file_that_no_release_reads_is_refused_with_its_reason(tmp_path, lines, rule):
    (tmp_path / "feed.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match=rule):
        draft(tmp_path / "feed.txt", adds_and_removes=True)


def test_lines_that_a_release_refuses_are_said(tmp_path):
    (tmp_path / "feed.csv").write_text("\n".join([f"{LINES[0]},note", *(f'{line},"a\nb"' for line in LINES[1:4])]))
    with (tmp_path / "feed.csv").open("a") as file:
        file.writelines(f"\n{line}," for line in LINES[4:])
    (warning,) = (line for line in draft(tmp_path / "feed.csv", adds_and_removes=True).warnings if "malformed" in line)
    assert "6 of the first rows are malformed" in warning
    assert "no line break between quotes" in warning


@pytest.mark.parametrize("text", ["read me\n", "\n".join([LINES[0].upper(), *LINES[1:]])])
@pytest.mark.parametrize("pack", [None, "zip"])
def test_files_for_which_a_release_refuses_the_others_are_named(tmp_path, text, pack):
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "a.csv").write_text("\n".join(LINES))
    (feed / "b.csv").write_text(text)
    path = feed if pack is None else Path(shutil.make_archive(str(feed), pack, feed))
    warnings = draft(path, adds_and_removes=True).warnings
    assert any(f"for 1 of them: {path}/b.csv: column 'vehicle' is missing" in line for line in warnings)


ELSEWHERE = {f"PLATE{number}": {"seen": record["time"]} for number, record in enumerate(RECORDS[:30])}


@pytest.mark.parametrize(
    ("documents", "sentence"),
    [
        ([{"vehicle.id": record["vehicle"], **record} | {"vehicle": None} for record in RECORDS], "0% of its first"),
        ([{f"PLATE{bus}": {"t": n, "x": 1}} for n in range(30) for bus in range(3)], None),
        ([ELSEWHERE], None),
    ],
    ids=["dots", "ids", "elsewhere"],
)
def test_keys_of_json_that_no_release_follows_are_refused_and_not_shown(tmp_path, documents, sentence):
    (tmp_path / "feed.json").write_text("\n".join(map(json.dumps, documents)))
    if sentence is None:
        drafted = draft(tmp_path / "feed.json", adds_and_removes=True)
        assert drafted.is_open
        assert "PLATE" not in "".join((drafted.toml, *drafted.findings, *drafted.warnings))
        return
    with pytest.raises(InputError, match=sentence) as refused:
        draft(tmp_path / "feed.json", adds_and_removes=True)
    assert "PLATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "per_mps", "sentence"),
    [("speed", 1000, "10 times"), ("speed_mps", 3.6, "3.6 times"), ("kmh", 1, "0.28 times"), ("speed_kmh", 3.6, None)],
)
def test_speeds_that_do_not_fit_the_ways_between_positions_are_warned_of(tmp_path, name, per_mps, sentence):
    path = as_csv(tmp_path / "feed.csv", (*NAMES[:4], name), rows(per_mps))
    warnings = draft(path, adds_and_removes=True).warnings
    warned = [line for line in warnings if "times what the ways between positions take" in line]
    assert [sentence in line for line in warned] == ([] if sentence is None else [True])


def test_of_a_snapshot_all_speeds_of_0_are_said(tmp_path):
    lines = [(f"V{number}", *row[1:4], 0) for number, row in enumerate(rows()[:25])]
    warnings = draft(as_csv(tmp_path / "feed.csv", NAMES, lines), adds_and_removes=True).warnings
    assert any("All speeds are 0" in line for line in warnings)


@pytest.mark.parametrize(
    ("date_form", "clock_form", "written"),
    [
        ("%Y%m%d", "%-H%M%S", "%Y%m%d %H%M%S"),
        ("%Y-%m-%d 00:00:00", "1899-12-30 %H:%M:%S", "%Y-%m-%d 00:00:00 1899-12-30 %H:%M:%S"),
        ("%m/%d/%Y 12:00:00 AM", "12/30/1899 %I:%M:%S %p", "%m/%d/%Y 12:00:00 AM 12/30/1899 %I:%M:%S %p"),
        ("%Y-%m-%dT00:00:00", None, "%Y-%m-%dT00:00:00 %s"),
        ("%Y%m%d", None, "%Y%m%d %s"),
    ],
)
def test_dates_and_clocks_as_databases_write_them_are_paired(date_form, clock_form, written, tmp_path):
    """clock_form: None for seconds after midnight."""
    lines = []
    for bus, time, *others in rows():
        moment = datetime.fromisoformat(time).replace(day=23)
        seconds = moment.hour * 3_600 + moment.minute * 60 + moment.second
        clock = moment.strftime(clock_form) if clock_form else seconds
        lines.append((bus, moment.strftime(date_form), clock, *others))
    spec, read = drafted(lines, tmp_path, ("vehicle", "date", "time", "lat", "lon", "speed"))
    assert (spec.input.columns["time"], spec.input.layout.units.time_format.text) == (["date", "time"], written)
    assert read == len(lines)


@pytest.mark.parametrize(
    ("form", "written"), [("%y-%m-%d", ["%y-%m-%d", "%d-%m-%y"]), ("%d-%m-%y", ["%d-%m-%y", "%y-%m-%d"]), ("%Y%j", [])]
)
def test_years_of_two_digits_and_days_of_a_year_are_no_other_parts_of_dates(form, written, tmp_path):
    lines = []
    for bus, time, *others in rows():
        moment = datetime.fromisoformat(time).replace(day=14 + int(bus[-1]), month=3)
        lines.append((bus, moment.strftime(f"{form} %H:%M:%S"), *others))
    result = draft(as_csv(tmp_path / "feed.csv", NAMES, lines), adds_and_removes=True)
    assert re.findall(r'"(%.*?) %H:%M:%S"', result.toml) == written
    assert any("cannot be told apart" in line for line in result.warnings) == bool(written)


def test_days_since_1900_may_have_a_decimal_comma(tmp_path):
    lines = []
    for bus, time, *others in rows():
        moment = datetime.fromisoformat(time).replace(tzinfo=None)
        day = (moment - datetime(1899, 12, 30)).total_seconds() / 86_400
        lines.append([bus, *(f"{number:.7f}".replace(".", ",") for number in (day, *others))])
    spec, read = drafted(lines, tmp_path, delimiter=";")
    assert (spec.input.layout.units.time_unit, read) == ("excel", len(lines))


def test_two_units_that_fit_speeds_are_both_named(tmp_path):
    drafted(rows(2.09), tmp_path)
    assert re.search(r"\((mph|knots) would fit as well: check it\)", (tmp_path / "drafted.toml").read_text())


def test_local_timestamps_get_a_zone_to_check(tmp_path):
    lines = [(bus, datetime.fromisoformat(time[:19]), *others) for bus, time, *others in rows()]
    path = tmp_path / "feed.parquet"
    pq.write_table(pa.table(dict(zip(NAMES, map(list, zip(*lines, strict=True)), strict=True))), path)
    result, spec = draft_of(path, tmp_path)
    assert 'time_zone = "America/Chicago"  # times have no offset' in result.toml
    assert taken(spec, path) == 240


PROVIDER = "2411d395-04f2-47c9-ab66-d09e9e3c3251"
BODIES = {
    "an agency's array": lambda rows: rows,
    "a provider's document": lambda rows: {"version": "2.0.0", "last_updated": 1, "ttl": 60, "telemetry": rows},
    "a document around data": lambda rows: {"version": "2.0.0", "data": {"telemetry": rows}, "links": {"next": None}},
}


def drafted_mds(document, folder):
    """The draft of a file with this JSON, its specification, and how many rows a release would take."""
    path = folder / "sample.json"
    path.write_text(json.dumps(document))
    result, spec = draft_of(path, folder)
    return result, spec, taken(spec, path)


def telemetry(speeds=True):
    """The circles of buses as telemetry."""
    for bus, time, lat, lon, kmh in rows():
        place = {"lat": lat, "lng": lon} | ({"speed": kmh / 3.6} if speeds else {})
        time_ms = round(datetime.fromisoformat(time).timestamp() * 1000)
        ids = {"provider_id": PROVIDER, "device_id": bus, "telemetry_id": f"{bus}{time_ms}"}
        yield ids | {"timestamp": time_ms, "location": place}


@pytest.mark.few(2)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("speeds", [True, False])
def test_a_draft_knows_mds_and_reads_the_sample(body, speeds, tmp_path):
    result, _, number = drafted_mds(BODIES[body](list(telemetry(speeds))), tmp_path)
    assert 'layout = "mds"\n' in result.toml
    assert "columns" not in result.toml
    assert ("derived_speed" in result.toml) is not speeds
    assert number == len(rows())


def test_an_agency_of_mds_1_is_drafted_with_its_own_columns(tmp_path):
    body = [{"gps" if name == "location" else name: value for name, value in row.items()} for row in telemetry()]
    result, spec, number = drafted_mds({"provider_id": PROVIDER, "data": body}, tmp_path)
    assert 'records = "data"' in result.toml
    assert (spec.input.columns["lat"], number) == ("gps.lat", len(rows()))


HEADED = ["N" if step % 2 else "S" for step in range(240)]


@pytest.mark.parametrize(("name", "letters"), [("direction", HEADED), ("depot", ["S"] * 240), ("lat_ref", ["S"] * 240)])
def test_a_hemisphere_has_the_name_of_one(name, letters, tmp_path):
    lines = [(*row, letter) for row, letter in zip(rows(), letters, strict=True)]
    spec, _ = drafted(lines, tmp_path, (*NAMES, name))
    assert spec.input.columns["lat"] == (["lat", name] if name == "lat_ref" else "lat")


def test_hours_are_no_clock_and_a_name_may_say_utc(tmp_path):
    lines = [(bus, time[:10], time[11:13], time[11:19], *others) for bus, time, *others in rows()]
    spec, _ = drafted(lines, tmp_path, ("vehicle", "date", "hour", "time", "lat", "lon", "speed"))
    assert spec.input.columns["time"] == ["date", "time"]
    lines = [(bus, time[:19], *others) for bus, time, *others in rows()]
    assert drafted(lines, tmp_path)[0].input.layout.units.zone == "America/Chicago"
    spec, _ = drafted(lines, tmp_path, ("vehicle", "time_utc", *NAMES[2:]))
    assert spec.input.layout.units.zone == "Etc/UTC"


# --- feeds as agencies have them: a draft reads each as what it is, or says what somebody has to do ------------------


FOLDER = Path(__file__).parents[4] / "shared" / "data" / "feeds_that_fail"


class AnyTime:
    """A calendar without an end, all of it one slot."""

    def locate(self, event_us):
        zeros, always = np.zeros(event_us.size, np.int64), np.ones(event_us.size, np.bool_)
        return Where(zeros, zeros, always, always, ("",))


def taken_of(drafted: Draft, path: Path, folder: Path):
    """What a release takes of a feed by its draft: vehicles, rows without duplicates, and their mean in km/h."""
    spec_path = folder / "drafted.toml"
    spec_path.write_text(drafted.toml)
    spec = load(spec_path)
    rules = spec.rules(AnyTime(), b"key")
    batches = (batch for file in input_paths(str(path)) for batch in read_apart(spec.input.layout, file))
    parts = [parse(batch.table, rules)[0] for batch in batches]
    names = ("vehicle", "event_us", "value")
    vehicle, time, value = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    rows = np.unique(np.stack([vehicle, time]), axis=1).shape[1]
    mean = float(value.mean() * float(spec.value.grid.step)) if value.size else 0.0
    return np.unique(vehicle).size, rows, mean


def read(path, folder):
    drafted = draft(path, adds_and_removes=True)
    return drafted, *taken_of(drafted, path, folder)


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        pytest.param(kind, layout, marks=[pytest.mark.slow] * (index % len(layouts) != number % len(layouts)))
        for number, (kind, (layouts, _)) in enumerate(feeds.KINDS.items())
        for index, layout in enumerate(layouts)
    ],
)
def test_a_feed_of_each_kind_is_read_as_what_it_is(kind, layout, tmp_path):
    feed = feeds.made(kind, layout, tmp_path)
    if feed.refused:
        with pytest.raises(InputError, match=feed.refused):
            draft(feed.path, adds_and_removes=True)
        return
    drafted, vehicles, rows, kmh = read(feed.path, tmp_path)
    assert (vehicles, rows) == (feed.vehicles, feed.rows), drafted.toml
    assert kmh == pytest.approx(feed.kmh, rel=0.01), drafted.toml
    assert feed.warned is None or any(feed.warned in line for line in drafted.warnings), drafted.warnings


@pytest.mark.parametrize("layout", feeds.OWN)
def test_the_time_of_a_header_is_taken_when_it_is_asked_for(layout, tmp_path):
    path = feeds.made("header time alone", layout, tmp_path).path
    drafted = draft(path, adds_and_removes=True, header_time=True)
    assert taken_of(drafted, path, tmp_path)[0] == feeds.BUSES


def test_a_vehicle_that_is_a_guess_is_left_open_and_no_command_takes_it(tmp_path):
    path = tmp_path / "feed.csv"
    rows = enumerate(feeds.reports())
    lines = [f"{row['time'].isoformat()},{row['lat']},{row['lon'] + 0.00012},{n % 2},{n}" for n, row in rows]
    path.write_text("\n".join(lines) + "\n")
    drafted = draft(path, adds_and_removes=True)
    assert drafted.is_open
    (tmp_path / "drafted.toml").write_text(drafted.toml)
    with pytest.raises(SpecificationError, match=r"columns\.vehicle: left open"):
        load(tmp_path / "drafted.toml")


def test_without_a_header_the_last_column_left_is_the_vehicle_and_no_speed(tmp_path):
    path = tmp_path / "feed.txt"
    lines = [f"{r['vehicle'][4:]},{r['time']:%Y-%m-%d %H:%M:%S},{r['lon'] + 1e-4},{r['lat']}" for r in feeds.reports()]
    path.write_text("\n".join(lines) + "\n")
    drafted = draft(path, adds_and_removes=True)
    assert drafted.is_open
    assert "derived_speed" in drafted.toml


def test_an_operator_is_told_what_is_strange_in_speeds(tmp_path, hatstream):
    feed = feeds.made("speeds of 0", "csv", tmp_path)
    spec = tmp_path / "drafted.toml"
    spec.write_text(draft(feed.path, adds_and_removes=False).toml)
    arguments = ("release", "--spec", spec, "--input", feed.path, "--from", "2026-03-10", "--to", "2026-03-10")
    code, out, _ = hatstream(*arguments, "--check-input", "--ledger", tmp_path / "ledger.sqlite", "--json")
    assert code == 0
    assert '"standing":' in out
    assert '"standing":0' not in out


# --- inputs of others, which may be no part of the project ----------------------------------------------------------


RIGHT = {  # of those that are not read whole without a word
    "c_idfloat.csv": {"warned": 'vehicle_form = "integer"'},
    "c_nulls.csv": {"rows": 10},
    "rt_deleted2.pb": {"rows": 80},
    "rt_dup_two_places.pb": {"rows": 120},
    "rt_kmh.pb": {"kmh": pytest.approx(24.5, abs=0.1)},
    "rt_no_ts.pb": {"refused": "--header-time"},
    "rt_speed_minus1.pb": {"warned": "input.no_value"},
    "rt_zero_speed.pb": {"warned": "Speeds are 0 where vehicles move"},
    "t_hm.csv": {"not warned": "looks like no vehicle|check their unit"},
}


def _expected():
    if not (FOLDER / "EXPECTED.tsv").is_file():
        return []
    with (FOLDER / "EXPECTED.tsv").open() as file:
        return [row["file"] for row in csv.DictReader(file, delimiter="\t") if not row["file"].endswith(".toml")]


@pytest.mark.slow  # the kinds above are made after them
@pytest.mark.parametrize("name", _expected())
def test_inputs_that_failed_are_read(name, tmp_path):
    right = RIGHT.get(name, {"vehicles": 12, "rows": 120})
    if "refused" in right:
        with pytest.raises(InputError, match=right["refused"]):
            draft(FOLDER / name, adds_and_removes=True)
        return
    drafted, vehicles, rows, kmh = read(FOLDER / name, tmp_path)
    warnings = "\n".join(drafted.warnings)
    assert right.items() <= (right | {"vehicles": vehicles, "rows": rows, "kmh": kmh}).items()
    assert right.get("warned", "") in warnings
    assert "not warned" not in right or not re.search(right["not warned"], warnings)
