"""Which kind of release a specification or unit is, is asked in few files: the others ask the release itself."""

import re
from pathlib import Path

PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
ROOT = Path(__file__).parent.parent
ASKS = re.compile(
    r"\blevels is (not )?None|\b(if|not) (self\.)?_?(spec\.)?levels\b(?!\.)"
    r"|\bisinstance\([^)]*\b(Hat|Stage|Live)(Unit|Release)\b"
)
MOST = 4
"""Files: the specification's own three, and what says the claim of a stored unit."""


def asking(root: Path) -> list[str]:
    """The files below a folder that ask which kind of release something is."""
    files = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(str(path.relative_to(root)) for path in files if ASKS.search(path.read_text()))


def test_no_further_file_asks_which_kind_of_release_it_is() -> None:
    assert len(asking(ROOT)) <= MOST, asking(ROOT)


def test_a_file_that_asks_is_found(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    for name, line in [("a", "if spec.levels is None:"), ("b", "isinstance(unit, StageUnit)"), ("c", "spec.products")]:
        (tmp_path / "pipelines" / f"{name}.py").write_text(line)
    assert asking(tmp_path) == ["pipelines/a.py", "pipelines/b.py"]
