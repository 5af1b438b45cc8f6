"""The public interface of dpops: every name is there, has words, and is on a page."""

import importlib
import re
from pathlib import Path

import pytest

import dpops

PAGES = Path(__file__).parents[2] / "docs" / "api"


def documented(page):
    """Members by module, as the page asks for them; every public name where it asks for all."""
    by_module = {}
    for module, members in re.findall(
        r"^::: (\S+)(?:\n    options:\n      members: (.*))?", (PAGES / page).read_text(), re.MULTILINE
    ):
        listed = [name.strip() for name in members.strip("[]").split(",")]
        by_module[module] = importlib.import_module(module).__all__ if members == "true" else listed
    return by_module


def test_every_public_name_of_dpops_is_there_and_on_its_page():
    pages = {name for names in documented("dpops.md").values() for name in names}
    assert pages == set(dpops.__all__)
    for name in dpops.__all__:
        assert getattr(dpops, name).__doc__
    with pytest.raises(AttributeError):
        _ = dpops.nothing
    assert dir(dpops) == sorted(dpops.__all__)


def test_a_page_asks_for_names_where_they_are():
    for module, names in documented("dpops.md").items():
        for name in names:
            assert getattr(importlib.import_module(module), name) is getattr(dpops, name)


def test_the_page_of_packages_names_what_is_there():
    for module, names in documented("dpops-packages.md").items():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"
    for package in ("learning", "noise"):
        assert set(documented("dpops-packages.md")[f"dpops.{package}"]) == set(
            importlib.import_module(f"dpops.{package}").__all__
        )


def test_the_example_of_the_page_runs(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (PAGES / "dpops.md").read_text(), re.DOTALL)
    exec(program, {})
    assert re.fullmatch(r"\[+[\d.\s\[\]]+ 1\n", capsys.readouterr().out)
