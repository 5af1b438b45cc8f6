"""`spec new` takes for a vehicle what its rows, or the names of a folder's files, bear out, and nothing else."""

import json
import subprocess
import sys
from fractions import Fraction

import pytest
from google.transit import gtfs_realtime_pb2

from companions.city.tests.feeds import as_csv, drafted, rows
from hatstream_city.draft.draft import draft
from hatstream_city.draft.feed import feed_of
from hatstream_city.draft.files import NEIGHBOURS
from pipelines.account.guarantee import Loss, sentence
from pipelines.errors import InputError
from pipelines.specification import load
from tests.transforms.layouts.hostile_files import write_coded

NAMES = ["366", "9021", "B-7", "10", "11", "x y"]


def folder_of(path, files, names):
    """files: the rows of each file by its name; names: of the columns."""
    path.mkdir()
    for name, lines in files.items():
        as_csv(path / f"{name}.csv", names, lines)
    return path


def by_bus():
    """Rows without the bus, by another name for it."""
    buses = sorted({row[0] for row in rows()})
    return {name: [row[1:] for row in rows() if row[0] == bus] for name, bus in zip(NAMES, buses, strict=True)}


def columns_of(path, tmp_path):
    result, spec = drafted(path, tmp_path)
    return dict(spec.input.columns), result


def test_the_names_of_files_are_the_vehicles_where_each_is_of_one(tmp_path):
    columns, result = columns_of(folder_of(tmp_path / "feed", by_bus(), ("ts", "lat", "lon", "v")), tmp_path)
    assert columns["vehicle"] == "{file}"
    assert "each file is of one vehicle and named by it: check" in result.toml
    assert "vehicles = 6 " in result.toml
    assert any("Which files there are is public" in warning for warning in result.warnings)


@pytest.mark.parametrize("name", ["bus", "zone"])
def test_an_id_that_is_a_column_too_is_taken_as_a_column(name, tmp_path):
    files = {file: [(f"id {file}", *row) for row in lines] for file, lines in by_bus().items()}
    columns, _ = columns_of(folder_of(tmp_path / "feed", files, (name, "ts", "lat", "lon", "v")), tmp_path)
    assert columns["vehicle"] == name


def mixed():
    lines = sorted(row[1:] for row in rows())
    return {"north": lines[::2], "south": lines[1::2]}


def dated():
    return {f"2026-03-{day:02d}": lines for day, lines in enumerate(by_bus().values(), 1)}


def hourly():
    return {f"{name}_{half:02d}": lines[half::2] for name, lines in by_bus().items() for half in range(2)}


@pytest.mark.parametrize("files", [mixed, dated, hourly])
def test_files_of_several_vehicles_or_of_days_are_no_vehicles(files, tmp_path):
    feed = folder_of(tmp_path / "feed", files(), ("ts", "lat", "lon", "v"))
    result = draft(feed, adds_and_removes=True)
    assert result.is_open
    assert any("where each file is of one vehicle and named by it" in line for line in result.warnings)


def test_a_folder_of_snapshots_is_read_beyond_the_first(tmp_path):
    """Each holds every bus once, 20 s after the one before; one of them cannot be read."""
    times = sorted({row[1] for row in rows()})
    files = {f"snapshot {index:02d}": [row for row in rows() if row[1] == time] for index, time in enumerate(times)}
    folder = folder_of(tmp_path / "feed", files, ("bus", "ts", "lat", "lon", "v"))
    (folder / "snapshot 02.csv").write_bytes(b"\x00\x01")
    columns, result = columns_of(folder, tmp_path)
    assert columns["vehicle"] == "bus"
    assert f"{6 * (NEIGHBOURS - 1 + 5):,} rows looked at" in result.findings[0]
    assert not any("comes twice" in warning for warning in result.warnings)


def test_vehicles_that_lines_list_are_made_out_over_several_snapshots(tmp_path):
    """As SPTrans has them: no name tells the columns, and no vehicle comes twice in a snapshot."""
    (tmp_path / "feed").mkdir()
    for number, time in enumerate(sorted({row[1] for row in rows()})):
        buses = [{"p": row[0], "ta": row[1], "py": row[2], "px": row[3]} for row in rows() if row[1] == time]
        lines = [{"c": name, "vs": buses[start::2]} for start, name in enumerate(("875A", "6030"))]
        (tmp_path / "feed" / f"{1773118800 + 60 * number}.json").write_text(json.dumps({"hr": "6:00", "l": lines}))
    result = draft(tmp_path / "feed", adds_and_removes=True)
    assert 'records = "l[].vs"' in result.toml
    assert 'time = "ta", lat = "py", lon = "px"' in result.toml


@pytest.mark.parametrize(
    ("key_of", "vehicle"), [(lambda number, _: ("VP", "DUE")[number % 2], "veh"), (lambda _, row: row.pop("veh"), "*")]
)
def test_objects_of_lines_are_read_under_their_kind_or_vehicle(key_of, vehicle, tmp_path):
    named = [dict(zip(("veh", "tst", "lat", "long", "spd"), row, strict=True)) for row in rows()]
    lines = [json.dumps({key_of(number, row): row}) for number, row in enumerate(named)]
    (tmp_path / "feed.jsonl").write_text("\n".join(lines))
    columns, result = columns_of(tmp_path / "feed.jsonl", tmp_path)
    assert columns["vehicle"] == vehicle
    assert 'records = "*"' in result.toml


def test_a_time_of_0_is_none(tmp_path):
    """Protocol buffers may write it where no time was set."""
    message = gtfs_realtime_pb2.FeedMessage(header={"gtfs_realtime_version": "2.0", "timestamp": 1_778_650_200})
    for number, (bus, _, lat, lon, _kmh) in enumerate(by_time()):
        vehicle = message.entity.add(id=str(number)).vehicle
        vehicle.vehicle.id, vehicle.timestamp = bus, 0
        vehicle.position.latitude, vehicle.position.longitude = lat, lon
    (tmp_path / "feed.pb").write_bytes(message.SerializeToString())
    with pytest.raises(InputError, match="--header-time"):
        draft(tmp_path / "feed.pb", adds_and_removes=True)
    assert 'time = "header"' in draft(tmp_path / "feed.pb", adds_and_removes=True, header_time=True).toml


def test_files_of_one_vehicle_each_are_confirmed_where_driving_is_hidden(tmp_path, hatstream):
    """Which files there are is public, so presence is not hidden: init, sentence and report say so."""
    columns, result = columns_of(folder_of(tmp_path / "feed", by_bus(), ("ts", "lat", "lon", "v")), tmp_path)
    spec, place = tmp_path / "spec.toml", ["--ledger", tmp_path / "ledger.sqlite", "--json"]
    spec.write_text(result.toml)
    opening = ["init", "--spec", spec, *place, "--region-is-public"]
    code, _, err = hatstream(*opening)
    assert (columns["vehicle"], code, (tmp_path / "ledger.sqlite").exists()) == ("{file}", 2, False)
    assert "which files there are is public" in err
    assert hatstream(*opening, "--files-are-public")[0] == 0
    assert "Not protected: which input files there are" in sentence(load(spec), (), Fraction(0), Loss())
    page = tmp_path / "report.html"
    assert hatstream("report", "--spec", spec, *place, "--output", page)[0] == 0
    assert "but for what the names of input files show" in page.read_text()
    assert "Not protected: which input files there are" in page.read_text()


def by_time():
    """Reports as a feed has them: of all buses, one minute after the other."""
    return sorted(rows(), key=lambda row: row[1])


NOT_VEHICLES = {
    "row number": ("id", lambda number, _row: number),
    "row number of three files": ("id", lambda number, _row: number // 3),
    "flag": ("device", lambda number, _row: number % 2),
    "line that several vehicles serve": ("unit", lambda _at, row: int(row[0][-1]) // 3),
}


@pytest.mark.parametrize("kind", NOT_VEHICLES)
def test_a_column_of_a_vehicle_s_name_that_its_rows_do_not_bear_out_is_not_taken(kind, tmp_path):
    name, value = NOT_VEHICLES[kind]
    lines = [(value(number, row), *row) for number, row in enumerate(by_time())]
    path = as_csv(tmp_path / "f.csv", (name, "wagen", "t", "lat", "lon", "speed"), lines)
    columns, result = columns_of(path, tmp_path)
    assert columns["vehicle"] == "wagen"
    assert any("by values alone" in line and "vehicle" in line for line in result.warnings)


def test_a_column_that_is_the_only_one_and_doubtful_is_said_to_be_so(tmp_path):
    lines = [(number % 2, *row[1:]) for number, row in enumerate(by_time())]
    path = as_csv(tmp_path / "f.csv", ("vehicle", "t", "lat", "lon", "speed"), lines)
    columns, result = columns_of(path, tmp_path)
    assert columns["vehicle"] == "vehicle"
    assert any("Column vehicle looks like no vehicle" in line for line in result.warnings)
    plain = as_csv(tmp_path / "g.csv", ("vehicle", "t", "lat", "lon", "speed"), by_time())
    assert not any("looks like no" in line for line in drafted(plain, tmp_path)[0].warnings)


def test_of_two_times_the_one_that_changes_with_the_position_is_taken(tmp_path):
    lines, fix = [], {}
    for number, (bus, time, *columns) in enumerate(by_time()):
        if bus not in fix or number // 6 % 3 == 0:
            fix[bus] = (time, *columns)
        lines.append((bus, time, *fix[bus]))
    names = ("bus", "timestamp", "position_from", "lat", "lon", "speed")
    assert columns_of(as_csv(tmp_path / "f.csv", names, lines), tmp_path)[0]["time"] == "position_from"
    honest = [(bus, time, "2026-03-02T00:00:00-06:00", *columns) for bus, time, *columns in by_time()]
    assert columns_of(as_csv(tmp_path / "g.csv", names, honest), tmp_path)[0]["time"] == "timestamp"


BUFFERED = "2026-03-02T08:15:00-06:00"  # when a server received all reports

RIVALS = {  # names of columns, how a row's number and values become theirs, and some that a draft takes
    "rows and servers' times": (
        ("id", "deviceId", "serverTime", "fixTime", "lat", "lon", "speed"),
        lambda number, bus, time, *others: (number, bus, BUFFERED, time, *others),
        {"vehicle": "deviceId", "time": "fixTime"},
    ),
    "devices": (
        ("device_id", "vehicle_id", "time", "lat", "lon", "speed"),
        lambda _, bus, *others: (f"D{bus}", bus, *others),
        {"vehicle": "vehicle_id"},
    ),
    "stops": (
        ("bus", "time", "stop_lat", "stop_lon", "vehicle_lat", "vehicle_lon", "speed"),
        lambda _, bus, time, lat, lon, kmh: (bus, time, round(lat, 2), round(lon, 2), lat, lon, kmh),
        {"lat": "vehicle_lat", "lon": "vehicle_lon"},
    ),
    "a place that is known by rows alone": (
        ("bus", "time", "a_lat", "a_longitude", "here_lat", "here_lon", "speed"),
        lambda _, bus, time, lat, lon, kmh: (bus, time, 30.31, -97.71, lat, lon, kmh),
        {"lat": "here_lat", "lon": "here_lon"},
    ),
    "a limit": (
        ("bus", "time", "lat", "lon", "max_speed", "obd_speed_kmh"),
        lambda number, *row: (*row[:-1], 30 + number % 7, row[-1]),
        {"speed": "obd_speed_kmh"},
    ),
    "a speed of another thing": (
        ("bus", "time", "lat", "lon", "fan_speed", "obd_speed_kmh"),
        lambda number, *row: (*row[:-1], 30 + number % 7, row[-1]),
        {"speed": "obd_speed_kmh"},
    ),
}


@pytest.mark.parametrize("kind", RIVALS)
def test_of_rival_columns_the_one_that_agrees_with_the_motion_is_taken(kind, tmp_path):
    names, values, expected = RIVALS[kind]
    lines = [values(number, *row) for number, row in enumerate(by_time())]
    columns, _ = columns_of(as_csv(tmp_path / "f.csv", names, lines), tmp_path)
    assert columns.items() >= expected.items()


def test_an_id_of_one_row_each_is_no_vehicle_in_a_long_sample(tmp_path):
    names, lines = ("id", "deviceId", "received", "lat", "lon", "speed"), []
    for number, (bus, time, *others) in enumerate(sorted(rows(step_s=90), key=lambda row: row[1])):
        lines.append((number, bus, f"{time[:14]}{int(time[14:16]) // 20 * 20:02d}{time[16:]}", *others))
    assert columns_of(as_csv(tmp_path / "f.csv", names, lines), tmp_path)[0]["vehicle"] == "deviceId"


def test_the_profile_is_drafted_as_a_line_to_fill_in(tmp_path):
    path = as_csv(tmp_path / "f.csv", ("bus", "t", "lat", "lon", "speed"), by_time())
    assert "\n# profile = { hats = 70, cells = 12, " in drafted(path, tmp_path)[0].toml


def test_a_snapshot_s_vehicle_is_the_vehicle_s_id_and_not_the_message_s(tmp_path):
    entities = [
        {"id": str(number), "vehicle": {"vehicle": {"id": bus}, "timestamp": time,
         "position": {"latitude": lat, "longitude": lon, "speed": speed}}}
        for number, (bus, time, lat, lon, speed) in enumerate(by_time())
    ]  # fmt: skip
    buses = len({row[0] for row in rows()})
    for name, part in (("poll", entities[:buses]), ("polls", entities)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"header": {"timestamp": 1_772_459_000}, "entity": part}))
        columns, result = columns_of(path, tmp_path)
        assert columns["vehicle"] == "vehicle.vehicle.id"
        assert any("No id of column" in line for line in result.warnings) == (part is not entities)


# --- ids of twelve buses in two spellings: `spec new` and `--check-input` count them, or warn ------------------------


SPELLED_NAMES = ("vehicle", "time", "lat", "lon", "speed_kmh")
DAY = "2026-03-10"


def spelled_rows(spell):
    """Ten reports of each of twelve buses. spell: writes the id of a bus in the first and in the second half."""
    return [
        (spell(bus, step >= 5), f"{DAY}T10:{step:02d}:{bus:02d}+01:00", 53.55 + bus / 500, 10 + step * 0.003, 20 + bus)
        for step in range(10)
        for bus in range(12)
    ]


SPELLINGS = {
    "a blank after it": (lambda bus, late: f"bus-{bus}{' ' * late}", (12, 0, 0)),
    "a no-break space before it": (lambda bus, late: "\u00a0" * late + f"bus-{bus}", (12, 0, 0)),
    "as a float": (lambda bus, late: f"{100 + bus}{'.0' * late}", (24, 0, 12)),
    "zeros in front": (lambda bus, late: f"{'0' * late}{100 + bus}", (24, 0, 12)),
    "another case": (lambda bus, late: ("BUS-" if late else "bus-") + str(bus), (24, 12, 0)),
}


def checked(folder, hatstream, toml, path):
    (folder / "spec.toml").write_text(toml)
    options = ["--spec", folder / "spec.toml", "--input", path, "--from", DAY, "--to", DAY]
    options += ["--ledger", folder / "l.sqlite"]
    code, out, err = hatstream("release", *options, "--check-input", "--json")
    assert code == 0, err
    shown = hatstream("release", *options, "--check-input")[1]
    return tuple(json.loads(out)["operator_only"]["vehicle_ids"].values()), " ".join(shown.split())


@pytest.mark.few(2)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_ids_in_two_spellings_are_one_vehicle_or_there_is_a_warning(spelling, tmp_path, hatstream):
    spell, expected = SPELLINGS[spelling]
    path = as_csv(tmp_path / "feed.csv", SPELLED_NAMES, spelled_rows(spell))
    result = draft(path, adds_and_removes=True)
    forms = [form for form, number in zip(("casefold", "integer"), expected[1:], strict=True) if number]
    warned = [line for line in result.warnings if "vehicle ids differ" in line]
    assert (feed_of(path).counts.ids, len(warned)) == (expected, len(forms))
    counts, shown = checked(tmp_path, hatstream, result.toml, path)
    assert counts == expected
    assert ("12 of 24 vehicle ids differ" in shown) == bool(forms)
    for form in forms:
        assert form in warned[0]
        assert form in shown
        formed = result.toml.replace("[input]\n", f'[input]\nvehicle_form = "{form}"\n')
        assert checked(tmp_path, hatstream, formed, path)[0] == (12, 0, 0)


def test_ids_that_never_come_again_in_several_files_are_of_rows(tmp_path):
    for number in range(3):
        lines = [(f"R{number}-{step}", *others) for step, (_, *others) in enumerate(rows()[number::3])]
        as_csv(tmp_path / f"2026-03-0{number + 1}.csv", ("id", "time", "lat", "lon", "speed"), lines)
    assert 'vehicle = "?"' in draft(tmp_path, adds_and_removes=True).toml


@pytest.mark.parametrize(
    ("name", "steps", "fields"),
    [("vehicles", 1, 5), ("reports", 40, 5), ("reports", 1, 4)],
    ids=["named", "in motion", "with speeds"],
)
def test_of_several_arrays_that_of_vehicles_is_read(name, steps, fields, tmp_path):
    names, (_, now, lat, lon, kmh) = ("id", "time", "lat", "lon", "speed"), rows()[0]
    stops = [dict(zip(names[:fields], (f"S{n}", now, lat, lon - n / 500, kmh), strict=False)) for n in range(90)]
    vehicles = [dict(zip(names, row, strict=True)) for row in by_time()[: 6 * steps]]
    (tmp_path / "feed.json").write_text(json.dumps({"stops": 3 * stops, name: vehicles}))
    assert f'records = "{name}"' in draft(tmp_path / "feed.json", adds_and_removes=True).toml


def test_rows_without_a_plausible_time_are_said_and_make_no_id_doubtful(tmp_path):
    lines = [(bus, time if n % 6 else "1970-01-01T00:00:00Z", *others) for n, (bus, time, *others) in enumerate(rows())]
    path = as_csv(tmp_path / "feed.csv", ("vehicle", "time", "lat", "lon", "speed"), lines)
    warnings = " ".join(draft(path, adds_and_removes=True).warnings)
    assert "40 of 240 rows looked at have no time" in warnings
    assert "looks like no vehicle" not in warnings


@pytest.mark.parametrize(
    ("names", "east", "rule"),
    [
        (("vehicle", "time", "lat", "lon", "speed"), "", 'Values of "speed" are no speeds: write numbers from 0'),
        (("vehicle", "time", "lat", "place", "tempo"), "E", "Also no column of lon was made out"),
    ],
)
def test_why_no_speeds_are_read_is_said(names, east, rule, tmp_path):
    lines = [(*row[:3], f"{row[3]}{east}", f"{row[4]} km/h") for row in rows()]
    path = as_csv(tmp_path / "feed.csv", names, lines)
    with pytest.raises(InputError, match=f"no column of speeds. {rule}"):
        draft(path, adds_and_removes=False)


def test_types_that_are_keys_of_json_are_left_out_of_names(tmp_path):
    names = ("VehicleRef", "ts", "lat", "lon", "vel")
    lines = [
        ({"value": bus}, {"$date": time}, lat, lon, {"$numberDouble": str(kmh)}) for bus, time, lat, lon, kmh in rows()
    ]
    documents = [json.dumps(dict(zip(names, line, strict=True))) for line in lines]
    (tmp_path / "feed.jsonl").write_text("\n".join(documents))
    columns, _ = columns_of(tmp_path / "feed.jsonl", tmp_path)
    named = {"vehicle": "VehicleRef.value", "time": "ts.$date", "speed": "vel.$numberDouble"}
    assert columns.items() >= named.items()


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_avro_of_codecs_that_a_release_reads_is_drafted(codec, tmp_path):
    """In a process of its own, as a command: who has read Avro once can read all codecs."""
    names = ("vehicle", "ts", "lat", "lon", "speed")
    records = [dict(zip(names, row, strict=True)) for row in rows()]
    types = {name: "double" if isinstance(value, float) else "string" for name, value in records[0].items()}
    path = write_coded(tmp_path / "feed.avro", records, types, codec)
    command = ["-m", "hatstream", "spec", "new", "-q", "--sample", path, "--adjacency", "add-remove"]
    assert (
        'layout = "avro"' in subprocess.run([sys.executable, *command], check=True, capture_output=True).stdout.decode()
    )
