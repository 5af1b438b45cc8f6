"""Under secret counts no run can look whether its input is wrong: a noisy number of vehicles tells, and stops the run.

The city declares 120 vehicles. An empty day passes in one run of a hundred at most, so draws are fixed here.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import city, levels_city
from tests.levels_city import DAYS
from tests.pipelines.commands.releases import entries
from tests.statistical.checks import seeded
from transforms.errors import StepError
from transforms.recorded.stage_plan import bare_stage

DECLARED = 120
SPEC = levels_city.SPEC.replace("vehicles = 50", f"vehicles = {DECLARED}")
BUSES = 115
EXCEL = [line.replace(line.split(",")[1], "44562.35") for line in levels_city.rows(buses=BUSES)]
OTHER_DAY = levels_city.rows(("2022-02-01",), buses=BUSES)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of fixed draws, which is no part of what is tried."""
    noise = seeded(1)
    monkeypatch.setattr("transforms.releases.base.Noise", lambda: noise)


@pytest.fixture
def town(tmp_path: Path, hatstream: Any) -> Path:
    return levels_city.opened(tmp_path, hatstream, spec=SPEC, lines=levels_city.rows(buses=BUSES))


def write(folder: Path, lines: list[str], spec: str = SPEC) -> None:
    levels_city.write(folder, spec=spec, lines=lines)


def stages(folder: Path) -> list[tuple[str, int, bool]]:
    return [(entry.unit.period, entry.unit.stage, bare_stage(entry.unit).counts_vehicles) for entry in entries(folder)]


def spent(folder: Path, hatstream: Any) -> list[float]:
    shown = json.loads(hatstream("ledger", "show", "--json", "--ledger", folder / "ledger.sqlite")[1])
    return [spent["epsilon"] for account in shown for spent in account["spent"]]


@pytest.mark.few(1)
@pytest.mark.parametrize("lines", [EXCEL, OTHER_DAY, []], ids=["Excel's dates", "another day", "nothing"])
def test_the_wrong_input_is_stopped_and_the_next_run_releases_the_day(lines, town, hatstream):
    write(town, lines)
    err = city.refused(hatstream, *city.release(town, end=DAYS[0]))
    assert all(part in err for part in (f"of {DECLARED}", DAYS[0], "--check-input", "The next run"))
    assert stages(town) == [(DAYS[0], 0, True)]
    assert not list((town / "out").glob("hats-*"))
    write(town, levels_city.rows(buses=BUSES))
    assert hatstream(*city.release(town, end=DAYS[0]))[0] == 0
    assert stages(town) == [(DAYS[0], 0, True), (DAYS[0], 1, False), (DAYS[0], 2, False)]
    assert spent(town, hatstream) == [2.64]
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0
    before = sorted(path.read_bytes() for path in (town / "out").glob("hats-*"))
    assert hatstream(*city.release(town, end=DAYS[0]))[0] == 0
    assert sorted(path.read_bytes() for path in (town / "out").glob("hats-*")) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("lines", [EXCEL, []], ids=["Excel's dates", "nothing"])
def test_a_day_that_a_small_fleet_s_wrong_input_seals_is_said_to_the_operator(lines, tmp_path, hatstream):
    """So few vehicles are not counted first, and what is public is the same for all inputs."""
    said = "No row was usable: what this run recorded holds no vehicle"
    levels_city.opened(tmp_path, hatstream, spec=levels_city.SPEC.replace("vehicles = 50", "vehicles = 12"))
    assert said not in " ".join(city.done(hatstream, *city.release(tmp_path, end=DAYS[0])).split())
    write(tmp_path, lines, levels_city.SPEC.replace("vehicles = 50", "vehicles = 12"))
    out = city.done(hatstream, *city.release(tmp_path, start=DAYS[1], end=DAYS[1]))
    public, secret = " ".join(out.split()).split("for the operator alone")
    assert (said in public, said in secret) == (False, True)
    assert said not in " ".join(hatstream(*city.release(tmp_path, end=DAYS[0]))[1].split()), "it recorded nothing"


@pytest.mark.few(1)
@pytest.mark.parametrize(("declared", "is_said"), [(5, True), (DECLARED, False)])
def test_a_fleet_far_beyond_the_declared_one_is_said_to_the_operator(declared, is_said, tmp_path, hatstream):
    """A sample's glance at 20 vehicles of 300: released weights show it, though so few are not counted first."""
    spec = levels_city.SPEC.replace("vehicles = 50", f"vehicles = {declared}")
    levels_city.opened(tmp_path, hatstream, spec=spec, lines=levels_city.rows(DAYS[:1], buses=200))
    code, out, _ = hatstream(*city.release(tmp_path, end=DAYS[0]))
    public, secret = " ".join(out.split()).split("for the operator alone")
    said = "10 times the vehicles that [fleet] declares, on 2022-01-01"
    assert (code, said in public, said in secret) == (0, False, is_said)


@pytest.mark.slow
def test_runs_of_a_scheduler_stop_until_somebody_has_run_without_its_option(town, hatstream):
    """A scheduler tries again after exit code 4: else its second try would seal the day with the wrong input."""
    unattended, attended = (*city.release(town, end=DAYS[0]), "--unattended"), city.release(town, end=DAYS[0])
    write(town, OTHER_DAY)
    assert [hatstream(*unattended)[0] for _ in range(3)] == [4, 4, 4]
    write(town, levels_city.rows(buses=BUSES))
    assert hatstream(*unattended)[0] == 4  # that it is another input cannot be known
    assert stages(town) == [(DAYS[0], 0, True)]
    assert [hatstream(*asked)[0] for asked in (attended, unattended)] == [0, 0]
    assert [number for _, number, _ in stages(town)] == [0, 1, 2]


@pytest.mark.slow
def test_a_stopped_day_stops_those_after_it_and_keeps_those_before(town, hatstream):
    write(town, levels_city.rows(DAYS[:1], buses=BUSES) + levels_city.rows(DAYS[2:], buses=BUSES))
    assert hatstream(*city.release(town, end=DAYS[2]))[0] == 4
    assert {period for period, _, _ in stages(town)} == {DAYS[0], DAYS[1]}
    assert {path.name.split("-")[2][:8] for path in (town / "out").glob("hats-*")} == {DAYS[0].replace("-", "")}
    assert hatstream(*city.release(town, end=DAYS[2]))[0] == 0
    assert [number for period, number, _ in stages(town) if period == DAYS[2]] == [0, 1]


def test_a_run_that_was_killed_before_it_stopped_has_told_nobody_so_the_next_one_stops(town, hatstream, monkeypatch):
    write(town, OTHER_DAY)
    with monkeypatch.context() as killed:
        killed.setattr("transforms.releases.base.History.stop_once", _die)
        assert hatstream(*city.release(town, end=DAYS[0]))[0] == 4
    assert stages(town) == [(DAYS[0], 0, True)]
    code, _, err = hatstream(*city.release(town, end=DAYS[0]))
    assert (code, f"of {DECLARED}" in err, len(stages(town))) == (4, True, 1)


def _die(*_: object) -> None:
    raise StepError("killed")


def test_what_one_run_tries_again_stops_again_and_another_run_goes_on(town):
    ledger = city.account(town).ledger
    asked = [ledger.stop("small", "a", DAYS[0], run) for run in ("one", "one", "two", "one", "three")]
    assert asked == [True, True, False, True, False]
    assert ledger.stop("small", "a", DAYS[1], "two")


@pytest.mark.slow
def test_a_pipeline_of_beam_stops_too(town, hatstream):
    write(town, OTHER_DAY)
    assert f"of {DECLARED}" in city.refused(hatstream, *city.release(town, end=DAYS[1]), "--runner", "FnApiRunner")
    assert stages(town) == [(DAYS[0], 0, True)]
    write(town, levels_city.rows(buses=BUSES))
    assert hatstream(*city.release(town, end=DAYS[1]), "--runner", "FnApiRunner")[0] == 0
    assert [number for _, number, _ in stages(town)] == [0, 1, 2, 0, 1]


@pytest.mark.slow
def test_a_small_or_undeclared_fleet_has_none(tmp_path, hatstream):
    for name, spec in (("small", levels_city.SPEC), ("none", SPEC.replace(f"[fleet]\nvehicles = {DECLARED}\n", ""))):
        folder = levels_city.opened(tmp_path / name, hatstream, spec=spec, lines=OTHER_DAY)
        assert hatstream(*city.release(folder, end=DAYS[0]))[0] == 0
        assert not any(counts for _, _, counts in stages(folder))
