"""A statistic with options, asked for twice, from specification to rows: the share of reports above a speed."""

from dataclasses import dataclass
from fractions import Fraction

import h3
import numpy as np
import pyarrow.parquet as pq
import pytest

from dpops import statistics
from dpops.mechanisms import registered
from pipelines.cli import main
from pipelines.specification import SpecificationError, load
from tests import city
from tests.dpops.share_above import SHARE_ABOVE, NoisyShare

TWICE = '[[statistic]]\nname = "share"\nabove = 20\n[[statistic]]\nname = "share"\nabove = 40.5\n'
TWICE += 'weight = 2\n[[statistic]]\nname = "mean"'
SPEC = city.SPEC.replace('[[statistic]]\nname = "mean"', TWICE).replace("epsilon = 1.0", "epsilon = 2000")
SPEC = SPEC.replace("limit = 50", "limit = 100000")


@pytest.fixture(autouse=True)
def _share(monkeypatch):
    monkeypatch.setitem(registered(), "noisy-share", NoisyShare)
    monkeypatch.setattr(statistics, "_ALL", (*statistics._ALL, SHARE_ABOVE))


@dataclass(frozen=True, kw_only=True)
class ToldShare(NoisyShare):
    statistic: str = "share above 0"


def test_a_mechanism_is_told_the_options_of_its_statistic(tmp_path, monkeypatch):
    monkeypatch.setitem(registered(), "noisy-share", ToldShare)
    told = [statistic.mechanism for statistic in load(city.write(tmp_path, spec=SPEC)[0]).statistics]
    assert told[:2] == [ToldShare(statistic="share above 20"), ToldShare(statistic="share above 40.5")]


def test_a_statistic_is_released_twice_with_other_options(tmp_path):
    path, _ = city.write(tmp_path, spec=SPEC)
    spec = load(path)
    assert [(statistic.name, statistic.share) for statistic in spec.statistics] == [
        ("share above 20", Fraction(1, 4)),
        ("share above 40.5", Fraction(1, 2)),
        ("mean", Fraction(1, 4)),
    ]
    assert main(city.init(tmp_path)) == 0
    assert main(city.release(tmp_path)) == 0
    released = [row for file in sorted((tmp_path / "out").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    speeds: dict[tuple[str, str], list[int]] = {}
    for line in city.rows():
        _, time, lat, lon, speed = line.strip().split(",")
        speeds.setdefault((time[:13], h3.latlng_to_cell(float(lat), float(lon), 7)), []).append(int(speed))
    for name, above in (("share above 20", 20), ("share above 40.5", 40.5)):
        row_of = {(row["slot_start"][:13], row["cell"]): row for row in released if row["statistic"] == name}
        assert row_of.keys() == speeds.keys()
        for hat, row in row_of.items():
            assert (row["unit"], row["status"], row["mechanism"]) == ("1", "ok", "noisy-share")
            assert row["value"] == pytest.approx(np.mean([speed > above for speed in speeds[hat]]), abs=0.05)
            assert row["lower95"] <= row["value"] <= row["upper95"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("above = 20\n", "", "share needs the option 'above', a number"),
        ("above = 20\n", 'above = "fast"\n', "expected a number, got 'fast'"),
        ("above = 20\n", "above = 40.50\n", "must not repeat"),
        ("above = 20\n", "above = 20\nbelow = 3\n", "unknown option 'below'"),
        ('name = "mean"', 'name = "mean"\nabove = 20', "unknown option 'above'"),
    ],
)
def test_options_that_do_not_fit_the_statistic_are_refused(tmp_path, old, new, message):
    with pytest.raises(SpecificationError, match=message):
        load(city.write(tmp_path, spec=SPEC.replace(old, new, 1))[0])
