"""Levels under kills, races and another input in between: one value per stage, centres as recorded, nothing twice."""

import random
from pathlib import Path

import pytest

from pipelines.account import location
from pipelines.cli import main
from pipelines.specification import load
from tests import city, levels_city
from tests.faults.processes import other_process, run
from tests.levels_city import DAYS, SPEC
from transforms.failpoints import FailpointError, acting
from transforms.recorded.stage_plan import bare_stage, part_of, rests_on
from transforms.recorded.units import Sequenced

STAGES = 4  # of three days: two of the first, and one of each other
PASSAGES = {
    "tally": 9,
    **dict.fromkeys(("before-noise", "after-noise", "before-record", "before-commit", "after-commit"), STAGES),
    **dict.fromkeys(("before-publish", "mid-file", "before-rename", "after-publish"), 12),
}


def release(folder: Path, ledger: str) -> list[str]:
    base = city.release(folder, start=DAYS[0], end=DAYS[-1])
    base[base.index("--ledger") + 1] = ledger
    base[base.index("--formats") + 1] = "csv"
    return [*base, "--key", str(folder / "key")]


def start(folder: Path, ledger: str) -> None:
    levels_city.write(folder)
    opened = ["init", "--spec", str(folder / "spec.toml"), "--ledger", ledger, "--key", str(folder / "key")]
    assert main(opened) == 0


def stages(folder: Path, ledger: str) -> list[Sequenced]:
    spec = load(folder / "spec.toml")
    return location.find(ledger, folder / "key").ledger.stages(spec.account.name, spec.spec_id)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").glob("hats-*"))}


def check_whole(folder: Path, ledger: str, seen: list[Sequenced]) -> None:
    """Every stage once, around what was recorded before it; what was seen stands; files are the ledger's."""
    entries = stages(folder, ledger)
    assert entries[: len(seen)] == seen
    assert len({(entry.unit.period, entry.unit.stage) for entry in entries}) == len(entries)
    for period in DAYS:
        of_period = [entry for entry in entries if entry.unit.period == period]
        assert [entry.unit.stage for entry in of_period] == list(range(bare_stage(of_period[0].unit).stages))
        assert (
            sum(float(s.epsilon) for s in location.find(ledger, folder / "key").ledger.spent("small", period)) == 2.64
        )
    for index, entry in enumerate(entries):
        assert rests_on(entry.unit) in [0, *(earlier.sequence for earlier in entries[:index])]
    assert location.find(ledger, folder / "key").ledger.verify().entries > 0
    before = files(folder)
    assert len(before) == 4 * len(DAYS)
    assert main(release(folder, ledger)) == 0
    assert files(folder) == before
    assert stages(folder, ledger) == entries


def kill_and_rerun(folder: Path, ledger: str, **kill: object) -> None:
    start(folder, ledger)
    run(release(folder, ledger), **kill)
    seen = stages(folder, ledger)
    assert run(release(folder, ledger)) == 0
    check_whole(folder, ledger, seen)


OTHERS = ("before-commit:2", "after-noise:1", "after-commit:2", "mid-file:3")


@pytest.mark.parametrize(
    "place", ["after-commit:1", *(pytest.param(place, marks=pytest.mark.slow) for place in OTHERS)]
)
def test_a_kill_between_the_stages_loses_and_repeats_nothing(tmp_path, place):
    kill_and_rerun(tmp_path, str(tmp_path / "ledger.sqlite"), place=place)


@pytest.mark.slow  # about 4 minutes
@pytest.mark.parametrize("seed", range(50))
def test_fifty_random_kills_lose_and_repeat_nothing(tmp_path, seed, request):
    """The first half on SQLite, the others on PostgreSQL."""
    chance = random.Random(seed)
    on_server = seed >= 25
    ledger = request.getfixturevalue("postgres").new_database() if on_server else str(tmp_path / "ledger.sqlite")
    if seed % 2:
        kill_and_rerun(tmp_path, ledger, kill_after_s=chance.uniform(0.0, 4.0))
    else:
        name = chance.choice(list(PASSAGES))
        kill_and_rerun(tmp_path, ledger, place=f"{name}:{chance.randint(1, PASSAGES[name])}")


@pytest.mark.slow  # 5 s each
def test_of_two_racers_one_value_per_stage_stands(tmp_path, ledger_url):
    """The other one stands with its first stage drawn while this one releases all days; then it goes on."""
    start(tmp_path, ledger_url)
    with other_process() as other:
        other.start(release(tmp_path, ledger_url))
        assert main(release(tmp_path, ledger_url)) == 0
        seen, before = stages(tmp_path, ledger_url), files(tmp_path)
        assert other.end() == 0
    assert files(tmp_path) == before
    check_whole(tmp_path, ledger_url, seen)


@pytest.mark.slow
def test_a_later_stage_is_made_from_other_input_and_the_first_one_stands(tmp_path):
    """Under secret counts nothing of it is refused, and the operator's audit says that the input differs."""
    ledger = str(tmp_path / "ledger.sqlite")
    start(tmp_path, ledger)

    def stop(name: str, passage: int) -> None:
        if (name, passage) == ("after-commit", 1):
            raise FailpointError(name)

    with acting(stop):
        assert main(release(tmp_path, ledger)) == 4
    seen = stages(tmp_path, ledger)
    assert len(seen) == 1
    levels_city.write(tmp_path, spec=SPEC, lines=levels_city.rows(buses=9))
    assert main(release(tmp_path, ledger)) == 0
    check_whole(tmp_path, ledger, seen)
    assert location.find(ledger, tmp_path / "key").ledger.audit("small").changed == 1


PLACED = SPEC + '[places]\nresolution = 8\n[[output]]\nproduct = "place-standing"\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [("after-commit", 2), pytest.param(("before-commit", 3), marks=pytest.mark.slow), ("after-commit", 3)],
    ids=str,
)
def test_a_day_with_places_that_stops_at_any_stage_is_released_exactly_once(tmp_path, where):
    """Before its look at places, during it, and before what it says is published."""
    ledger = str(tmp_path / "ledger.sqlite")
    start(tmp_path, ledger)
    levels_city.write(tmp_path, spec=PLACED)

    def stop(name: str, passage: int) -> None:
        if (name, passage) == where:
            raise FailpointError(name)

    with acting(stop):
        assert main(release(tmp_path, ledger)) == 4
    seen = stages(tmp_path, ledger)
    assert len(seen) == where[1] - (where[0] == "before-commit")
    assert main(release(tmp_path, ledger)) == 0
    check_whole(tmp_path, ledger, seen)
    looks = [entry.unit.period for entry in stages(tmp_path, ledger) if part_of(entry.unit) == "places"]
    assert looks == list(DAYS)
    assert len(list((tmp_path / "out").glob("place-standing-*"))) == len(DAYS)
