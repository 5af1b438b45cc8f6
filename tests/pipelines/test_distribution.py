"""The statistic `distribution` from specification to files, forecasts and evaluation."""

import json
from pathlib import Path

import h3
import numpy as np
import pyarrow.parquet as pq
import pytest

from dpops.forecast import Prior
from dpops.mechanisms.trees import BestTree
from dpops.statistics import Histogram
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


def test_a_row_has_quantiles_moments_and_the_shares_below_every_edge(folder):
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


def test_with_much_epsilon_the_outputs_are_those_of_the_samples(folder):
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


# specification


def test_histograms_are_tallied_only_where_a_distribution_is_asked_for(tmp_path):
    from dpops.statistics import columns_of

    plain, asked = (load(spec_of(tmp_path, text)) for text in (city.SPEC, SPEC))
    assert [column.name for column in columns_of(plain.statistics, plain.value.grid)] == ["sums"]
    assert columns_of(asked.statistics, asked.value.grid)[0] == Histogram(65, 6_500)


def test_the_prior_decides_between_the_two_ways(tmp_path):
    text = SPEC.replace("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }")
    assert load(spec_of(tmp_path, text)).statistics[0].mechanism == BestTree(bins=65, prior=Prior(20.0, 12.0))
    assert load(spec_of(tmp_path, SPEC)).statistics[0].mechanism == BestTree(bins=65)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bins = 0", "bins must be 1 to 10000"),
        ("bins = 10001", "bins must be 1 to 10000"),
        ("bins = 6.5", "bins"),
        ("bins = true", "bins"),
        ('bins = "many"', "bins"),
        ("bin = 65", "unknown option 'bin'"),
        ('bins = "many"', "Expected `int`, got `str` - at `$.bins`; it is 'many'"),
        ('mechanism = "levy"', "tree"),
        ('bins = 65\nmechanism = "array-tree"\nm_ub = 0', "m_ub"),
    ],
)
def test_what_is_no_distribution_is_refused_with_its_name(tmp_path, line, told):
    with pytest.raises(SpecificationError, match="statistic") as refusal:
        load(spec_of(tmp_path, SPEC.replace("bins = 65", line)))
    assert told in str(refusal.value)


# plan


@pytest.mark.slow
def test_plan_forecasts_the_error_of_a_share(tmp_path, capsys):
    text = SPEC.replace("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }")
    assert main(["plan", "--spec", str(spec_of(tmp_path, text)), "--synthetic", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [statistic] = [entry for entry in document["statistics"] if entry["statistic"] == "distribution"]
    assert statistic["unit"] == "1"
    for kind in statistic["classes"]:
        assert 0 < kind["forecast_error"] < 1
        assert {choice["mechanism"].split()[0] for choice in kind["chosen"]} <= {"tree", "capped-tree", "array-tree"}


# evaluation


def test_evaluate_compares_percentiles_of_hats_with_the_truth(tmp_path, capsys):
    buses = [line.replace("PLATE", f"PLATE{number}") for number in range(4) for line in city.rows()]
    text = SPEC.replace("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }")
    spec, feed = city.write(tmp_path, spec=text, lines=buses)
    asked = ["evaluate", "distributions", "--data", str(feed), "--spec", str(spec), "--not-private", "--runs", "1"]
    assert main([*asked, "--epsilons", "200", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {(row["product"], row["percentile"]) for row in rows} == {("hats", "P50"), ("hats", "P85")}
    assert all(0 <= row["error"] < row["constant"] + 1 for row in rows)
