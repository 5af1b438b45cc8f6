"""The statistic `distribution` from specification to files, forecasts and evaluation."""

import csv
import json
from pathlib import Path

import fastavro
import h3
import numpy as np
import pyarrow.parquet as pq
import pytest

from dpops.forecast import Prior
from dpops.mechanisms.tree import BestTree
from dpops.statistics import Histogram
from hatstream_lab.commands.evaluate_distributions import evaluate_distributions
from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation import distributions
from hatstream_lab.evaluation.experiment import Experiment
from hatstream_lab.evaluation.telemetry import Telemetry
from pipelines.cli import main
from pipelines.specification import SpecificationError, load
from tests import city

DISTRIBUTION = '[[statistic]]\nname = "distribution"\nbins = 65\n[[statistic]]'
SPEC = city.SPEC.replace("[[statistic]]", DISTRIBUTION, 1)
OUTPUTS = ("p50", "p85", "mean", "variance")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the small city with so much epsilon that only binning and capping are between it and the truth."""
    made = tmp_path_factory.mktemp("distribution")
    city.write(made, spec=SPEC.replace("epsilon = 1.0", "epsilon = 2000").replace("limit = 50", "limit = 100000"))
    assert main(city.init(made)) == 0
    assert main(city.release(made)) == 0
    return made


def rows(folder: Path) -> list[dict[str, object]]:
    written = [row for path in sorted((folder / "out").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return [row for row in written if row["statistic"] == "distribution" and row["status"] == "ok"]


def spec_of(folder: Path, text: str) -> Path:
    return city.write(folder, spec=text)[0]


# files


def test_a_row_has_quantiles_moments_and_the_shares_below_every_edge(folder: Path) -> None:
    released = rows(folder)
    assert len(released) == 18
    for row in released:
        cdf = row["cdf"]
        assert len(cdf) == 65
        assert cdf == sorted(cdf)
        assert cdf[0] >= 0
        assert cdf[-1] == 1
        assert row["value"] == row["p50"] <= row["p85"]
        assert (row["lower95"], row["upper95"], row["unit"]) == (row["p50_lower95"], row["p50_upper95"], "km/h")
        assert (row["noise_std"], row["bias_bound"]) == (None, None)
        for name in OUTPUTS:
            assert row[f"{name}_lower95"] <= row[name] <= row[f"{name}_upper95"]


def test_with_much_epsilon_the_outputs_are_those_of_the_samples(folder: Path) -> None:
    """Nobody is capped then: shares are exact to the noise, moments to half a bin, quantiles to a bin.

    Of 72 intervals, each of which may miss with probability .05, more than 14 miss with probability 2e-6 at most.
    """
    missed = 0
    speeds: dict[tuple[str, str], list[int]] = {}
    for line in city.rows():
        _, time, lat, lon, speed = line.strip().split(",")
        cell = h3.latlng_to_cell(float(lat), float(lon), 7)
        speeds.setdefault((time[:13], cell), []).append(int(speed))
    row_of = {(row["slot_start"][:13], row["cell"]): row for row in rows(folder)}
    assert row_of.keys() == speeds.keys()
    for hat, own in speeds.items():
        row, samples = row_of[hat], np.array(own)
        below = (samples[:, None] < np.arange(1, 65)).mean(axis=0)
        assert np.abs(np.array(row["cdf"][:-1]) - below).max() < 0.05
        assert abs(row["mean"] - samples.mean()) < 0.5 + 65 * 0.02
        for name, true in (("mean", samples.mean()), ("variance", samples.var())):
            missed += not row[f"{name}_lower95"] <= true <= row[f"{name}_upper95"]
        for name, level in (("p50", 0.5), ("p85", 0.85)):
            true = np.quantile(samples, level, method="inverted_cdf")
            missed += not row[f"{name}_lower95"] <= true <= row[f"{name}_upper95"]
    assert missed <= 14


def test_all_formats_hold_the_same_lists(folder: Path) -> None:
    for path in sorted((folder / "out").glob("*.parquet")):
        table = pq.read_table(path).to_pylist()
        with path.with_suffix(".avro").open("rb") as avro:
            assert list(fastavro.reader(avro)) == table
        assert [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()] == table
        texts = [row["cdf"] for row in csv.DictReader(path.with_suffix(".csv").read_text().splitlines())]
        assert [json.loads(text) if text else None for text in texts] == [row["cdf"] for row in table]


def test_a_second_run_draws_nothing_and_a_mean_beside_it_has_no_list(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    assert main(city.release(folder)) == 0
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == before
    means = [row for path in (folder / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    means = [row for row in means if row["statistic"] == "mean"]
    assert means
    assert {(row["cdf"], row["p50"], row["mean"]) for row in means} == {(None, None, None)}


def test_a_file_without_hats_has_the_same_columns(folder: Path) -> None:
    schemas = {str(pq.read_schema(path)) for path in (folder / "out").glob("*.parquet")}
    assert len(schemas) == 1
    sizes = [pq.read_metadata(path).num_rows for path in (folder / "out").glob("*.parquet")]
    assert 0 in sizes


# specification


def test_histograms_are_tallied_only_where_a_distribution_is_asked_for(tmp_path: Path) -> None:
    from dpops.statistics import columns_of

    plain, asked = (load(spec_of(tmp_path, text)) for text in (city.SPEC, SPEC))
    assert [column.name for column in columns_of(plain.statistics, plain.value.grid)] == ["sums"]
    assert columns_of(asked.statistics, asked.value.grid)[0] == Histogram(65, 6_500)


def test_the_prior_decides_between_the_two_ways(tmp_path: Path) -> None:
    text = SPEC.replace("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }")
    assert load(spec_of(tmp_path, text)).statistics[0].mechanism == BestTree(bins=65, prior=Prior(20.0, 12.0))
    assert load(spec_of(tmp_path, SPEC)).statistics[0].mechanism == BestTree(bins=65)


def test_bins_decide_a_release(tmp_path: Path) -> None:
    ids = [load(spec_of(tmp_path, SPEC.replace("bins = 65", f"bins = {k}"))).spec_id for k in (64, 65)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bins = 0", "bins must be 1 to 10000"),
        ("bins = 10001", "bins must be 1 to 10000"),
        ("bins = 6.5", "bins"),
        ("bins = true", "bins"),
        ('bins = "many"', "bins"),
        ("bin = 65", "unknown option 'bin'"),
        ('mechanism = "levy"', "tree"),
        ('bins = 65\nmechanism = "array-tree"\nm_ub = 0', "m_ub"),
    ],
)
def test_what_is_no_distribution_is_refused_with_its_name(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(SpecificationError, match="statistic") as refusal:
        load(spec_of(tmp_path, SPEC.replace("bins = 65", line)))
    assert told in str(refusal.value)


# plan


@pytest.mark.slow
def test_plan_forecasts_the_error_of_a_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SPEC.replace("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }")
    assert main(["plan", "--spec", str(spec_of(tmp_path, text)), "--synthetic", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [statistic] = [entry for entry in document["statistics"] if entry["statistic"] == "distribution"]
    assert statistic["unit"] == "1"
    for kind in statistic["classes"]:
        assert 0 < kind["forecast_error"] < 1
        assert {choice["mechanism"].split()[0] for choice in kind["chosen"]} <= {"tree", "capped-tree", "array-tree"}


# evaluation


def test_errors_in_the_made_up_city_fall_with_vehicles_and_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "MADE_UP_VEHICLES", (30, 600))
    monkeypatch.setattr(distributions, "MADE_UP_HATS", 6)
    settings = distributions.made_up_settings(65, ["1", "20"])
    table = Experiment(distributions.made_up(65, 1), settings, distributions.measured).table(2)
    errors = {(row["output"], row["epsilon"]): row for row in table.where(released=distributions.TREE).rows}
    for name in distributions.OUTPUTS:
        assert errors[name, "1"]["600"] < errors[name, "1"]["30"]
        assert errors[name, "20"]["600"] < errors[name, "1"]["600"]
    assert errors["p50", "20"]["600"] < 0.3


def test_evaluate_on_telemetry_shows_tables_and_draws_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributions, "MADE_UP_VEHICLES", (3, 9))
    monkeypatch.setenv("COLUMNS", "200")  # no cell of a table is wrapped
    spec, feed = city.write(tmp_path, spec=SPEC)
    output = tmp_path / "figures"
    telemetry = Telemetry.of(str(feed), spec, None)
    evaluate_distributions(telemetry, 13, ["1", "4"], 1, 1, Results(output, as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["hats"] == 18
    labels = {(error["output"], error["released"]) for error in document["errors"]}
    assert labels >= {("p50", "tree"), ("p85", "constant of the city"), ("mean", "array-average")}
    assert "NOT PRIVATE" in document["not_private"]
    assert {path.name for path in output.iterdir()} == {"distribution-dense-city.png", "distributions.json"}
    evaluate_distributions(telemetry, 13, ["4"], 1, 1, Results(None, as_json=False))
    shown = capsys.readouterr().out
    assert "NOT PRIVATE" in shown
    assert "constant of the city" in shown


@pytest.mark.parametrize("more", [["--data", "x.csv"], ["--not-private"], ["--data", "x", "--spec", "y"]])
def test_true_values_are_not_shown_without_being_asked_for(more: list[str]) -> None:
    assert main(["evaluate", "--distributions", *more]) == 1


def test_totals_are_compared_for_means_and_variances_only(tmp_path: Path) -> None:
    spec, feed = city.write(tmp_path, spec=SPEC)
    assert main(["evaluate", "--data", str(feed), "--spec", str(spec), "--not-private", "--totals", "10"]) == 1
