"""A file that cannot be decoded stops a release; or with --skip-unreadable it is a dead letter with its name."""

import pytest

from tests import city, levels_city
from tests.pipelines.commands.releases import files_in, spent_by, summary_of
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink

PAGE = b"<!DOCTYPE html><title>maintenance</title>"


@pytest.fixture(params=["here", "engine"])
def where(request, monkeypatch):
    """On this machine, and as the bounded pipeline."""
    if request.param == "here":
        return []
    put_in_the_place_of_flink(monkeypatch)
    return OPTIONS


@pytest.fixture
def town(tmp_path, hatstream):
    """Two files that are read, and one that is a page."""
    city.write_parquet(tmp_path)
    (tmp_path / "feed-c.parquet").write_bytes(PAGE)
    assert hatstream(*city.init(tmp_path))[0] == 0
    return tmp_path


def of(folder, pattern, *more):
    arguments = city.release(folder, "--json", *more)
    arguments[arguments.index("--input") + 1] = str(folder / pattern)
    return arguments


@pytest.mark.few(1)
def test_one_file_of_many_stops_the_release_or_is_left_out_by_name(town, hatstream, where):
    code, _, err = hatstream(*of(town, "feed-*.parquet"), *where)
    assert (code, f"{town}/feed-c.parquet: " in err) == (4, True)
    assert spent_by(hatstream, town) == []

    code, out, err = hatstream(*of(town, "feed-*.parquet", "--skip-unreadable"), *where)
    summary = summary_of(out)
    assert (code, err, summary["refused"]["read/unreadable-file"]) == (0, "", 1)
    assert [name.partition(": ")[0] for name in summary["files_left_out"]] == [f"{town}/feed-c.parquet"]
    assert summary["rows"] == 127 + 1 == summary["observations"] + summary["duplicates"] + 1


def test_an_input_of_pages_alone_is_refused_nevertheless(town, hatstream, where):
    for name in ("feed-a.parquet", "feed-b.parquet"):
        (town / name).write_bytes(PAGE)
    code, _, err = hatstream(*of(town, "feed-*.parquet", "--skip-unreadable"), *where)
    assert (code, err.splitlines()[0].startswith("hatstream: no file of the input can be decoded")) == (4, True)
    assert (spent_by(hatstream, town), files_in(town / "out")) == ([], {})


def test_so_it_is_under_secret_counts_where_no_row_decides_anything(tmp_path, hatstream):
    city.opened(tmp_path, hatstream, spec=levels_city.SPEC)
    (tmp_path / "page.csv").write_bytes(PAGE)
    code, _, err = hatstream(*of(tmp_path, "page.csv", "--skip-unreadable"))
    assert (code, "no file of the input can be decoded" in err) == (4, True)
    code, out, err = hatstream(*of(tmp_path, "*.csv", "--skip-unreadable"))
    assert (code, err) == (0, "")
    assert [name.partition(": ")[0] for name in summary_of(out)["operator_only"]["files_left_out"]] == [
        f"{tmp_path}/page.csv"
    ]
