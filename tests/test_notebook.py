"""The notebook of `examples/` runs from its first cell to its last, and shows what it showed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow  # the tutorial's test walks the same way
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_showed(path, tmp_path):
    (tmp_path / "notebook.py").write_text("\n\n".join("".join(cell["source"]) for cell in cells(path)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HATSTREAM_LEDGER": ""}
    done = subprocess.run(
        [sys.executable, "notebook.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "town" / "portal" / "map.html").exists()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_whole_in_order_and_shows_no_machine(path):
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))
    assert all(out["output_type"] != "error" for cell in cells(path) for out in cell["outputs"])
    shown = [line for line in path.read_text().splitlines() if '"image/png"' not in line]
    assert not [line for line in shown if "/tmp/" in line or "/home/" in line or "/root/" in line]
    assert max(map(len, shown)) < 400


def test_there_is_a_notebook():
    assert NOTEBOOKS
