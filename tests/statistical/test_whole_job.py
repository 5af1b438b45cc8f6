"""An audit of the whole scheduled job: from files of speeds to what the ledger recorded, over ten thousand copies of
two neighbouring inputs in one release."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import h3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpops.allocation import Allocation
from dpops.types import Int64s
from pipelines.account import location
from pipelines.cli import main
from pipelines.errors import DONE, FAILED
from tests.statistical.audit import bound_of_samples
from transforms.recorded.units import HatUnit, Released
from transforms.releases.hats import draw as by_hexagon

COPIES = 10_000
"""Of each neighbour, with vehicles and cells of their own: as many independent samples of it in one release."""

SLOTS, CELLS = 2, 2
HATS = SLOTS * CELLS
CLAIM = Fraction(5, 2)
"""What a vehicle spends in all its HATs. At 1 the bound would be loose; from 8 on 10^4 samples could not exceed it."""

LEAST = {1: CLAIM * 2 / 5, 2: CLAIM / 5}
"""What the bound must reach to say anything, by the number of statistics. On average it reaches 1.64 with one (standard
deviation 0.12) and 1.07 with two (0.07): of more and noisier integers the rare events say less."""

DAY, DAY_S = "2022-01-01", 1640995200
UPPER_KMH = 65
SPEC = """
name = "audit"
[account]
name = "audit"
unit = "vehicle-day"
timezone = "UTC"
adjacency = "counts-public"
limit = 100
[slot]
minutes = 60
service = "08:00-10:00"
[cells]
resolution = 9
region = "occupied"
[speed]
upper_kmh = {upper_kmh}
[privacy]
epsilon = {epsilon}
per = "{per}"
scope = "{scope}"
{statistics}
[input]
layout = "parquet"
columns = {{ vehicle = "vehicle", time = "time", lat = "lat", lon = "lon", speed = "speed" }}
time_unit = "s"
"""
MECHANISMS = {"mean": "array-average", "variance": "baseline-variance"}
STATISTICS = [("mean",), pytest.param(("mean", "variance"), marks=pytest.mark.slow)]
"""Sets of statistics that are released, and audited, together."""


@dataclass(frozen=True)
class Asked:
    """What the specification asks for. per = "hat": the total divided by hand. lower: of a value in minutes, if any."""

    per: str = "period"
    scope: str = "slot"
    statistics: tuple[str, ...] = ("mean",)
    lower: int = 0

    def text(self) -> str:
        delay = f'[value]\nname = "delay"\nunit = "min"\nlower = {self.lower}\nupper = {UPPER_KMH + self.lower}\n'
        spec = SPEC.replace("[speed]\nupper_kmh = {upper_kmh}\n", delay) if self.lower else SPEC
        spec = spec.replace('speed = "speed"', 'delay = "speed"') if self.lower else spec
        return spec.format(
            upper_kmh=UPPER_KMH,
            epsilon=float(CLAIM / HATS if self.per == "hat" else CLAIM),
            per=self.per,
            scope=self.scope,
            statistics="\n".join(
                f'[[statistic]]\nname = "{name}"\nmechanism = "{MECHANISMS[name]}"' for name in self.statistics
            ),
        )


def cells_of_copies(copies: int) -> list[str]:
    """CELLS cells for each copy of the one neighbour and then of the other, one behind another."""
    middle = h3.latlng_to_cell(21.17, 72.83, 9)
    wanted = 2 * copies * CELLS
    return sorted(h3.grid_disk(middle, 1 + int((wanted / 3) ** 0.5)))[:wanted]


def write_feed(path: Path, copies: int, lower: int = 0) -> None:
    """In every copy two vehicles drive together through four HATs. One always stands still; the other stands still in
    the first neighbour, and in the second it drives at U."""
    place = np.array([h3.cell_to_latlng(cell) for cell in cells_of_copies(copies)]).reshape(2 * copies, CELLS, 2)
    axes = np.meshgrid(np.arange(2 * copies), np.arange(SLOTS), np.arange(CELLS), np.arange(2), indexing="ij")
    copy, slot, cell, vehicle = (axis.ravel() for axis in axes)
    table = {
        "vehicle": np.char.add(np.array(["other", "audited"])[vehicle], copy.astype(str)),
        "time": DAY_S + (8 + slot) * 3600 + cell * 1800,
        "lat": place[copy, cell, 0],
        "lon": place[copy, cell, 1],
        "speed": np.where((vehicle == 1) & (copy >= copies), float(UPPER_KMH), 0.0) + lower,
    }
    pq.write_table(pa.table(table), path)


def release(folder: Path, asked: Asked, copies: int = COPIES) -> int:
    write_feed(folder / "feed.parquet", copies, asked.lower)
    (folder / "spec.toml").write_text(asked.text())
    where = ["--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite")]
    assert main(["init", *where]) == DONE
    files = ["--input", str(folder / "feed.parquet"), "--output", str(folder / "out")]
    return main(["release", *where, *files, "--from", DAY, "--to", DAY, "--json"])


def audited(folder: Path) -> tuple[Int64s, Int64s]:
    """One number of each copy of the two neighbours, int64 (copies,): half the logarithm of how much likelier its noisy
    integers are in the second than in the first, but for a constant, in millionths."""
    copy_of = {cell: number // CELLS for number, cell in enumerate(cells_of_copies(COPIES))}
    total = np.zeros(2 * COPIES)
    for unit in recorded(folder):
        for released in unit.released:
            total[copy_of[released.cell]] += evidence(released)
    first, second = np.rint(1e6 * total).astype(np.int64).reshape(2, COPIES)
    return first, second


def evidence(released: Released) -> float:
    """The noisy integer, cut to lie between the exact ones of the neighbours, 0 and the sensitivity (Neyman-Pearson for
    Laplace noise: beyond them it says no more)."""
    assert released.plan is not None
    assert released.integers is not None
    epsilon = Fraction(released.plan["epsilon"])
    moved = float(Fraction(released.plan["scale"]) * epsilon)
    return float(epsilon) * min(max(released.integers[-1] / moved, 0.0), 1.0)


def recorded(folder: Path) -> list[HatUnit]:
    ledger = location.find(str(folder / "ledger.sqlite"), None).ledger
    return [unit for spent in ledger.spent("audit") for unit in ledger.released(spent.spec_id, spent.period)]


def audit(folder: Path, asked: Asked, capsys: pytest.CaptureFixture[str]) -> float:
    """The bound from below, after a release that says it spent the claim and released every HAT."""
    assert release(folder, asked) == DONE
    (period,) = json.loads(capsys.readouterr().out.splitlines()[-1])["periods"]
    assert period["most_spent_by_a_vehicle"] == CLAIM
    assert period["hats"] == 2 * COPIES * HATS
    return bound_of_samples(*audited(folder))


@pytest.mark.slow
@pytest.mark.parametrize("statistics", STATISTICS, ids="+".join)
def test_a_vehicle_spends_no_more_in_all_its_hats_than_the_release_says(tmp_path, capsys, statistics):
    """About 6 s. False-alarm rate 1e-6; the bound lies 5 of its standard deviations above the least, or more."""
    assert LEAST[len(statistics)] <= audit(tmp_path, Asked(statistics=statistics), capsys) <= CLAIM


@pytest.mark.slow  # 6 s each
@pytest.mark.parametrize("statistics", STATISTICS, ids="+".join)
@pytest.mark.parametrize("way", [("hat", "slot"), ("hat", "period"), ("period", "period"), ("period", "slot", -20)])
def test_so_it_is_in_all_ways_to_ask_for_it(tmp_path, capsys, way, statistics):
    per, scope, *lower = way
    assert LEAST[len(statistics)] <= audit(tmp_path, Asked(per, scope, statistics, *lower), capsys) <= CLAIM


# the audit on wrong code


def spend_in_each_hat(monkeypatch: pytest.MonkeyPatch, epsilon: Fraction) -> None:
    """A mutant that debits what it should, and draws the noise for another epsilon.

    The job and the ledger compare plans with debits, and would refuse it: the audit has to see it alone.
    """
    for module in ("transforms.releases.hats.draw", "transforms.ledger.ledger", "transforms.ledger.releases"):
        monkeypatch.setattr(f"{module}.check_claims", lambda *_: None, raising=False)
    honest = by_hexagon._drawn

    def drawn(asked, policy, noise):
        return honest([slot._replace(epsilon=epsilon) for slot in asked], policy, noise)

    monkeypatch.setattr(by_hexagon, "_drawn", drawn)


@pytest.mark.slow  # 6 s
@pytest.mark.parametrize("statistics", STATISTICS, ids="+".join)
def test_a_job_that_forgets_composition_is_caught(tmp_path, capsys, monkeypatch, statistics):
    """About 6 s. Each HAT at the total, which its books do not show; the bound is about twice the claim, 10 of its
    standard deviations above it."""
    spend_in_each_hat(monkeypatch, CLAIM)
    assert audit(tmp_path, Asked(statistics=statistics), capsys) > CLAIM


@pytest.mark.slow  # 6 s
def test_a_job_that_forgets_half_of_composition_is_caught(tmp_path, capsys, monkeypatch):
    """As if the total were divided by the HATs of a slot only, or by the slots only; the bound lies 4.5 of its standard
    deviations above the claim."""
    spend_in_each_hat(monkeypatch, CLAIM / 2)
    assert audit(tmp_path, Asked(), capsys) > CLAIM


def test_a_job_that_forgets_composition_in_its_books_too_is_refused_by_the_ledger(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Allocation, "hat_epsilon", lambda allocation, _most_hats, _plans: allocation.epsilon)
    assert release(tmp_path, Asked(), copies=10) == FAILED
    assert "more than the total that the plan divides" in capsys.readouterr().err
    assert recorded(tmp_path) == []
    assert list((tmp_path / "out").iterdir()) == []
