"""A known plate, known positions and speeds go in by every door; no output channel may show them."""

import json
import os
import sys
from contextlib import suppress

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import cli
from pipelines.cli import main, run
from tests import city
from tests.faults.processes import captured

PLATE = "KA01CANARY4711"
INJECTIONS = [
    "=cmd|' /C calc'!A0",
    "'; DROP TABLE entry; --",
    "line\nbreak",
    "\x1b[31mred\x1b[0m",
    "../../etc/passwd",
    "{{7*7}}",
]
SECRETS = [PLATE, "CANARY", "DROP TABLE", "=cmd", "\x1b[31m", "passwd", "21.1704711", "72.8304711", "37.4711"]
ROWS = 10_000
BAD = [
    {"ts": "37.4711"},
    {"ts": "9999-01-01T00:00:00Z"},
    {"lat": 91.1704711},
    {"lon": float("inf")},
    {"v": None},
    {"lat": 0.0, "lon": 0.0},
    {"ts": "2022-01-05T00:00:00+05:30"},
]


def records():
    rows = []
    for i in range(ROWS):
        row = {
            "bus": PLATE if i % 3 else INJECTIONS[i % len(INJECTIONS)] + PLATE,
            "ts": f"2022-01-01T08:{i // 60 % 60:02d}:{i % 60:02d}+05:30",
            "lat": 21.1704711,
            "lon": 72.8304711,
            "v": 37.4711,
        }
        rows.append(row | (BAD[i % len(BAD)] if i % 5 == 0 else {}))
    return rows


def write_csv(path):
    lines = ["bus,ts,lat,lon,v\n"]
    for r in records():
        bus = '"' + r["bus"].replace('"', '""') + '"' if "\n" not in r["bus"] else r["bus"]
        lines.append(f"{bus},{r['ts']},{r['lat']},{r['lon']},{r['v']}\n")
    path.write_text("".join(lines))


def write_jsonl(path):
    path.write_text("".join(json.dumps(r) + "\n" for r in records()) + '{"bus":"' + PLATE + '","ts":[21.1704711]}\n')


def write_parquet(path):
    pq.write_table(pa.Table.from_pylist(records()), path)


def write_avro(path):
    kinds = {"bus": "string", "ts": "string", "lat": "double", "lon": "double", "v": ["null", "double"]}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "R", "fields": fields}), records())


WRITERS = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet, "avro": write_avro}


def assert_clean(what: str, content: bytes) -> None:
    for secret in SECRETS:
        assert secret.encode() not in content, f"{what} shows {secret!r}"


@pytest.mark.few(2)
@pytest.mark.parametrize("layout", WRITERS)
def test_a_known_plate_appears_in_no_output_log_ledger_or_file_name(tmp_path, capfd, caplog, layout):
    feed = tmp_path / f"feed.{layout}"
    WRITERS[layout](feed)
    (tmp_path / "spec.toml").write_text(city.SPEC.replace('layout = "csv"', f'layout = "{layout}"'))
    run = city.release(tmp_path, end=city.DAYS[0], feed=feed.name)
    assert main(city.init(tmp_path)) == 0
    assert main(run) == 0
    assert main([*run, "--json"]) == 0
    assert main(["ledger", "show", "--ledger", str(tmp_path / "ledger.sqlite")]) == 0
    shown = capfd.readouterr()
    assert_clean("standard output", shown.out.encode())
    assert_clean("standard error", shown.err.encode())
    assert_clean("the log", caplog.text.encode())
    for path in tmp_path.rglob("*"):
        if path != feed and path.is_file():
            assert_clean(path.name, path.name.encode() + path.read_bytes())


def _run(arguments):
    sys.argv = ["hatstream", *arguments]
    cli.run()


DAMAGED = {
    "csv": PLATE.encode() + b",37.4711,21.1704711\n",
    "jsonl": b"\x80" + PLATE.encode() + b"\n",
    "parquet": b"PAR1" + PLATE.encode() * 9 + b"PAR1",
    "avro": b"Obj\x01" + PLATE.encode() * 9,
    "gtfs-realtime": b"\x0a\xff" + PLATE.encode() * 9,
    "iudx": b'[{"license_plate": "' + PLATE.encode(),
}


@pytest.mark.few(8)  # all under a debugger, two without
@pytest.mark.parametrize("layout", DAMAGED)
@pytest.mark.parametrize("debug", [True, False])
def test_a_damaged_file_shows_nothing_of_itself_even_to_a_debugger(tmp_path, layout, debug):
    feed = tmp_path / "feed.bin"
    feed.write_bytes(DAMAGED[layout])
    spec = city.SPEC.replace('layout = "csv"', f'layout = "{layout}"')
    if layout in ("gtfs-realtime", "iudx"):
        spec = spec[: spec.index("columns")]
    (tmp_path / "spec.toml").write_text(spec)
    assert main(city.init(tmp_path)) == 0
    done = captured(_run, city.release(tmp_path, feed=feed.name), environment={"HATSTREAM_DEBUG": "1"} if debug else {})
    assert done.code in (0, 4)
    assert_clean("standard output", done.out)
    assert_clean("standard error", done.err)


def test_the_canary_would_be_seen_if_it_leaked():
    with pytest.raises(AssertionError):
        assert_clean("a leak", f"refused row of {PLATE}".encode())


# --- strange input is refused in words that show nothing of it ---


DEEP = 100_000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "small-city"', 'name = "a\\u001b[2Jb"', "name must be at most 200 printable letters"),
        ('name = "small-city"', f'name = "{"x" * 5_000}"', "name must be at most 200 printable letters"),
        ('name = "small"', 'name = "\\r"', "account.name must"),
        ("limit = 50", "limit = 1" + "0" * 400, "between 1e-30 and 1e30"),
        ("limit = 50", "limit = 1" + "0" * 5_000, "a number of more than 4,300 digits"),
        ("limit = 50", "limit = 1e400", "between 1e-30 and 1e30"),
        ("minutes = 60", "minutes = 1" + "0" * 3_000, "slot.minutes"),
        ('name = "small-city"', "name = " + "[" * DEEP + "]" * DEEP, "nested too deeply"),
        ('name = "small-city"', "a" + ".a" * DEEP + " = 1", "nested too deeply"),
        ("[account]", "['a'" + '."b"' * 1_000 + "]", "nested too deeply"),
        ('lat = "lat"', 'lat = "v"', "columns.lat: needs a column of its own, 'v' is given twice"),
        ('region = "occupied"', 'region = "pipe"', "is not a regular file"),
        ('region = "occupied"', 'region = "/dev/zero"', "is not a regular file"),
        ('region = "occupied"', 'region = "deep.json"', "nested"),
        ('region = "occupied"', 'region = "world.json"', "at most 20,000,000"),
    ],
)
def test_a_strange_specification_is_refused_by_field_rule_and_shortened_value(tmp_path, hatstream, old, new, said):
    os.mkfifo(tmp_path / "pipe")
    deep = '{"type":"Feature","geometry":' * DEEP + "null" + "}" * DEEP
    (tmp_path / "deep.json").write_text(deep)
    ring = "[[-170,-80],[170,-80],[170,80],[-170,80],[-170,-80]]"
    (tmp_path / "world.json").write_text(f'{{"type":"Polygon","coordinates":[{ring}]}}')
    city.write(tmp_path, spec=city.SPEC.replace(old, new, 1))
    err = city.refused(hatstream, *city.init(tmp_path), code=2)
    assert said in err
    assert len(err) < 800
    assert "\x1b" not in err
    assert not list(tmp_path.glob("ledger*"))


@pytest.mark.parametrize("option", ["--spec", "--key", "--ledger", "--input"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused_at_once(town, hatstream, option, kind):
    path = town / "strange"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    code, _, err = hatstream(*city.release(town, "--key", str(town / "ledger.key"), option, str(path)))
    assert code in (2, 4)
    assert "regular file" in err


def test_names_with_markup_are_shown_as_they_are(tmp_path, hatstream):
    spec = city.SPEC.replace('"small-city"', '"[/x]"').replace('"small"', '"[bold]"')
    city.opened(tmp_path, hatstream, spec=spec)
    assert "[/x]" in hatstream(*city.release(tmp_path))[1]
    assert "[bold]" in hatstream("ledger", "show", "--ledger", tmp_path / "ledger.sqlite")[1]


def into(monkeypatch, stream, arguments):
    """The exit code of the console script with that standard output."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "argv", ["hatstream", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            run()
    with suppress(OSError):  # what could not be written
        stream.close()
    return done.value.code


def unread():
    """A pipe that nobody reads any more, as that of `| head -0`."""
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["unread", "full"])
def test_output_that_nobody_reads_or_that_is_full_leaves_nothing_half_done(town, hatstream, monkeypatch, capsys, kind):
    def lost():
        return unread() if kind == "unread" else open("/dev/full", "w")

    for command in (city.release(town), ["plan", "--spec", town / "spec.toml"], ["--help"]):
        assert into(monkeypatch, lost(), command) == 4
        err = capsys.readouterr().err
        assert err == "" if kind == "unread" else "No space left" in err
        assert "internal" not in err
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0
    assert city.told(hatstream, *city.release(town))["slots_new"] == 0, "it was recorded and published whole before"
    assert len(list((town / "out").iterdir())) == 32
