"""The house: no chain of imports is longer than one can follow.

That no two rooms, modules or folders right below a package, import each other is in pyproject.toml (import-linter).
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
LONGEST_CHAIN = 16

Imports = Mapping[str, frozenset[str]]


@cache
def imports() -> Imports:
    """Every module of the product, and those of them that it imports when it is imported."""
    files = {module_of(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    trees = {name: ast.parse(path.read_bytes()) for name, path in files.items()}
    later = {name: lazy_names(tree.body) for name, tree in trees.items()}
    return {name: frozenset(imported(tree.body, files.keys(), later) - {name}) for name, tree in trees.items()}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def lazy_names(statements) -> Mapping[str, str]:
    """The names that a module imports when another one asks for them, and where they are."""
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in statements):
        return {}
    blocks = [node.body for node in statements if isinstance(node, ast.If) and is_for_types(node)]
    return {alias.name: node.module for block in blocks for node in block for alias in node.names}


def is_for_types(node: ast.If) -> bool:
    return ast.unparse(node.test) == "TYPE_CHECKING"


def imported(statements, modules, later: Mapping[str, Mapping[str, str]]) -> set[str]:
    """What statements import, but for those that wait until a function is called or a type is checked."""
    names = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            asked = [alias.name for alias in node.names]
            inner = {f"{node.module}.{name}" for name in asked}
            inner |= {later.get(node.module, {}).get(name, "") for name in asked}
            names |= inner & modules or {node.module}
        elif isinstance(node, ast.If) and is_for_types(node):
            names |= imported(node.orelse, modules, later)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            names |= imported(node.body, modules, later)
    return names & modules


def chain(graph: Imports) -> list[str]:
    """The longest chain of imports, from the top down."""

    @cache
    def below(module: str) -> tuple[str, ...]:
        return (module, *max(map(below, graph[module]), key=len, default=()))

    return list(max(map(below, graph), key=len))


def test_no_chain_of_imports_is_too_long() -> None:
    longest = chain(imports())
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


def test_a_long_chain_is_seen() -> None:
    graph = {"a.x": frozenset({"a.y.in"}), "a.y.in": frozenset(), "a.y.out": frozenset({"a.x"})}
    assert chain(graph) == ["a.y.out", "a.x", "a.y.in"]


def test_what_a_package_loads_when_it_is_asked_counts_where_it_is() -> None:
    package = "if TYPE_CHECKING:\n    from a.deep import Noun\ndef __getattr__(name): ...\n"
    later = {"a": lazy_names(ast.parse(package).body)}
    statements = ast.parse("from a import Noun").body
    assert imported(statements, {"a", "a.deep"}, later) == {"a.deep"}
