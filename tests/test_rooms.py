"""The house: no two rooms import each other, and no chain of imports is longer than one can follow.

A room is a module or folder right below a package. The order of the rooms is in pyproject.toml (import-linter).
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
LONGEST_CHAIN = 28

Imports = Mapping[str, frozenset[str]]


@cache
def imports() -> Imports:
    """Every module of the product, and those of them that it imports when it is imported."""
    files = {module_of(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    trees = {name: ast.parse(path.read_bytes()) for name, path in files.items()}
    return {name: frozenset(imported(tree.body, files.keys()) - {name}) for name, tree in trees.items()}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(statements, modules) -> set[str]:
    """What statements import, but for those that wait until a function is called or a type is checked."""
    names = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner & modules or {node.module}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            names |= imported(node.orelse, modules)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            names |= imported(node.body, modules)
    return names & modules


def chain(graph: Imports) -> list[str]:
    """The longest chain of imports, from the top down."""

    @cache
    def below(module: str) -> tuple[str, ...]:
        return (module, *max(map(below, graph[module]), key=len, default=()))

    return list(max(map(below, graph), key=len))


def rooms(graph: Imports) -> Imports:
    """Every room, and those that it imports from."""
    found: dict[str, set[str]] = {}
    for module, others in graph.items():
        found.setdefault(room_of(module), set()).update(map(room_of, others))
    return {room: frozenset(others - {room}) for room, others in found.items()}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def knots(graph: Imports) -> Iterator[set[str]]:
    """Rooms that import each other, however many are between them."""
    reached = {room: reach(graph, room) for room in graph}
    tied = {room: frozenset(other for other in reached[room] if room in reached[other]) for room in graph}
    yield from map(set, {with_others for with_others in tied.values() if with_others})


def reach(graph: Imports, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_chain_of_imports_is_too_long() -> None:
    longest = chain(imports())
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


@pytest.mark.parametrize("package", ["transforms", "pipelines"])
def test_no_two_rooms_import_each_other(package: str) -> None:
    assert [knot for knot in knots(rooms(imports())) if any(room.startswith(package) for room in knot)] == []


def test_a_knot_and_a_long_chain_are_seen() -> None:
    graph = {"a.x": frozenset({"a.y.in"}), "a.y.in": frozenset(), "a.y.out": frozenset({"a.x"})}
    assert list(knots(rooms(graph))) == [{"a.x", "a.y"}]
    assert chain(graph) == ["a.y.out", "a.x", "a.y.in"]
