"""A small made-up city for tests: two days of a few buses as CSV, and a specification for it."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.account import location
from pipelines.errors import DONE, FAILED
from pipelines.specification import Specification, load

SPEC = """
name = "small-city"
[account]
name = "small"
unit = "vehicle-day"
timezone = "Asia/Kolkata"
adjacency = "counts-public"
limit = 50
[slot]
minutes = 60
service = "08:00-12:00"
[cells]
resolution = 7
region = "occupied"
[speed]
upper_kmh = 65
[privacy]
epsilon = 1.0
per = "hat"
[[statistic]]
name = "mean"
mechanism = "array-average"
[input]
layout = "csv"
columns = { vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "v" }
"""
COLUMNS = SPEC.splitlines()[-1]


def changed(spec: str, *changes: tuple[str, str]) -> str:
    """Returns a specification with texts replaced, each of which it has."""
    for old, new in changes:
        assert old in spec, old
        spec = spec.replace(old, new)
    return spec


AUSTIN = changed(
    SPEC,
    ("small-city", "austin-hourly"),
    ('"small"', '"austin-speeds"'),
    ("Asia/Kolkata", "America/Chicago"),
    ("limit = 50", "limit = 300.0"),
    ('service = "08:00-12:00"\n', ""),
    (f'"csv"\n{COLUMNS}', '"capmetro"'),
)
PARQUET = SPEC.replace('layout = "csv"', 'layout = "parquet"')
DAYS = ("2022-01-01", "2022-01-02")
HEADER = "bus,ts,lat,lon,v\n"
FORMATS = ("parquet", "avro", "csv", "jsonl")
ACCOUNT = ("ledger.sqlite", "ledger.key", "ledger.key.head")
_ACCOUNTS: dict[str, dict[str, bytes]] = {}  # what opening an account wrote, by the specification's text


def rows(days: tuple[str, ...] = DAYS, hours: range = range(8, 11)) -> list[str]:
    """Four buses, one of them heavy, through three cells; the last hour of service stays empty."""
    lines = []
    for day in days:
        for hour in hours:
            for bus in range(4):
                for i in range(12 if bus == 0 else 3):
                    lat, speed = 21.17 + 0.02 * ((bus + i) % 3), (7 * bus + 11 * i) % 60
                    lines.append(f"PLATE{bus},{day}T{hour:02d}:{4 * i:02d}:0{bus}+05:30,{lat},72.83,{speed}\n")
    return lines


def write(folder: Path, *, spec: str = SPEC, lines: list[str] | None = None) -> tuple[Path, Path]:
    """Writes spec.toml and feed.csv; returns both paths."""
    spec_path, feed = folder / "spec.toml", folder / "feed.csv"
    spec_path.write_text(spec)
    feed.write_text(HEADER + "".join(rows() if lines is None else lines))
    return spec_path, feed


def loaded(folder: Path, spec: str = SPEC) -> Specification:
    """The specification, which the folder then has in place of any other."""
    (folder / "spec.toml").write_text(spec)
    return load(folder / "spec.toml")


def write_parquet(folder: Path) -> None:
    """Writes spec.toml and, as two files of several row groups, the feed, with one row that is in both of them."""
    (folder / "spec.toml").write_text(PARQUET)
    fields = [line.strip().split(",") for line in rows()]
    for name, part in (("a", fields[:70]), ("b", [*fields[70:], fields[0]])):
        columns = dict(zip(HEADER.strip().split(","), zip(*part, strict=True), strict=True))
        table = pa.table({name: _typed(name, column) for name, column in columns.items()})
        pq.write_table(table, folder / f"feed-{name}.parquet", row_group_size=20)


def _typed(name: str, column: tuple[str, ...]) -> pa.Array:
    return pa.array(column if name in ("bus", "ts") else [float(value) for value in column])


def init(folder: Path) -> list[str]:
    return ["init", "--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite")]


def account(folder: Path) -> location.AccountLocation:
    """Where the folder's ledger, key and head are."""
    return location.find(str(folder / "ledger.sqlite"), None)


def tamper(folder: Path, *statements: str) -> Path:
    """Changes the folder's ledger behind its back; returns its file, which holds all of it then."""
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as db:
        for statement in (*statements, "pragma wal_checkpoint(truncate)"):
            db.execute(statement)
    return folder / "ledger.sqlite"


def opened(
    folder: Path, hatstream: Callable[..., tuple[int, str, str]], *, is_new: bool = False, **written: Any
) -> Path:
    """Writes the city into a folder, which may be new, and opens its account: that of the specification's first test.

    is_new: with a key and a ledger that no other test has.
    """
    folder.mkdir(exist_ok=True)
    spec = write(folder, **written)[0].read_text()
    if is_new or spec not in _ACCOUNTS:
        assert hatstream(*init(folder))[0] == 0
        _ACCOUNTS[spec] = {name: (folder / name).read_bytes() for name in ACCOUNT}
    for name, data in _ACCOUNTS[spec].items():
        (folder / name).write_bytes(data)
    (folder / "ledger.key").chmod(0o600)
    return folder


def done(hatstream: Callable[..., tuple[int, str, str]], *command: object, code: int = DONE) -> str:
    """Runs a command that must end with this exit code and no word of an error; returns its standard output."""
    ended, out, err = hatstream(*command)
    assert (ended, err) == (code, ""), out
    return out


def refused(hatstream: Callable[..., tuple[int, str, str]], *command: object, code: int = FAILED) -> str:
    """Runs a command that must end with this exit code and print nothing; returns its standard error."""
    ended, out, err = hatstream(*command)
    assert (ended, out) == (code, ""), err
    return err


def told(hatstream: Callable[..., tuple[int, str, str]], *command: object, code: int = DONE) -> Any:
    """The document that a command prints for programs."""
    return json.loads(done(hatstream, *command, "--json", code=code))


def release(folder: Path, *more: str, start: str = DAYS[0], end: str = DAYS[-1], feed: str = "feed.csv") -> list[str]:
    """The command; feed: a pattern of files below the folder, or an address."""
    given = [] if "--input" in more else ["--input", feed if "://" in feed else str(folder / feed)]
    return [
        "release", "--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite"),
        *given, "--from", start, "--to", end,
        "--output", str(folder / "out"), "--formats", ",".join(FORMATS), *more,
    ]  # fmt: skip


def estimate(folder: Path, output: str, *more: str, start: str = DAYS[0], end: str | None = None) -> list[str]:
    """The command that estimates released days, or one, again into a folder below, as CSV unless told otherwise."""
    where = ["--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite")]
    days = ["--from", start, "--to", end or start]
    return ["estimate", *where, "--output", str(folder / output), *days, "--formats", "csv", *more]
