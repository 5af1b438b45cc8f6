"""Numbers that were fitted stand in one file; the rooms that learn and plan hold none of their own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpops import fitted

DPOPS = Path(fitted.__file__).parent
ROOMS = [*sorted((DPOPS / "learning").glob("*.py")), *sorted((DPOPS / "levels").glob("*.py")), DPOPS / "spread.py"]
EXACT = {
    *("STEP_KMH", "Z95", "Z90", "LEAST_VEHICLES"),  # what is published: its step, 95 %, and from how many vehicles on
    *("EMPTY_PASSES", "USUAL_PART", "USUAL_STOPS", "CHANCE"),  # promised chances
    *(
        "TYPICAL_KMH", "_LOWEST_KMH", "_HIGHEST_KMH", "RATIOS", "SDS_KMH", "COPIES_KMH", "_SURE",
    ),  # grids, units and their ends
    *("_STEPS", "_MOST_STEP", "_SHRINK", "_FAR", "_TINY", "_SAME"),
    *(
        "MAX_LOG_STEP", "MAX_LOG_VARIANCE", "MAX_DOUBT_STEP", "LARGEST_STEP", "_MAX_EXCESS", "_MAX_VARIANCE_STEP",
        "_CLIP",
    ),
    *("_CONVERGED", "_STRENGTHS_CONVERGED"),  # steps and bounds of fits, and when they end
    *("_QUANTILES", "_GRID", "_ROUNDING"),  # how exactly something is computed
}  # fmt: skip


def numbers_in(text: str) -> Iterator[str]:
    """Names of the module's own that hold a number with a fraction."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            held = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            if any(isinstance(value, float) for value in held):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_other_file_holds_a_fitted_number(path: Path) -> None:
    assert set(numbers_in(path.read_text())) <= EXACT, "it belongs into dpops/fitted.py, with where it comes from"


def test_a_number_among_others_is_found() -> None:
    assert list(numbers_in("A = 3\nB, C = 2, 0.5\nD: float = 1.5\nE = Some(x=0.1)\ndef f(): g = 0.5")) == [
        "B",
        "C",
        "D",
        "E",
    ]


def test_each_number_says_where_it_comes_from() -> None:
    body = ast.parse(Path(fitted.__file__).read_text()).body
    for node, after in zip(body[1:], [*body[2:], None], strict=True):
        if isinstance(node, ast.Assign):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and str(after.value.value)
            assert said, f"line {node.lineno}"


def test_each_number_is_used() -> None:
    further = (
        path for room in ("pipelines/plan", "transforms/releases") for path in (DPOPS.parent / room).rglob("*.py")
    )
    rooms = "".join(path.read_text() for path in (*ROOMS, *further))
    for name in vars(fitted):
        assert not name.isupper() or f"fitted.{name}" in rooms, name
