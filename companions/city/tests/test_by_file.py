"""`spec new` of a folder in which each file is of one vehicle, and of folders that only look like it."""

from fractions import Fraction

import pytest

from companions.city.tests.circles import as_csv, drafted, rows
from hatstream_city.draft.draft import draft
from hatstream_city.draft.files import NEIGHBOURS
from pipelines.account.guarantee import Loss, sentence
from pipelines.specification import load

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


@pytest.mark.parametrize("files", [mixed, dated])
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
