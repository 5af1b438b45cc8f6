"""Guards what plans and releases of every mechanism cost: a slot of 10,000 HATs of 1 to 70 vehicles.

Run: python -m benchmarks.mechanisms. Process time, one core.
"""

import time
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

from dpops.forecast import Prior
from dpops.means.arrays import lengths_of
from dpops.means.grouping import best_fit_arrays
from dpops.mechanism import Mechanism, Totals
from dpops.mechanisms import registered
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid

HATS, MOST_VEHICLES = 10_000, 70
FEW_VEHICLES = (5, 15)
GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)


def slot(least: int = 1, most: int = MOST_VEHICLES, seed: int = 1) -> list[Totals]:
    """HATs whose vehicles have geometric numbers of samples (mean 6) and any speeds; nearly all plans differ."""
    rng = np.random.default_rng(seed)
    hats = []
    for vehicles in rng.integers(least, most + 1, HATS).tolist():
        counts = np.sort(1 + rng.geometric(0.2, vehicles))[::-1].astype(np.int64)
        speed = rng.integers(0, GRID.upper_steps + 1, vehicles)
        hats.append(Totals(counts, counts * speed, counts * speed**2))
    return hats


def contenders() -> dict[str, Mechanism]:
    of_moments = {name: kind for name, kind in registered().items() if "distribution" not in kind.statistics}
    plain: dict[str, Mechanism] = {name: kind() for name, kind in of_moments.items()}
    capped = {"baseline, m_ub opt": Baseline(m_ub="opt"), "baseline-variance, m_ub opt": BaselineVariance(m_ub="opt")}
    prior = Prior(20.0, 12.0)
    autos = {"auto with a prior": Auto(prior=prior), "auto of variance": Auto(prior=prior, statistic="variance")}
    return plain | capped | autos


def add(table: Table, name: str, mechanism: Mechanism, hats: list[Totals]) -> None:
    start = time.process_time()
    plans = mechanism.plans([CountsKnown.all_of(hat.counts) for hat in hats], GRID, Fraction(1))
    planned = time.process_time()
    mechanism.release(hats, plans, Noise())
    done = time.process_time()
    table.add_row(name, f"{planned - start:.2f}", f"{done - planned:.2f}", f"{done - start:.2f}")


def main() -> None:
    hats, few = slot(), slot(*FEW_VEHICLES)
    table = Table(title=f"{HATS} HATs of 1 to {MOST_VEHICLES} vehicles: seconds of one core", title_justify="left")
    for name in ("mechanism", "plan", "release", "both"):
        table.add_column(name, justify="left" if name == "mechanism" else "right")
    rivals = contenders()
    least, most = FEW_VEHICLES
    for name, mechanism in rivals.items():
        add(table, name, mechanism, hats)
    add(table, f"auto with a prior, {least} to {most} vehicles", rivals["auto with a prior"], few)
    Console().print(table)
    users = np.sort(np.random.default_rng(2).geometric(0.02, 1_000_000))[::-1].astype(np.int64)
    for name, counts in (("geometric counts", users), ("all counts 50", np.full(1_000_000, 50, np.int64))):
        start = time.process_time()
        length = lengths_of("argmax", counts[None], Fraction(1))
        arrays = int(best_fit_arrays(np.minimum(counts, length), np.array([counts.size]), length).max()) + 1
        print(f"BestFit of 1,000,000 users, {name}: {arrays} arrays in {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    main()
