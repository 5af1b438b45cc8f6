"""The ready specifications in `examples/` open an account, plan and release."""

import csv
import json
from pathlib import Path

import pytest

from pipelines.specification import load
from tests import city

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))


def feed(folder, layout):
    """The small city's reports of one day, as the example's layout has them."""
    lines = [city.HEADER, *city.rows(city.DAYS[:1])]
    path = folder / f"feed.{layout}"
    if layout == "csv":
        path.write_text("".join(lines))
    else:
        rows = [{**row, **{name: float(row[name]) for name in ("lat", "lon", "v")}} for row in csv.DictReader(lines)]
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_planned_and_released(path, tmp_path, hatstream):
    spec = load(path)
    ledger = tmp_path / "ledger.sqlite"
    layout = json.loads(spec.text)["input"]["layout"]
    assert hatstream("plan", "--spec", path, "--json")[0] == 0
    assert hatstream("init", "--spec", path, "--ledger", ledger)[0] == 0
    code, out, _ = hatstream(
        "release", "--spec", path, "--ledger", ledger, "--input", feed(tmp_path, layout), "--json",
        "--from", city.DAYS[0], "--to", city.DAYS[0], "--output", tmp_path / "out", "--formats", "jsonl",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["periods"][0]["hats"] > 0
    assert hatstream("ledger", "verify", "--ledger", ledger)[0] == 0
