"""What a terminal and a log see: widths, progress, --quiet and -v, a closed standard output, a poor locale."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from rich.progress import Task
from rich.table import Table

from pipelines.cli import COMMANDS
from pipelines.cli import hatstream as commands
from pipelines.commands import terminal
from tests import city

CELL = "8742d9a61ffffff"


def widest(text):
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("columns", ["60", "80", "130"])
def test_no_text_of_a_table_is_cut_off(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    table = Table(title="title")
    names = [f"a column with a long name {number}" for number in range(6)]
    for name in names:
        table.add_column(name)
    table.add_row(*(CELL for _ in names))
    terminal.console().print(table)
    shown = capsys.readouterr().out
    assert widest(shown) <= int(columns)
    assert "…" not in shown
    assert shown.count("f") >= 6 * CELL.count("f")


def test_in_a_log_a_sentence_is_one_line(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal.console().print("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_release_and_ledger_fit_eighty_columns_with_whole_ids_and_say_more_or_less(town, hatstream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = hatstream("-v", *city.release(town))
    assert (code, str(town / "ledger.sqlite") in err) == (0, True)
    assert hatstream(*city.release(town), "--quiet") == (code, out, "")
    tables = [text for text in out.splitlines() if text[:1] in "┏┃┡│└├"]
    assert widest("\n".join(tables)) <= 80
    _, out, _ = hatstream("ledger", "show", "--ledger", town / "ledger.sqlite")
    assert widest(out) <= 80
    assert re.search(r"│ [0-9a-f]{16} ", out)
    assert "2022-01-01" in out


def test_every_command_takes_quiet_and_verbose():
    for name in COMMANDS:
        command = commands.get_command(None, name)
        for subcommand in [command, *getattr(command, "commands", {}).values()]:
            assert {"quiet", "verbose"} <= {parameter.name for parameter in subcommand.params}, subcommand.name


def test_a_log_gets_lines_of_phases_that_went_on_and_their_ends(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "LOG_EVERY_S", 0.2)
    monkeypatch.setattr(Task, "speed", 1_000.0)
    with terminal.progress_bars(quiet=False) as report:
        for done in (1_000, 61_000):
            report("rows read", done, 100_000)
        until_s = time.monotonic() + 10
        while not (lines := capsys.readouterr().err) and time.monotonic() < until_s:
            time.sleep(0.01)
        report("slots released", 4, 4)
    assert lines == "rows read: 61,000 of 100,000, 1,000/s, 39 s left\n"
    assert capsys.readouterr().err == "slots released: 4 of 4, 1,000/s, 0 s\n"


def test_a_log_of_seconds_has_no_lines(capsys):
    with terminal.progress_bars(quiet=False) as report:
        report("rows read", 1, 2)
    assert capsys.readouterr().err == ""


def test_bars_show_thousands_a_rate_and_fit_eighty_columns(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(Task, "speed", 34_567.0)
    monkeypatch.setattr(terminal, "Console", lambda **_: Console(file=screen, force_terminal=True, width=80))
    with terminal.progress_bars(quiet=False) as report:
        for done in (0, 1_000_000, 2_000_000):
            report("observations read", done, 12_345_678)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "2,000,000 of 12,345,678 34,567/s 5 min 0 s left" in shown
    assert widest(shown.replace("\r", "\n")) <= 80


PROGRAM = "import sys; from pipelines.cli import run; sys.argv[1:] = {}; run()"


def started(arguments, *, by=(), **more):
    env = os.environ | more.pop("env", {})
    return subprocess.run([*by, sys.executable, "-c", PROGRAM.format(arguments)], env=env, check=False, **more)


@pytest.mark.slow
def test_a_poor_locale_fails_nothing(tmp_path):
    city.write(tmp_path)
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    done = started(["plan", "--spec", str(tmp_path / "spec.toml")], capture_output=True, env=poor)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert widest(done.stdout.decode()) <= 80


# --- a signal ends a command, gently or, where it waits for what does not end, at once ---


WAITING_PROGRAM = """
import threading
from pipelines.commands.terminal import asked_to_stop
with asked_to_stop({within_s}) as stop:
    print("ready", flush=True)
    {waits}
print("ended")
"""
GENTLY, FOR_EVER = "stop.wait()", "threading.Event().wait()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("waits", "code", "told"), [(GENTLY, 0, "ended\n"), (FOR_EVER, 4, "stopped while work was unfinished\n")]
)
def test_who_is_asked_to_stop_ends_by_itself_or_is_ended(number, waits, code, told):
    command = [sys.executable, "-c", WAITING_PROGRAM.format(within_s=0.2 if waits == FOR_EVER else 60, waits=waits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert (running.communicate(timeout=60)[0], running.returncode) == (told, code)
