"""`hatstream ledger missing`: the slots without a release, on both databases."""

import sqlite3
from contextlib import closing

import pytest

from pipelines.account.guarantee import is_due
from pipelines.inputs import range_of
from tests import city

FIRST, LAST = city.DAYS


@pytest.fixture
def town(tmp_path, ledger_url, hatstream, monkeypatch):
    """The small city with its account opened, on each database."""
    monkeypatch.setenv("HATSTREAM_LEDGER", ledger_url)
    return opened(tmp_path, hatstream)


def opened(folder, hatstream, spec=city.SPEC):
    city.write(folder, spec=spec)
    assert hatstream("init", *place(folder))[0] == 0
    return folder


def place(folder):
    return ["--spec", folder / "spec.toml", "--key", folder / "ledger.key"]


def release(hatstream, folder, start, end):
    rest = ["--input", folder / "feed.csv", "--output", folder / "out", "--from", start, "--to", end, "--allow-empty"]
    assert hatstream("release", *place(folder), *rest)[0] == 0


def ask(hatstream, folder, start=FIRST, end=LAST):
    return city.told(hatstream, "ledger", "missing", *place(folder), "--from", start, "--to", end)


def starts(answer):
    return [gap["slot_start"] for gap in answer["missing"]]


@pytest.mark.few(1)
def test_before_any_release_every_slot_of_service_is_missing(town, hatstream):
    answer = ask(hatstream, town)
    assert starts(answer) == [f"{day}T{hour:02d}:00:00+05:30" for day in city.DAYS for hour in range(8, 12)]
    assert (answer["name"], answer["slots"], answer["still_to_come"]) == ("small-city", 8, 0)
    assert answer["missing"][0] == {
        "period": FIRST,
        "slot_start": f"{FIRST}T08:00:00+05:30",
        "slot_end": f"{FIRST}T09:00:00+05:30",
        "shards": [0],
    }


@pytest.mark.few(1)
def test_what_is_listed_is_what_the_release_job_fills(town, hatstream):
    release(hatstream, town, f"{FIRST}T09:00", f"{FIRST}T10:00")
    release(hatstream, town, LAST, LAST)
    answer = ask(hatstream, town)
    assert [start[11:13] for start in starts(answer)] == ["08", "10", "11"]
    for gap in answer["missing"]:
        release(hatstream, town, gap["slot_start"], gap["slot_end"])
    assert ask(hatstream, town)["missing"] == []


@pytest.mark.few(1)
def test_another_specification_on_the_same_account_fills_nothing(town, hatstream):
    release(hatstream, town, FIRST, FIRST)
    city.write(town, spec=city.SPEC.replace("resolution = 7", "resolution = 8"))
    assert len(ask(hatstream, town, FIRST, FIRST)["missing"]) == 4


def test_a_slot_of_which_a_shard_is_missing_is_missing(tmp_path, hatstream, monkeypatch):
    monkeypatch.setenv("HATSTREAM_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COLUMNS", "200")  # a heading is not folded
    capped = 'epsilon = 1.0\ncomposition = "cap"\nmax_cells = 3\nmax_samples = 5\nrelease_shards = 3'
    town = opened(tmp_path, hatstream, city.SPEC.replace("epsilon = 1.0", capped))
    release(hatstream, town, FIRST, FIRST)
    assert ask(hatstream, town, FIRST, FIRST)["missing"] == []
    with closing(sqlite3.connect(town / "ledger.sqlite")) as db, db:
        db.execute(
            "delete from entry where kind = 'release' and shard = 1 and slot_s = (select min(slot_s) from entry)"
        )
    (gap,) = ask(hatstream, town, FIRST, FIRST)["missing"]
    assert (gap["slot_start"], gap["shards"]) == (f"{FIRST}T08:00:00+05:30", [1])
    out = hatstream("ledger", "missing", *place(town), "--from", FIRST, "--to", FIRST)[1]
    assert "missing shards of 0 to 2" in " ".join(out.split())


def test_a_slot_is_due_when_its_lateness_is_over_too(tmp_path):
    spec = city.loaded(tmp_path, city.SPEC.replace("minutes = 60", "minutes = 60\nallowed_lateness_s = 120"))
    slot = range_of(spec.timetable, FIRST, FIRST).slots[0]
    end_s = slot.start_s + 3_600
    assert [is_due(spec, slot.start_s, end_s + late_s) for late_s in (0, 119, 120)] == [False, False, True]


def test_looking_writes_nothing(tmp_path, hatstream, monkeypatch):
    monkeypatch.setenv("HATSTREAM_LEDGER", str(tmp_path / "ledger.sqlite"))
    town = opened(tmp_path, hatstream)
    files = [town / "ledger.sqlite", town / "ledger.key.head"]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.chmod(0o400)
    ask(hatstream, town)
    assert [file.read_bytes() for file in files] == before


def test_a_ledger_that_is_not_there_or_does_not_know_the_account_is_said(town, hatstream):
    dates = ["--from", FIRST, "--to", LAST]
    nowhere = ["--spec", town / "spec.toml", "--ledger", town / "nowhere.sqlite"]
    code, _, err = hatstream("ledger", "missing", *nowhere, *dates)
    assert (code, "there is no ledger" in err) == (4, True)
    city.write(town, spec=city.SPEC.replace('name = "small"', 'name = "large"'))
    code, _, err = hatstream("ledger", "missing", *place(town), *dates)
    assert (code, "no account 'large'" in err) == (3, True)
