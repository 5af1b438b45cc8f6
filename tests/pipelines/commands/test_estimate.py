"""`hatstream estimate`: the ledger alone gives a day's rows again, by then and by now, and days to come."""

import json
from collections.abc import Callable
from pathlib import Path

from tests import city, levels_city
from tests.levels_city import CELLS, DAYS

Run = Callable[..., tuple[int, str, str]]


def made(folder: Path, hatstream: Run, *days: str, buses: int = 4) -> Path:
    """Days released one by one, in the order given; the input is then taken away."""
    folder.mkdir(exist_ok=True)
    levels_city.write(folder, lines=levels_city.rows(buses=buses))
    assert hatstream(*city.init(folder))[0] == 0
    for day in days:
        code, _, err = hatstream(*city.release(folder, start=day, end=day))
        assert code == 0, err
    for path in folder.glob("feed*"):
        path.unlink()
    return folder


def estimated(folder: Path, hatstream: Run, name: str, *more: str) -> dict[str, bytes]:
    spec, ledger, output = folder / "spec.toml", folder / "ledger.sqlite", folder / name
    where = ("--spec", str(spec), "--ledger", str(ledger), "--output", str(output), "--formats", "csv,jsonl")
    code, out, err = hatstream("estimate", *where, "--from", DAYS[0], "--to", DAYS[-1], *more)
    assert code == 0, out + err
    return {path.name: path.read_bytes() for path in sorted(output.iterdir())}


def test_causal_estimates_are_the_published_bytes_without_the_data(tmp_path: Path, hatstream: Run) -> None:
    made(tmp_path, hatstream, *DAYS)
    again = estimated(tmp_path, hatstream, "again")
    assert len(again) == 2 * 4 * len(DAYS)
    assert all((tmp_path / "out" / name).read_bytes() == data for name, data in again.items())


def test_a_day_that_is_recorded_later_counts_as_later(tmp_path: Path, hatstream: Run) -> None:
    made(tmp_path, hatstream, DAYS[0], DAYS[2])
    before = estimated(tmp_path, hatstream, "before")
    levels_city.write(tmp_path)
    assert hatstream(*city.release(tmp_path, start=DAYS[1], end=DAYS[1]))[0] == 0
    after = estimated(tmp_path, hatstream, "after")
    assert {name: after[name] for name in before} == before
    assert len(after) > len(before)


def test_the_whole_ledger_changes_earlier_days_and_not_the_last_one(tmp_path: Path, hatstream: Run) -> None:
    made(tmp_path, hatstream, *DAYS, buses=200)  # of 4 no day may be known well enough to be published
    causal, whole = estimated(tmp_path, hatstream, "again"), estimated(tmp_path, hatstream, "whole", "--whole")
    differ = {name for name in causal if causal[name] != whole[name]}
    last = DAYS[-1].replace("-", "")
    assert differ
    assert not any(f"-{last}T" in name for name in differ)


def test_days_to_come_are_forecast_for_every_cell_and_say_so(tmp_path: Path, hatstream: Run) -> None:
    made(tmp_path, hatstream, *DAYS)
    known, ahead = estimated(tmp_path, hatstream, "a"), estimated(tmp_path, hatstream, "b", "--forecast", "2")
    rows = [
        json.loads(line)
        for name, data in ahead.items()
        if name not in known and name.endswith("jsonl")
        for line in data.splitlines()
    ]
    assert len(rows) == 2 * 4 * len(CELLS)
    assert {row["status"] for row in rows} <= {"forecast", "unreliable", "held-back"}


def test_a_day_that_is_not_released_has_no_estimate_and_is_named(tmp_path: Path, hatstream: Run) -> None:
    made(tmp_path, hatstream, DAYS[0])
    spec, ledger = tmp_path / "spec.toml", tmp_path / "ledger.sqlite"
    command = ("estimate", "--spec", str(spec), "--ledger", str(ledger), "--output", str(tmp_path / "o"), "--json")
    code, out, _ = hatstream(*command, "--from", DAYS[0], "--to", DAYS[1])
    assert code == 0
    assert json.loads(out)["not_released"] == [DAYS[1]]


def test_a_specification_without_levels_is_refused(tmp_path: Path, hatstream: Run) -> None:
    city.write(tmp_path)
    spec = ("--spec", str(tmp_path / "spec.toml"), "--ledger", str(tmp_path / "none.sqlite"))
    code, _, err = hatstream("estimate", *spec, "--output", str(tmp_path), "--from", DAYS[0], "--to", DAYS[0])
    assert code == 1
    assert "levels" in err
