"""The sizes and habits that CONTRIBUTING.md promises, held for every file."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("dpops", "transforms", "pipelines", "hatstream", "companions")
ALL = (*PRODUCT, "tests", "benchmarks", "deploy", "docs", "examples")
TEXTS = {".py", ".java", ".md", ".toml", ".json", ".yml", ".yaml", ".html", ".xml", ".sh"}
LINES_OF_FILE, LINES_OF_FUNCTION, FILES_WITH_SCOPE = 400, 60, 2
LINES_OF_CORE = 36_430
"""What two people can carry; it only ever falls: a change that needs more lines removes others."""


def files(*folders: str) -> list[Path]:
    return [
        path
        for name in folders
        for path in (ROOT / name).rglob("*")
        if path.suffix in TEXTS and "build" not in path.parts
    ]


@pytest.fixture(scope="module")
def nodes() -> list[tuple[str, ast.AST]]:
    """The product's functions, classes and comparisons."""
    paths = [path for path in files(*PRODUCT) if path.suffix == ".py"]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Compare)
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_bytes()) for path in paths}
    return [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, kinds)]


def test_no_file_is_longer_than_one_can_read() -> None:
    sizes = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files(*ALL)}
    assert {name: lines for name, lines in sizes.items() if lines > LINES_OF_FILE} == {}


def test_what_benchmarks_import_is_there() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        if not path.stem.endswith("_side"):  # those run in environments of their own
            import_module(f"benchmarks.{path.stem}")


def test_the_core_does_not_grow() -> None:
    core = [path for path in files(*PRODUCT[:4]) if path.suffix == ".py"]
    assert sum(path.read_bytes().count(b"\n") for path in core) <= LINES_OF_CORE


def test_no_function_is_longer_than_a_screen(nodes: list[tuple[str, ast.AST]]) -> None:
    functions = [(path, node) for path, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = {f"{path}: {node.name}": (node.end_lineno or 0) - node.lineno + 1 for path, node in functions}
    assert {name: number for name, number in lines.items() if number > LINES_OF_FUNCTION} == {}


def test_a_name_of_a_class_means_one_thing(nodes: list[tuple[str, ast.AST]]) -> None:
    classes = [(node.name, path) for path, node in nodes if isinstance(node, ast.ClassDef)]
    files_of = {name: [path for other, path in classes if other == name] for name, _ in classes}
    assert {name: paths for name, paths in files_of.items() if len(paths) > 1} == {}


def test_no_test_module_imports_another() -> None:
    pattern = re.compile(r"^\s*from tests\.\S*test_\w+ import", re.MULTILINE)
    assert [str(path) for path in files("tests") if path.suffix == ".py" and pattern.search(path.read_text())] == []


def test_the_scope_of_a_budget_is_compared_in_two_files_at_most(nodes: list[tuple[str, ast.AST]]) -> None:
    """The allocation is asked instead, and the stored unit."""
    compared = [(path, node) for path, node in nodes if isinstance(node, ast.Compare)]
    scoped = {path for path, node in compared if "scope" in map(_name, (node.left, *node.comparators))}
    assert len(scoped) <= FILES_WITH_SCOPE, sorted(scoped)


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
