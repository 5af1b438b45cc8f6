"""The hostile world holds the four laws on every command; and each law is broken by something made to break it."""

import os
import signal
import time

import pytest

from pipelines import cli
from tests import city
from tests.hostile import lab, laws, ledgers
from tests.hostile.laws import Broken, Done, Values, check, check_rows, ran
from tests.hostile.standing import _check
from tests.hostile.world import DAYS, World, fresh, lived

FIXED = (1, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", FIXED)
def test_the_laws_hold_in_a_world_of_a_fixed_seed(seed, postgres):
    assert lived(seed, server=postgres) > 5


def test_what_broke_a_law_once_breaks_none_now(tmp_path):
    """A head file that is no UTF-8, a map to an empty path, and telemetry without a row, in each text layout."""
    world = World(1, tmp_path)
    world.run(["init", "--spec", world.path("spec.toml"), *world.account])
    (tmp_path / "ledger.key.head").write_bytes(b"\xff\xfe")
    assert world.run(world.releasing(*DAYS[:2])).code == 4
    assert world.run(["map", "--input", world.path("out"), "--output", ""]).code == 1
    (tmp_path / "t.csv").write_text(city.HEADER)
    (tmp_path / "r.key").write_text("0a" * 32)
    (tmp_path / "r.key").chmod(0o600)
    asked = ["--spec", world.path("fusion.toml"), "--input", world.path("t.csv")]
    given = [*asked, "--output", world.path("r.csv"), "--key", world.path("r.key")]
    assert world.run(["perturb", *given]).code == 4
    (tmp_path / "t.csv").write_bytes(b"")
    for layout in ("csv", "json", "jsonl"):
        (tmp_path / "fusion.toml").write_text(lab.FUSION.replace('layout = "csv"', f'layout = "{layout}"'))
        assert world.run(["perturb", *given]).code == 4


@pytest.mark.slow
def test_the_laws_hold_in_fresh_worlds_for_twenty_minutes():
    broken = [f"seed {seed}: {what}" for seed, _, what in fresh(1_200) if what]
    assert broken == []


def hanging(*_):
    time.sleep(600)


def crashing(*_):
    os.kill(os.getpid(), signal.SIGSEGV)


def failing(arguments, _, *files):
    """As a command that raises what nobody foresaw."""
    os.dup2(os.open(files[1], os.O_WRONLY), 2)
    cli.hatstream.main = lambda *_, **__: {}["unforeseen"]
    os._exit(cli.main(arguments))


@pytest.mark.parametrize(
    ("command", "law"), [(hanging, "did not end"), (crashing, "signal 11"), (failing, "internal error")]
)
def test_a_command_that_hangs_crashes_or_fails_breaks_a_law(command, law, monkeypatch):
    monkeypatch.setattr(laws, "_command", command)
    done = ran(["spec", "check"], {}, deadline_s=3 if command is hanging else laws.DEADLINE_S)
    with pytest.raises(Broken, match=law):
        check(["spec", "check"], done, {})


def test_a_ledger_that_a_full_disk_breaks_breaks_a_law(tmp_path, monkeypatch):
    world, codes = World(1, tmp_path), iter([0, 4, 4])
    monkeypatch.setattr(world, "run", lambda *_, **__: Done(next(codes), "", "said"))
    with pytest.raises(Broken, match="after a full disk with 4"):
        ledgers.on_a_full_disk(world, ["release"])


def test_a_full_disk_is_one(tmp_path):
    world = World(1, tmp_path)
    done = world.run(["init", "--spec", world.path("spec.toml"), *world.account], **{laws.FILE_BYTES: "2000"})
    assert (done.code, "disk" in done.err) == (4, True), done.err


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nTraceback (most", b"HTTP/1.1 200 OK\r\n\r\nroot:x:0"],
)
def test_a_server_that_does_not_answer_fails_or_tells_of_its_machine_breaks_a_law(answer):
    _check(b"GET /", b"HTTP/1.1 501 Unsupported method\r\n\r\n{}")
    with pytest.raises(Broken, match="answer"):
        _check(b"GET /", answer)


def test_a_kill_breaks_a_law_where_nobody_asked_for_it():
    killed = Done(-signal.SIGKILL, "", "")
    check([], killed, {laws.VARIABLE: "tally:1"})
    with pytest.raises(Broken, match="signal 9"):
        check([], killed, {})


def test_rows_that_do_not_add_up_and_failures_without_a_word_break_a_law():
    told = {"rows": 9, "observations": 5, "duplicates": 1, "refused": {"parse/bad-time": 3}}
    check_rows(told)
    check_rows({"operator_only": told})
    for name in ("rows", "observations", "duplicates"):
        with pytest.raises(Broken, match="accounted for"):
            check_rows({"operator_only": told | {name: told[name] + 1}})
    with pytest.raises(Broken, match="without a word"):
        check([], Done(4, "", ""), {})


def test_a_second_value_of_a_release_breaks_a_law(tmp_path):
    path, values = tmp_path / "hats-ab-20220101T080000+0530.csv", Values()
    for value in (1, 1, 2):
        path.write_text(f"cell,statistic,slot_start,value\n87,mean,2022-01-01T08:00:00+05:30,{value}\n")
        if value == 2:
            with pytest.raises(Broken, match="a second value"):
                values.look(tmp_path)
        else:
            values.look(tmp_path)
