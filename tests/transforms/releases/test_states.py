"""What was learned of older days is kept in a file: it changes no byte, spares fits, and may be lost or damaged."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpops.learning.state import RECENT, VERSION
from dpops.levels.bounded import sum_up
from dpops.levels.parts import count_stage, counted_first, vehicles_in
from dpops.noise import Noise
from tests.dpops.levels.cities import random_days, rows
from tests.kit.grids import grid
from tests.transforms.releases.levels_days import HOURS, REGION, facts, policy
from transforms.ledger.chain import Signature
from transforms.public import EntryNumber
from transforms.recorded.units import Sequenced
from transforms.releases.periods import learned, states
from transforms.releases.periods.stages import LevelsPolicy, draw_stage, first_centres, laid_stage, read_unit
from transforms.releases.periods.states import StateFile, StoredState

OURS = Signature(b"k" * 32, "check")
FIRST_FOLD = 2 * RECENT
HOW = policy("gaussian")
SLOTS = [facts(slot) for slot in range(len(HOURS))]


def entries(days: int, seed: int = 0) -> list[Sequenced]:
    """So many recorded days of a small city, always the same."""
    rng, sequenced = np.random.default_rng(seed), []
    for day in range(days):
        stage = laid_stage(HOW, HOW.later, 0, HOURS, first_centres(len(REGION), len(HOURS)), day)
        slots = [replace(slot, period=f"day {day}") for slot in SLOTS]
        sums = sum_up(rows(random_days(seed + day, 40)), stage)
        sequenced.append(Sequenced(day + 1, draw_stage(sums, stage, slots, day * 86_400, HOW, Noise(rng.bytes))))
    return sequenced


def estimated(days: list[Sequenced], how: LevelsPolicy) -> bytes:
    """As in a process that has just begun."""
    states._FOLDED.clear()
    states._fitted.cache_clear()
    estimates = learned.day_estimates(states.learned_from(days, how), how, SLOTS, days)
    return b"".join(column.tobytes() for column in (*estimates[:4], estimates.status))


@pytest.fixture(scope="module")
def many() -> list[Sequenced]:
    """One day more than those of which older ones are kept added up for the first time."""
    return entries(FIRST_FOLD + 1)


@pytest.fixture(scope="module")
def plain(many: list[Sequenced]) -> bytes:
    return estimated(many, HOW)


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile.of_head(tmp_path / "key.head", "a", OURS)


@pytest.fixture(scope="module")
def written(many: list[Sequenced], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a file holds after `many`."""
    file = StateFile.of_head(tmp_path_factory.mktemp("written") / "key.head", "a", OURS)
    estimated(many, replace(HOW, cache_file=file))
    return file.path.read_bytes()


@pytest.fixture
def full(file: StateFile, written: bytes) -> StateFile:
    file.path.write_bytes(written)
    return file


def test_a_number_of_vehicles_is_read_as_that_and_is_no_look_at_a_day():
    count = count_stage(HOW.later[0], 1_000)
    assert count is not None
    stages = counted_first(count, HOW.later)
    laid = laid_stage(HOW, stages, 0, HOURS, first_centres(len(REGION), len(HOURS)), EntryNumber(0))
    unit = draw_stage(sum_up(rows(random_days(1, 40)), laid), laid, SLOTS, 0, HOW, Noise(os.urandom))
    values = states.stage_values(read_unit(unit, REGION), HOW.fleet)
    assert values.counts_vehicles
    assert values.levels[0].weights[0, 0] == pytest.approx(vehicles_in(read_unit(unit, REGION)))


def test_bytes_are_the_same_and_a_new_process_takes_in_the_last_days_alone(file, monkeypatch):
    how, taken, many = replace(HOW, cache_file=file), [], entries(FIRST_FOLD + RECENT + 1)
    monkeypatch.setattr(states, "add_day", lambda state, day, do=states.add_day: taken.append(day) or do(state, day))
    expected = {days: estimated(many[:days], HOW) for days in (FIRST_FOLD, len(many))}
    for days, anew in ((FIRST_FOLD, FIRST_FOLD), (len(many), RECENT + 1), (len(many), 1)):
        taken.clear()
        assert estimated(many[:days], how) == expected[days]
        assert len(taken) == anew


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": lambda data: data[:900] + bytes([data[900] ^ 4]) + data[901:],
    "empty": lambda _: b"",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told_once_and_loses_nothing(many, plain, full, caplog, damage):
    how, whole = replace(HOW, cache_file=full), full.path.read_bytes()
    full.path.write_bytes(damage(whole))
    with caplog.at_level(logging.WARNING, "hatstream.learned"):
        assert estimated(many, how) == plain
        assert estimated(many, how) == plain
    assert [record.message.count("is damaged") for record in caplog.records] == [1]
    assert full.path.read_bytes() == whole


NOTHING = msgspec.msgpack.encode(None)

FORGERS = {
    "another key": StateFile.of_head(Path("key.head"), "a", Signature(b"x" * 32, "check")),
    "another specification of the account": StateFile.of_head(Path("key.head"), "b", OURS),
    "no key": StateFile(Path("key.head"), b""),
}


@pytest.mark.parametrize(("forger", "content"), grid(list(FORGERS), ["others", "malformed"]))
def test_a_state_that_was_not_signed_for_this_specification_changes_nothing(many, plain, full, caplog, forger, content):
    how, kept = replace(HOW, cache_file=full), full.read()
    assert kept is not None
    forged = NOTHING if content == "malformed" else msgspec.msgpack.encode(states.Folded((), None))
    replace(FORGERS[forger], path=full.path).write(kept._replace(folded=forged))
    with caplog.at_level(logging.WARNING, "hatstream.learned"):
        assert estimated(many, how) == plain
    assert [record.message.count("learned anew") for record in caplog.records] == [1]


@pytest.mark.parametrize("content", [b"\x93\x01\x02\x03", msgspec.msgpack.encode([[], 0]), None])
def test_a_state_of_another_form_is_learned_anew_and_ends_nothing(many, plain, full, content, caplog):
    kept = full.read()
    assert kept is not None
    full.write(kept._replace(folded=content) if content else [1, 2])  # the last is no state at all
    assert estimated(many, replace(HOW, cache_file=full)) == plain
    assert not caplog.records
    assert content or full.read() == kept


def test_without_the_key_there_is_no_file(tmp_path):
    assert StateFile.of_head(tmp_path / "key.head", "a", None) is None


def test_what_rests_on_other_entries_is_not_believed(many, plain, file):
    how, others = replace(HOW, cache_file=file), entries(len(many), seed=9)
    estimated(others, how)
    assert estimated(many, how) == plain
    first, *rest = many
    changed = [Sequenced(first.sequence, others[0].unit), *rest]
    assert estimated(changed, how) == estimated(changed, HOW)


def test_a_file_of_another_version_is_made_anew(many, plain, file, monkeypatch):
    how = replace(HOW, cache_file=file)
    with monkeypatch.context() as patch:
        patch.setattr(states, "VERSION", 0)
        estimated(many, how)
    before = file.path.read_bytes()
    assert estimated(many, how) == plain
    assert file.path.read_bytes() != before


def test_a_folder_that_nobody_may_write_to_is_told_and_costs_nothing(many, plain, file, monkeypatch, caplog):
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(states, "replacing", refused)
    assert estimated(many, replace(HOW, cache_file=file)) == plain
    assert "cannot be written" in caplog.text


def test_of_two_writers_one_wins_whole(file):
    def write(number: int) -> None:
        for _ in range(20):
            file.write(StoredState(VERSION, str(number), number, msgspec.msgpack.encode([number] * 5_000)))
            state = file.read()
            assert state is not None
            assert set(msgspec.msgpack.decode(state.folded)) == {state.number}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))


def digest_of_two_processes(path: str) -> None:
    """Run by the test below."""
    print(
        estimated(
            entries(FIRST_FOLD + 1),
            replace(HOW, cache_file=StateFile(Path(path), StateFile.of_head(Path(path), "a", OURS).key)),
        ).hex()
    )


@pytest.mark.slow
def test_other_kernels_read_what_one_wrote_and_change_no_byte(file):
    code = f"from {__name__} import digest_of_two_processes as run; run({str(file.path)!r})"
    outputs = []
    for kernel in ("Haswell", "Prescott"):
        environment = os.environ | {"OPENBLAS_CORETYPE": kernel}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        outputs.append(bytes.fromhex(done.stdout.decode()))
    assert outputs == [estimated(entries(FIRST_FOLD + 1), HOW)] * 2
