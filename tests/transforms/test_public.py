"""What is for the operator alone has no way out: not by mypy, and not at run time."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from transforms.public import Operator, Summary
from transforms.sinks.files import FORMATS
from transforms.sinks.rows import SCHEMA

ROOT = Path(__file__).parents[2]
LEAKS = Path(__file__).with_name("leaks.py")


def test_mypy_refuses_every_leak_and_nothing_else() -> None:
    """2 s after `make types`, whose cache it uses; a minute without."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(LEAKS.relative_to(ROOT))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    refused = [int(line) for line in re.findall(r"^tests/transforms/leaks\.py:(\d+): error", done.stdout, re.MULTILINE)]
    lines = enumerate(LEAKS.read_text().splitlines(), 1)
    assert refused == [number for number, line in lines if line.endswith("# leak")]
    assert len(done.stdout.splitlines()) == len(refused)


def test_what_shows_values_shows_nothing_of_the_operators() -> None:
    secret = Operator(4711)
    assert "4711" not in f"{secret} {secret!r} {[secret]} {Summary({'a': 1}, secret)}"  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        msgspec.json.encode({"number": secret})
    with pytest.raises(TypeError):
        f"{secret:,}"


@pytest.mark.parametrize("kind", sorted(set(FORMATS) - {"csv"}))
def test_files_take_nothing_of_the_operators(kind: str) -> None:
    columns = {name: ["8742d9d6bffffff"] for name in SCHEMA.names} | {"value": [Operator(4711)]}
    with pytest.raises(Exception, match=r"(?i)operator|type|convert|double"):
        FORMATS[kind](columns, SCHEMA, "name")  # type: ignore[arg-type]


def test_the_operators_part_stands_by_itself() -> None:
    assert Summary({"a": 1}, Operator({"rows": 2})).json() == '{"a":1,"operator_only":{"rows":2}}'
    assert Summary({"a": 1}).json() == '{"a":1}'
