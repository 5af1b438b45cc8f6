"""The tutorial works as it is printed: its program, its files and every command, with the exit codes that it names."""

import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.cli import main

TUTORIAL = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```(\w+)(?: exit=(\d))?\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_line_of_the_tutorial_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for kind, code, text in BLOCKS:
        if kind == "python":
            exec(compile(text, "tutorial", "exec"), {})
        else:
            for command in text.splitlines():
                assert main(shlex.split(command)[1:]) == int(code or 0), command
    shown = capsys.readouterr()
    statuses = {row["status"] for row in pq.read_table("portal/hats.parquet").to_pylist()}
    assert statuses <= {"ok", "parent"}  # its town is large enough to be published
    assert shown.out.count("2.64") >= 4
    assert "the ledger is whole" in shown.out
    assert re.search(r"2\.64 .*spent by town", shown.err)  # who spent what, in the refusal
    assert {path.name for path in Path().iterdir()} >= {
        "map.html",
        "report.html",
        "town.key",
        "town.key.head",
        "portal",
    }
    assert not list(Path("more").glob("*"))


def test_the_tutorial_has_all_kinds_of_blocks():
    assert {kind for kind, _, _ in BLOCKS} == {"python", "sh"}
    assert sum(text.count("hatstream ") for kind, _, text in BLOCKS if kind == "sh") >= 9
