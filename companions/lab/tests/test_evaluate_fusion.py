"""`hatstream evaluate fusion`: the reference table of means is met, fusing wins, and the pictures are drawn."""

import json
from pathlib import Path

import numpy as np
import pytest

from hatstream_lab.evaluation import fusion
from hatstream_lab.evaluation.experiment import Experiment, Table
from pipelines.cli import main


@pytest.fixture(scope="module")
def table() -> Table:
    """Four trials of 5,000 users for the means, and one of 1,000 for the distributions."""
    cells = [fusion.FusionCell("mean", "beta", config, 4, 5_000, 1) for config in fusion.MEANS]
    cells += [fusion.FusionCell("distribution", "beta", config, 1, 1_000, 1) for config in fusion.DISTRIBUTIONS]
    table = Experiment(None, cells, fusion.measure).table(1)
    return table.with_figures({"exact": fusion.exact_of, "agrees": fusion.agrees, "reference": fusion.reference_of})


def test_means_agree_with_exact_figures_and_those_with_the_reference(table: Table) -> None:
    """36 figures within 4 standard errors of exact ones and 6 of UWA near the reference; seed fixed."""
    agreed = [row["agrees"] for row in table.rows if row["agrees"] is not None]
    assert len(agreed) == 42
    assert all(agreed)
    for row in table.rows:
        if row["exact"] is not None and row["reference"] is not None:
            assert row["reference"] == pytest.approx(row["exact"], rel=0.007)


@pytest.mark.parametrize("column", ["uwa", "ua", "laplace"])
def test_a_wrong_figure_is_told(table: Table, column: str) -> None:
    """The check sees an error of a tenth, also where there is an exact figure."""
    [row] = table.where(table="mean", config="A1", column=column).rows
    assert fusion.agrees(row)
    assert fusion.agrees(row | {"value": row["value"] * 1.1}) is False


def test_fusing_beats_every_single_service(table: Table) -> None:
    for config in fusion.MEANS:
        value_of = {row["column"]: row["value"] for row in table.where(table="mean", config=config).rows}
        assert value_of["fixed"] < min(value_of[name] for name in fusion.KINDS["mean"])
        assert value_of["fixed"] == pytest.approx(value_of["uwa"], rel=0.01)


def test_divergence_is_zero_of_equals_and_log_two_of_strangers() -> None:
    first, second = np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.25, 0.75])
    assert fusion.divergence(first, first) == 0
    assert fusion.divergence(first, second) == pytest.approx(np.log(2))


def test_tables_and_pictures_are_made(table: Table, tmp_path: Path) -> None:
    rows = [shown.row_count for shown in fusion.tables(table)]
    assert rows == [len(fusion.MEANS), len(fusion.DISTRIBUTIONS)]
    paths = fusion.pictures(table, tmp_path)
    assert [path.name for path in paths] == ["fusion-means.png", "fusion-distributions-beta.png"]
    assert all(path.stat().st_size > 5_000 for path in paths)


@pytest.mark.slow
def test_the_command_prints_one_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("hatstream_lab.commands.evaluate.USERS", 500)
    monkeypatch.setattr(fusion, "BUCKETS", 16)
    assert main(["evaluate", "fusion", "--runs", "1", "--processes", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 6 * 7 + 2 * 4 * 4
