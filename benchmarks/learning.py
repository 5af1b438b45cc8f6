"""Guards the aims of a learned model's daily update, 2 s and 15 s of CPU: `python -m benchmarks.learning --rings 18`.

Noise is the same in each run, so that versions compare: how many rounds a fit takes depends on it.
"""

import resource
import time
from dataclasses import replace
from fractions import Fraction

import click
import h3
import numpy as np

from dpops.claims import rho_within
from dpops.learning import DayValues, State, add_day, learned
from dpops.levels.bounded import Rows, read, release, sum_up
from dpops.levels.defaults import BoundsOnly, Fleet, recipe
from dpops.levels.stages import StageHats
from dpops.noise import Noise
from transforms.places.ground import design_of, hats_of
from transforms.releases.periods.stages import first_centres
from transforms.releases.periods.states import facts_of, stage_values

TOTAL, DELTA = Fraction("2.64"), Fraction(1, 10**6)


@click.command()
@click.option("--rings", default=18, show_default=True, help="Of cells around one.")
@click.option("--days", default=8, show_default=True)
@click.option("--vehicles", default=1000, show_default=True)
def benchmark(rings: int, days: int, vehicles: int) -> None:
    """Made-up vehicles; each day is released around 20 km/h, taken in, learned from and estimated."""
    region = sorted(h3.str_to_int(cell) for cell in h3.grid_disk(h3.latlng_to_cell(30.3, -97.7, 7), rings))
    hats, fleet, hours = hats_of(region, list(range(24))), Fleet(vehicles=vehicles), np.arange(24)
    how = recipe("gaussian", TOTAL, rho_within(TOTAL, DELTA), BoundsOnly(hats=hats, fleet=fleet))
    stage = replace(how.later[0], around=StageHats(hats, first_centres(hats.cells, hats.slots), Fraction(1, 100)))
    state = State.new(design_of(region), facts_of(fleet))
    noise = Noise(np.random.default_rng(0).bytes)
    print(f"{hats.cells} cells, {state.speed_layout.size(0, border=False)} lasting effects of cells, {_memory_mb()} MB")
    for day in range(days):
        rows = made_up(hats.cells, vehicles, day)
        values = stage_values(read(release(sum_up(rows, stage), stage, noise), stage), fleet)
        start = time.process_time()
        state = add_day(state, DayValues(hours=hours, stages=(values,)))
        learned(state).estimate()
        print(f"day {day + 1}: {time.process_time() - start:.2f} s of CPU, {_memory_mb()} MB at most")


def made_up(cells: int, vehicles: int, seed: int) -> Rows:
    """Each vehicle 60 times in about a dozen neighbouring cells."""
    rng = np.random.default_rng(seed)
    home = np.repeat(rng.integers(0, cells, vehicles), 60)
    cell = np.clip(home + rng.integers(0, 12, home.size), 0, cells - 1)
    slot = rng.integers(0, 24, home.size)
    key = np.unique((np.repeat(np.arange(vehicles), 60) * cells + cell) * 24 + slot)
    vehicle, rest = np.divmod(key, cells * 24)
    reports = rng.integers(1, 5, key.size)
    return Rows(vehicle, rest // 24, rest % 24, reports, reports * rng.integers(500, 4000, key.size))


def _memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    benchmark()
