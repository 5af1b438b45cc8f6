"""The sizes and habits that CONTRIBUTING.md promises, held for every file."""

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("dpops", "transforms", "pipelines", "hatstream", "companions")
ALL = (*PRODUCT, "tests", "benchmarks", "deploy", "docs", "examples")
TEXTS = {".py", ".java", ".md", ".toml", ".json", ".yml", ".yaml", ".html", ".xml", ".sh"}
LINES_OF_FILE = 400
LINES_OF_CORE = 35_150


def files(*folders: str) -> list[Path]:
    return [
        path
        for name in folders
        for path in (ROOT / name).rglob("*")
        if path.suffix in TEXTS and "build" not in path.parts
    ]


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


def test_no_test_module_imports_another() -> None:
    pattern = re.compile(r"^\s*from tests\.\S*test_\w+ import", re.MULTILINE)
    assert [str(path) for path in files("tests") if path.suffix == ".py" and pattern.search(path.read_text())] == []


def test_what_the_makefile_names_is_there() -> None:
    paths = re.findall(r"tests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []
