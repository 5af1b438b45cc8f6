"""Kill -9 at every place that matters, each followed by a rerun: one value per release id, nothing missing."""

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli import main
from tests import city
from tests.faults.processes import run
from tests.faults.small_town import Witness, passages
from transforms.failpoints import NAMES, acting

SLOTS, BUSY_SLOTS = 8, 6
PASSAGES = passages(slots=SLOTS, busy_slots=BUSY_SLOTS, files=SLOTS * len(city.FORMATS))
QUICK = {("tally", 2), ("before-commit", 2), ("after-commit", 1), ("mid-file", 17), ("after-publish", 8)}
TWENTY_TWO = [
    *[("tally", 2), ("after-noise", 1)],
    *[(name, n) for name in ("before-record", "before-commit", "after-commit") for n in (1, 2)],
    *[("before-publish", n) for n in (1, 5, 8)],
    *[("mid-file", n) for n in (1, 2, 17, 32)],
    *[("before-rename", n) for n in (1, 3, 18, 32)],
    *[("after-publish", n) for n in (1, 4, 8)],
]


def kill_and_rerun(folder: Path, **kill) -> int | None:
    """The exit code of the run that was, perhaps, killed."""
    city.write(folder)
    witness = Witness(folder / "ledger.sqlite", folder / "out")
    assert main(city.init(folder)) == 0
    killed = run(city.release(folder), **kill)
    witness.look()
    assert run(city.release(folder)) == 0
    witness.look_at_the_end(slots=SLOTS, spent=[9, 9], formats=city.FORMATS)
    return killed


def test_every_failpoint_is_passed_as_often_as_these_tests_believe(tmp_path):
    city.write(tmp_path)
    assert main(city.init(tmp_path)) == 0
    passed = Counter()
    with acting(lambda name, _: passed.update([name])):
        assert main(city.release(tmp_path)) == 0
    assert BUSY_SLOTS <= passed["tally"] <= 2 * BUSY_SLOTS
    assert passed | {"tally": BUSY_SLOTS} == PASSAGES
    assert set(PASSAGES) == set(NAMES)


@pytest.mark.parametrize(
    ("name", "passage"),
    [place if place in QUICK else pytest.param(*place, marks=pytest.mark.slow) for place in TWENTY_TWO],
)
def test_a_kill_at_a_failpoint_loses_and_repeats_nothing(tmp_path, name, passage):
    assert kill_and_rerun(tmp_path, place=f"{name}:{passage}") == -signal.SIGKILL


def test_a_kill_that_nobody_planned_loses_and_repeats_nothing(tmp_path):
    assert kill_and_rerun(tmp_path, kill_after_s=0.4) in (-signal.SIGKILL, 0)


@pytest.mark.slow  # about 5 minutes
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_random_kills_lose_and_repeat_nothing(tmp_path, seed):
    chance = random.Random(seed)
    if seed % 2:
        kill_and_rerun(tmp_path, kill_after_s=chance.uniform(0.0, 1.5))
    else:
        name = chance.choice(list(PASSAGES))
        kill_and_rerun(tmp_path, place=f"{name}:{chance.randint(1, PASSAGES[name])}")
