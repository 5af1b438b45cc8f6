"""Guards what suppression costs where it does the most work: a million (vehicle, HAT) rows at a small epsilon.

Run: python -m benchmarks.suppression. Process time, one core; each instance in a process of its own.
"""

import multiprocessing
import resource
import time
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

from dpops.suppression.clip_user import Weights, clip_user

ROWS, HATS, VEHICLES, EVERYWHERE = 1_000_000, 2_000, 100_000, 300
EPSILON = Fraction(1, 1000)
ERRORS = Weights(upper=Fraction(65), mean=Fraction(1, 2), variance=Fraction(1, 2))


def alike(rng):
    """100,000 vehicles, each in 10 HATs, geometric counts."""
    return np.full(VEHICLES, ROWS // VEHICLES), rng.geometric(0.2, ROWS)


def skewed(rng):
    """300 vehicles in all HATs and many in few, counts to 10,000."""
    hats = np.minimum(HATS, 1 + 1.2 * rng.pareto(0.7, VEHICLES)).astype(np.int64)
    hats[:EVERYWHERE] = HATS
    return hats[: np.searchsorted(np.cumsum(hats), ROWS)], np.minimum(1 + 2 * rng.pareto(1.1, ROWS), 10_000)


def everywhere(rng):
    """500 vehicles in all HATs, counts to 10,000."""
    return np.full(ROWS // HATS, HATS), np.minimum(1 + 2 * rng.pareto(1.1, ROWS), 10_000)


INSTANCES = (alike, skewed, everywhere)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(number: int, report) -> None:
    rng = np.random.default_rng(1)
    hats, counts = INSTANCES[number](rng)
    hat = np.concatenate([rng.choice(HATS, number, replace=False) for number in hats.tolist()])
    vehicle, counts = np.repeat(np.arange(hats.size), hats), counts[: hat.size].astype(np.int64)
    before_mb, start = _peak_mb(), time.process_time()
    clipped = clip_user(hat, vehicle, counts, None, EPSILON, ERRORS)
    seconds = time.process_time() - start
    shown = (hat.size, hats.size, int(hats.max()), clipped.most_hats, int((~clipped.is_kept).sum()))
    report.put((*(f"{value:,}" for value in shown), f"{seconds:.1f}", f"{before_mb:.0f}", f"{_peak_mb():.0f}"))


def main() -> None:
    table = Table(title=f"CLIP-USER, {HATS} HATs, epsilon {EPSILON}", title_justify="left")
    for name in ("instance", "rows", "vehicles", "most HATs", "after", "rows gone", "s", "MB before", "peak MB"):
        table.add_column(name, justify="left" if name == "instance" else "right")
    context = multiprocessing.get_context("spawn")
    for number, instance in enumerate(INSTANCES):
        report = context.Queue()
        process = context.Process(target=_child, args=(number, report))
        process.start()
        table.add_row(instance.__name__, *report.get(timeout=1800))
        process.join()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
