"""The examples in docstrings run and say what they show; each public name has one."""

import doctest
import importlib
from pathlib import Path

import pytest

import dpops
import hatstream.api

EXAMPLES = sorted((of.__name__, name) for of in (dpops, hatstream, hatstream.api) for name in of.__all__)
WITHOUT = {
    "AccountRefusal", "AccountReport", "LedgerError", "Release", "Specification", "StepError", "UsageError",
    "AssignHats", "ContributionsPerUser", "Estimate", "Record", "ReleaseMeans", "count_days", "forecast_of_one",
    "packed",
}  # fmt: skip
"""Names of `hatstream` that need a ledger, a pipeline or a file: README.md, examples/ and docs run them, and
`ClosedHats` the parts of a road."""


@pytest.mark.parametrize(("package", "name"), EXAMPLES)
def test_the_example_of_a_public_name_runs(package, name):
    target = getattr(importlib.import_module(package), name)
    module = importlib.import_module(target.__module__)
    tests = doctest.DocTestFinder(recurse=False).find(target, name, globs=dict(vars(module)))
    examples = [example for test in tests for example in test.examples]
    assert bool(examples) == (name not in WITHOUT)
    for test in tests:
        told: list[str] = []
        assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append).failed == 0, "".join(told)


ROOT = Path(__file__).parents[1]
FOLDERS = {ROOT: ("dpops", "transforms", "pipelines", "hatstream")} | {
    path.parent: (path.name,) for path in ROOT.glob("companions/*/hatstream_*") if path.is_dir() and path.suffix == ""
}
MODULES = [
    ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    for folder, names in FOLDERS.items()
    for name in names
    for path in sorted((folder / name).rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module):
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed
