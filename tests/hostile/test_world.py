"""The hostile world holds the four laws on every command; and each law is broken by something made to break it."""

import os
import signal
import time

import pytest

from pipelines import cli
from tests.hostile import laws
from tests.hostile.laws import Broken, Done, Values, check, check_rows, ran
from tests.hostile.world import fresh, lived

FOUND = (1023, 1056)
"""Seeds that broke a law once: a head file that is no UTF-8, and a map to an empty path."""

FIXED = (1, 2, 3, 4)


@pytest.mark.parametrize("seed", [*FIXED, *FOUND])
def test_the_laws_hold_in_a_world_of_a_fixed_seed(seed):
    assert lived(seed) > 5


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
