"""What companions are built on: few names, and nothing else of the core."""

import ast
import tomllib
from pathlib import Path

import pytest

import dpops
import hatstream.api
from dpops.statistics import registered
from transforms.sinks.published import TYPES

ROOT = Path(__file__).parents[2]
COMPANIONS = ("city", "lab", "local", "publish")
MOST = 40  # names of hatstream.api and dpops that companions use


def imported(companion: str, starts: str = "") -> set[str]:
    """The names that a companion imports from the core's packages, or of those that start so, with their modules."""
    names = set()
    for path in (ROOT / "companions" / companion / f"hatstream_{companion}").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    if starts:
        return {name for name in names if name.startswith(starts)}
    return {name for name in names if name.split(".")[0] in ("dpops", "transforms", "pipelines", "hatstream")}


@pytest.mark.parametrize("companion", COMPANIONS)
def test_a_companion_uses_public_names_alone(companion):
    public = {f"hatstream.api.{name}" for name in hatstream.api.__all__} | {f"dpops.{name}" for name in dpops.__all__}
    assert imported(companion) - public == set()


@pytest.mark.parametrize("companion", COMPANIONS)
def test_a_companion_asks_for_those_that_it_is_built_on(companion):
    text = (ROOT / "companions" / companion / "pyproject.toml").read_text()
    asked = {need.split("==")[0] for need in tomllib.loads(text)["project"]["dependencies"]}
    others = {name.split(".")[0] for name in imported(companion, "hatstream_")} - {f"hatstream_{companion}"}
    assert {name.replace("_", "-") for name in others} <= asked


def test_companions_use_few_names():
    used = set().union(*map(imported, COMPANIONS))
    assert len(used) <= MOST
    assert {f"hatstream.api.{name}" for name in hatstream.api.__all__} <= used
    assert sorted(hatstream.api.__all__) == hatstream.api.__all__


def test_what_statistics_put_out_is_declared():
    outputs = {output.name for statistic in registered().values() for output in statistic.extras}
    assert outputs <= TYPES.keys()
