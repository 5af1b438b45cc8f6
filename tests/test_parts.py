"""Which part of a period something is, is asked in few files: the others loop over the parts."""

import re
from pathlib import Path

PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
ROOT = Path(__file__).parent.parent
OWN = re.compile(r"dpops/learning/|/(parts|classes|places|states|live/release)\.py$")
"""A part's own files: its stage, learning, products, options and plan; states are those of the means."""
PART = "(places|classes|live)"
ASKS = re.compile(
    rf"\.{PART} is (not )?None|\b(if|not|and|or) [\w.]*\.{PART}\b(?!\.)|\b(levels|spec|policy|planned)\.{PART}\b"
    r"|\.(is_of_places|has_distributions)\b|\b(PLACE|CLASS)\b|\bstage\.classes\b|\bpart_of\(\w+\.unit\b"
    rf"|\bisinstance\([^)]*\b(Places|Classes)Request\b|^from transforms\.releases\.periods\.{PART} import",
    re.MULTILINE,
)
MOST = 10


def asking(root: Path) -> list[str]:
    """The files below a folder that ask which part of a period something is, but for the parts' own."""
    paths = (path.relative_to(root) for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(str(path) for path in paths if not OWN.search(str(path)) and ASKS.search((root / path).read_text()))


def test_no_further_file_asks_which_part_it_is() -> None:
    assert len(asking(ROOT)) <= MOST, asking(ROOT)


def test_a_file_that_asks_is_found(tmp_path: Path) -> None:
    (tmp_path / "pipelines" / "plan").mkdir(parents=True)
    lines = {
        "a": "if levels.classes is None:",
        "b": "if level.name == PLACE:",
        "c": "if spec.places:",
        "d": "for part in spec.parts:",
        "plan/parts": "levels.places is None",
    }
    for name, line in lines.items():
        (tmp_path / "pipelines" / f"{name}.py").write_text(line)
    assert asking(tmp_path) == ["pipelines/a.py", "pipelines/b.py", "pipelines/c.py"]
