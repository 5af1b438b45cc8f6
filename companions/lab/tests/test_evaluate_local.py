"""`hatstream evaluate --local`: the reference table of means is met, fusing wins, and the pictures are drawn."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hatstream_lab.evaluation import local, local_report
from pipelines.cli import hatstream
from pipelines.exit_codes import DONE


@pytest.fixture(scope="module")
def cells() -> list[local.LocalCell]:
    """Four trials of 5,000 users for the means, and one of 1,000 for the distributions."""
    figures = []
    for table, configs, users, trials in (
        ("mean", local.MEANS, 5_000, 4),
        ("distribution", local.DISTRIBUTIONS, 1_000, 1),
    ):
        for config in configs:
            sums = local.run_task((table, "beta", config, 0), users, trials, 1, None)
            figures += [local.cell_of(table, "beta", config, name, np.array(sums[name]), users) for name in sums]
    return figures


def test_means_agree_with_exact_figures_and_those_with_the_reference(cells: list[local.LocalCell]) -> None:
    """36 figures within 4 standard errors of exact ones and 6 of UWA near the reference; seed fixed."""
    agreed = [local_report.agrees(cell) for cell in cells if local_report.agrees(cell) is not None]
    assert len(agreed) == 42
    assert all(agreed)
    for cell in cells:
        exact, reference = local_report.exact_of(cell), local_report.reference_of(cell)
        if exact is not None and reference is not None:
            assert reference == pytest.approx(exact, rel=0.007)


def test_fusing_beats_every_single_service(cells: list[local.LocalCell]) -> None:
    for config in local.MEANS:
        value_of = {cell.column: cell.value for cell in cells if (cell.table, cell.config) == ("mean", config)}
        assert value_of["fixed"] < min(value_of[name] for name in local.MEAN_KINDS)
        assert value_of["fixed"] == pytest.approx(value_of["uwa"], rel=0.01)


def test_tables_and_pictures_are_made(cells: list[local.LocalCell], tmp_path: Path) -> None:
    assert local_report.mean_table(cells).row_count == len(local.MEANS)
    assert local_report.distribution_table(cells, "beta").row_count == len(local.DISTRIBUTIONS)
    paths = local_report.draw(cells, tmp_path)
    assert [path.name for path in paths] == ["fusion-means.png", "fusion-distributions-beta.png"]
    assert all(path.stat().st_size > 5_000 for path in paths)


@pytest.mark.slow
def test_the_command_prints_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hatstream_lab.commands.evaluate_local.USERS", 500)
    monkeypatch.setattr("hatstream_lab.evaluation.local.BUCKETS", 16)
    done = CliRunner().invoke(hatstream, ["evaluate", "--local", "--runs", "1", "--processes", "1", "--json"])
    assert done.exit_code == DONE, done.output
    document = json.loads(done.output)
    assert len(document["cells"]) == 6 * 7 + 2 * 4 * 4
