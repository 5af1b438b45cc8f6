"""The command line: commands are found and imported when they are called, errors become exit codes."""

import importlib
import subprocess
import sys

import pytest

from pipelines.cli import _CODES, COMMANDS, hatstream


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_where_the_table_says(name):
    command = hatstream.get_command(None, name)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", list(_CODES))
def test_every_error_with_an_exit_code_is_where_the_table_says(name):
    module, _, kind = name.rpartition(".")
    found = getattr(importlib.import_module(module), kind)
    assert issubclass(found, Exception)
    assert f"{found.__module__}.{found.__qualname__}" == name


def test_help_imports_neither_beam_nor_numpy():
    ask = "import sys; from pipelines.cli import main; main(['--help'])"
    told = f"{ask}; print(sorted({{'apache_beam', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in COMMANDS)


def test_an_unknown_command_is_wrong_use(hatstream):
    code, _, err = hatstream("relase")
    assert code == 1
    assert "relase" in err


def test_files_that_the_shell_made_of_a_pattern_are_told_to_need_quotes(hatstream):
    needed = ("--spec", "town.toml", "--from", "2026-05-13", "--to", "2026-05-13", "--output", "out")
    code, _, err = hatstream("release", *needed, "--input", "monday.csv", "tuesday.csv")
    assert code == 1
    assert "--input 'feed/*.csv'" in err


def test_wrong_options_are_answered_without_waiting_for_beam():
    """Importing Beam takes seconds; a command imports it when there is something to run."""
    modules = sorted({place.partition(":")[0] for place, _ in COMMANDS.values()})
    load = f"import importlib, sys; [importlib.import_module(name) for name in {modules}]"
    program = f"{load}; sys.exit(bool({{'apache_beam', 'matplotlib'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
