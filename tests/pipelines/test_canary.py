"""A known plate, known positions and speeds go in by every door; no output channel may show them."""

import json
import sys

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import cli
from pipelines.cli import main
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
