"""`hatstream release` on real telemetry: known figures."""

import csv
from collections import defaultdict
from datetime import datetime

import h3
import pytest

from tests import city
from tests.pipelines.commands.releases import release_real, rows_in


@pytest.mark.slow
def test_four_days_of_austin_give_the_known_figures(telemetry, tmp_path, hatstream):
    done = release_real(hatstream, tmp_path, city.AUSTIN, telemetry / "capmetro/*.csv", "2016-11-24", "2016-11-27")
    assert (done["rows"], done["observations"], done["duplicates"], done["refused"]) == (115_088, 115_088, 0, {})
    assert [period["hats"] for period in done["periods"]] == [1529, 1580, 1715, 1530]
    assert [period["sum_of_slot_maxima"] for period in done["periods"]] == [223, 199, 235, 226]
    assert [period["most_spent_by_a_vehicle"] for period in done["periods"]] == [123, 133, 141, 125]
    assert len(done["files"]) == 96
    assert len(rows_in(tmp_path / "out")) == 6354


def test_with_hardly_any_noise_the_means_are_those_of_an_independent_count(telemetry, tmp_path, hatstream):
    spec = city.AUSTIN.replace("epsilon = 1.0", "epsilon = 1000000").replace('"array-average"', '"baseline"')
    spec = spec.replace("limit = 300", "limit = 1000000000")
    release_real(hatstream, tmp_path, spec, telemetry / "capmetro/2016-11-24.csv", "2016-11-24", "2016-11-24")
    speeds = defaultdict(list)
    with (telemetry / "capmetro/2016-11-24.csv").open() as file:
        for row in csv.DictReader(file):
            slot = datetime.fromisoformat(row["timestamp"]).replace(minute=0, second=0).isoformat()
            cell = h3.latlng_to_cell(float(row["latitude"]), float(row["longitude"]), 7)
            speeds[slot, cell].append(min(max(float(row["speed"]) * 3.6, 0), 65))
    means = {(row["slot_start"], row["cell"]): float(row["value"]) for row in rows_in(tmp_path / "out")}
    assert means.keys() == speeds.keys()
    for key, values in speeds.items():
        assert means[key] == pytest.approx(sum(values) / len(values), abs=0.01)


@pytest.mark.parametrize(
    ("file", "zone", "day", "rows", "observations", "duplicates"),
    [
        ("mbta", "America/New_York", "2022-11-16", 449, 50, 0),
        ("delhi_otd_2021", "Asia/Kolkata", "2018-12-12", 89, 88, 1),
        ("delhi_otd_2025", "Asia/Kolkata", "2025-09-11", 1715, 1707, 0),
    ],
)
def test_snapshots_of_transit_feeds(telemetry, tmp_path, hatstream, file, zone, day, rows, observations, duplicates):
    spec = city.AUSTIN.replace("America/Chicago", zone).replace("capmetro", "gtfs-realtime")
    done = release_real(hatstream, tmp_path, spec, telemetry / f"gtfs_rt/{file}.pb", day, day)
    assert (done["rows"], done["observations"], done["duplicates"]) == (rows, observations, duplicates)
    assert sum(done["refused"].values()) == rows - observations - duplicates
