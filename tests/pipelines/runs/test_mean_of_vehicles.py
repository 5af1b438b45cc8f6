"""The mean of vehicles' means from a specification to rows: planned, released, recorded, checked and evaluated."""

import csv
import json

import pytest

from pipelines.specification import SpecificationError
from tests import city
from tests.city import loaded
from tests.statistical.checks import seeded
from transforms import tasks

MEAN = 'name = "mean"\nmechanism = "array-average"'
OF_VEHICLES = 'name = "mean-of-vehicles"'
SPEC = city.SPEC.replace(MEAN, OF_VEHICLES).replace("epsilon = 1.0", "epsilon = 1000").replace("50", "100000")
LINES = [
    *(f"SLOW,2022-01-01T08:{minute:02d}:00+05:30,21.17,72.83,2\n" for minute in range(40)),
    "FAST,2022-01-01T08:01:00+05:30,21.17,72.83,40\n",
    "OTHER,2022-01-01T08:02:00+05:30,21.17,72.83,30\n",
]
DAY = ("--from", city.DAYS[0], "--to", city.DAYS[0])


def test_a_slow_bus_counts_once_in_the_rows_and_the_ledger_adds_up(tmp_path, hatstream, monkeypatch):
    monkeypatch.setattr(tasks, "Noise", lambda: seeded(3))
    city.opened(tmp_path, hatstream, spec=SPEC, lines=LINES)
    assert hatstream(*city.release(tmp_path, *DAY))[0] == 0
    (row,) = [row for path in (tmp_path / "out").glob("*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    assert (row["statistic"], row["mechanism"], row["unit"]) == ("mean-of-vehicles", "baseline", "km/h")
    assert float(row["value"]) == pytest.approx(24, abs=0.5), "the mean of all reports is 3.6"
    assert float(row["lower95"]) < 24 < float(row["upper95"])
    assert float(row["bias_bound"]) == pytest.approx(0.005, abs=1e-4)
    assert hatstream("ledger", "verify", "--ledger", tmp_path / "ledger.sqlite")[0] == 0


def test_a_plan_says_what_it_is_worth(tmp_path, hatstream):
    loaded(tmp_path, city.SPEC.replace(MEAN, OF_VEHICLES))
    (tmp_path / "counts.json").write_text("[40, 1, 1]")
    code, out, _ = hatstream("plan", "--spec", tmp_path / "spec.toml", "--counts", tmp_path / "counts.json", "--json")
    (only,) = json.loads(out)["statistics"]
    assert (code, only["statistic"], only["mechanism"], only["unit"]) == (0, "mean-of-vehicles", "baseline", "km/h")
    (hats,) = only["classes"]
    assert hats["noise_scale"] == pytest.approx(65 / 3)


def test_caps_of_counts_are_refused_and_suppression_brings_none(tmp_path):
    with pytest.raises(SpecificationError, match="m_ub does not go with mean-of-vehicles"):
        loaded(tmp_path, city.SPEC.replace(MEAN, f"{OF_VEHICLES}\nm_ub = 3"))
    with pytest.raises(SpecificationError, match="those that fit: baseline"):
        loaded(tmp_path, city.SPEC.replace(MEAN, f'{OF_VEHICLES}\nmechanism = "auto"'))
    clipped = city.SPEC.replace(MEAN, OF_VEHICLES).replace(
        'per = "hat"', 'per = "period"\nscope = "period"\ncomposition = "clip-user"'
    )
    (stat,) = loaded(tmp_path, clipped).statistics
    assert (stat.mechanism.statistic, stat.mechanism.m_ub) == ("mean-of-vehicles", "none")


def test_evaluate_compares_it_with_its_own_truth(tmp_path, hatstream):
    city.write(tmp_path, spec=city.SPEC.replace(MEAN, OF_VEHICLES))
    feed = ["--data", tmp_path / "*.csv", "--spec", tmp_path / "spec.toml", "--not-private"]
    code, out, _ = hatstream("evaluate", "mechanisms", *feed, "--runs", "1", "--epsilons", "1000", "--json")
    [errors] = [row for row in json.loads(out)["rows"] if row["mechanism"] == "mean-of-vehicles"]
    assert (code, errors["hats"] < 1) == (0, True)
