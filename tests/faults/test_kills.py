"""Kill -9 at every place that matters, each followed by a rerun: one value per release id, nothing missing."""

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from pipelines import custody
from pipelines.cli import main
from tests import city
from transforms.failpoints import NAMES, VARIABLE
from transforms.publish import FORMATS, file_stem, rows_of
from transforms.seal import Sealed

SLOTS, PERIODS = 8, 2
PASSAGES = {
    "before-record": PERIODS,
    "before-commit": PERIODS,
    "after-commit": PERIODS,
    "before-publish": SLOTS,
    "mid-file": SLOTS * len(FORMATS),
    "before-rename": SLOTS * len(FORMATS),
    "after-publish": SLOTS,
}
TWENTY = [
    *[(name, n) for name in ("before-record", "before-commit", "after-commit") for n in (1, 2)],
    *[("before-publish", n) for n in (1, 5, 8)],
    *[("mid-file", n) for n in (1, 2, 17, 32)],
    *[("before-rename", n) for n in (1, 3, 18, 32)],
    *[("after-publish", n) for n in (1, 4, 8)],
]


@pytest.fixture(scope="module")
def forks():
    """Processes that start with everything imported, as a kill must end a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.test_kills"])
    return context


def _run(arguments: list[str], place: str | None) -> None:
    if place:
        os.environ[VARIABLE] = place
    os._exit(main(arguments))


def run(forks, arguments, place=None, kill_after_s=None):
    """Exit code of a command line in a process of its own; -9 if it was killed."""
    process = forks.Process(target=_run, args=(arguments, place))
    process.start()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
    process.join(120)
    return process.exitcode


def recorded(folder: Path) -> dict[tuple[int, str, str], list[int] | None]:
    """The ledger's integer of every release id; a second value for one would be an error here."""
    found: dict[tuple[int, str, str], list[int] | None] = {}
    for unit in units(folder):
        for released in unit.released:
            key = (unit.slot_s, released.cell, released.statistic)
            assert key not in found
            found[key] = released.integers
    return found


def units(folder: Path) -> list[Sealed]:
    ledger = custody.find(str(folder / "ledger.sqlite"), None).ledger
    spent = ledger.spent("small")
    return [unit for period in spent for unit in ledger.released(period.spec_id, period.period)]


def published(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def assert_whole(folder: Path, before: dict[tuple[int, str, str], list[int] | None]) -> None:
    after = recorded(folder)
    assert before.items() <= after.items(), "what was recorded before the kill is what stands"
    assert len(units(folder)) == SLOTS, "nothing is missing"
    ledger = custody.find(str(folder / "ledger.sqlite"), None).ledger
    assert [float(spent.epsilon) for spent in ledger.spent("small")] == [9.0, 9.0], "the spend of one run"
    ledger.verify()
    files = published(folder)
    assert len(files) == SLOTS * len(FORMATS), "every file is there and no part of one is left"
    for unit in units(folder):
        lines = files[f"{file_stem(unit.spec_id, unit.slot_start)}.jsonl"].splitlines()
        assert [json.loads(line) for line in lines] == rows_of([unit]), "what is published is what was recorded"


def kill_and_rerun(forks, folder: Path, **kill) -> None:
    city.write(folder)
    assert run(forks, city.init(folder)) == 0
    assert run(forks, city.release(folder), **kill) in (-signal.SIGKILL, 0)
    before = recorded(folder)
    assert run(forks, city.release(folder)) == 0
    assert_whole(folder, before)
    first = published(folder)
    assert run(forks, city.release(folder)) == 0
    assert published(folder) == first, "the same release twice is the same bytes"


def test_every_failpoint_is_passed_as_often_as_these_tests_believe():
    assert set(PASSAGES) == set(NAMES)
    assert len(TWENTY) == 20


@pytest.mark.parametrize(("name", "passage"), TWENTY)
def test_a_kill_at_a_failpoint_loses_and_repeats_nothing(forks, tmp_path, name, passage):
    city.write(tmp_path)
    assert run(forks, city.init(tmp_path)) == 0
    assert run(forks, city.release(tmp_path), f"{name}:{passage}") == -signal.SIGKILL
    before = recorded(tmp_path)
    assert run(forks, city.release(tmp_path)) == 0
    assert_whole(tmp_path, before)


def test_a_kill_that_nobody_planned_loses_and_repeats_nothing(forks, tmp_path):
    kill_and_rerun(forks, tmp_path, kill_after_s=0.4)


@pytest.mark.slow  # about 8 minutes
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_random_kills_lose_and_repeat_nothing(forks, tmp_path, seed):
    chance = random.Random(seed)
    if seed % 2:
        kill_and_rerun(forks, tmp_path, kill_after_s=chance.uniform(0.0, 1.5))
    else:
        name = chance.choice(list(PASSAGES))
        kill_and_rerun(forks, tmp_path, place=f"{name}:{chance.randint(1, PASSAGES[name])}")
