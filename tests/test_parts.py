"""Which part of a period something is, and which kind of release, is asked in few files.

The others loop over the parts, and ask the release itself.
"""

import re
from pathlib import Path

import pytest

PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
ROOT = Path(__file__).parent.parent
OWN = re.compile(r"dpops/learning/|/(parts|classes|places|states|live/release)\.py$")
"""A part's own files: its stage, learning, products, options and plan; states are those of the means."""
NO_FILE = re.compile(r"$^")
PART = "(places|classes|live)"
ASKS_PART = re.compile(
    rf"\.{PART} is (not )?None|\b(if|not|and|or) [\w.]*\.{PART}\b(?!\.)|\b(levels|spec|policy|planned)\.{PART}\b"
    r"|\.(is_of_places|has_distributions)\b|\b(PLACE|CLASS)\b|\bstage\.classes\b|\bpart_of\(\w+\.unit\b"
    rf"|\bisinstance\([^)]*\b(Places|Classes)Request\b|^from transforms\.releases\.periods\.{PART} import",
    re.MULTILINE,
)
ASKS_KIND = re.compile(
    r"\blevels is (not )?None|\b(if|not) (self\.)?_?(spec\.)?levels\b(?!\.)"
    r"|\bisinstance\([^)]*\b(Hat|Stage|Live)(Unit|Release)\b"
)


def asking(root: Path, asks: re.Pattern[str], own: re.Pattern[str]) -> list[str]:
    """The files below a folder that ask, but for those whose own matter it is."""
    paths = (path.relative_to(root) for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(str(path) for path in paths if not own.search(str(path)) and asks.search((root / path).read_text()))


def test_no_further_file_asks():
    """The kind: the specification's own three, and what says the claim of a stored unit."""
    for asks, own, most in ((ASKS_PART, OWN, 10), (ASKS_KIND, NO_FILE, 4)):
        assert len(asking(ROOT, asks, own)) <= most, asking(ROOT, asks, own)


@pytest.mark.parametrize(
    ("asks", "own", "lines", "found"),
    [
        (
            ASKS_PART,
            OWN,
            {
                "a": "if levels.classes is None:",
                "b": "if level.name == PLACE:",
                "c": "if spec.places:",
                "d": "for part in spec.parts:",
                "plan/parts": "levels.places is None",
            },
            "abc",
        ),
        (ASKS_KIND, NO_FILE, {"a": "if spec.levels is None:", "b": "isinstance(unit, StageUnit)", "c": "spec.p"}, "ab"),
    ],
)
def test_a_file_that_asks_is_found(tmp_path, asks, own, lines, found):
    (tmp_path / "pipelines" / "plan").mkdir(parents=True)
    for name, line in lines.items():
        (tmp_path / "pipelines" / f"{name}.py").write_text(line)
    assert asking(tmp_path, asks, own) == [f"pipelines/{name}.py" for name in found]
