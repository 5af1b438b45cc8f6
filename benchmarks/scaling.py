"""Guards unit costs of a slot's end where a country reports: panes merged, a release shard drawn and encoded.

    .venv/bin/python -m benchmarks.scaling                 # a 64th of 10^6 vehicles and 10^6 HATs, half a minute

measurements/scaling.md multiplies these. Vehicles pass through 20 cells in an hour and report every 10 s.
"""

import resource
import time
from fractions import Fraction

import click
import msgspec
import numpy as np

from dpops.mechanism import Totals
from dpops.mechanisms import registered
from dpops.noise import Noise
from dpops.statistics import SUMS
from dpops.types import CountsKnown, Grid
from transforms.count.tally import heard, merge_panes, tally_pane
from transforms.wire import Events, pack_partial, pack_tally, unpack_partial

PANES, CELLS_AN_HOUR, REPORTS = 60, 20, 6
GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)


@click.command()
@click.option("--vehicles", default=15_625)
@click.option("--hats", default=15_625)
def measure(vehicles, hats):
    """Measure one of 64 shards of each kind."""
    rng = np.random.default_rng(1)
    first, ids = rng.integers(0, hats, vehicles), np.sort(rng.integers(0, 1 << 62, vehicles))
    started, packed = time.process_time(), []
    for pane in range(PANES):
        events = _events(rng, ids, first + pane * CELLS_AN_HOUR // PANES)
        packed.append(pack_partial(tally_pane(events, None, (SUMS,)).partial._replace(heard=heard(events))))
    _say("count a pane", (time.process_time() - started) / PANES, vehicles * REPORTS, "report", len(packed[0]))
    started = time.process_time()
    table = merge_panes([unpack_partial(partial, (SUMS,)) for partial in packed], 0, None, (SUMS,))
    entries = sum(unpack_partial(partial, (SUMS,)).vehicle.size for partial in packed)
    _say("merge a slot's panes", time.process_time() - started, entries, "partial entry", sum(map(len, packed)))
    _say("pack the tally", 0.0, table.vehicle.size, "tally entry", len(pack_tally(table)))
    _draw(rng, hats)
    click.echo(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def _events(rng, ids, cell):
    vehicle = np.repeat(ids, REPORTS)
    offset = np.tile(np.arange(REPORTS) * 10_000_000, ids.size)
    where = np.repeat(cell, REPORTS)
    return Events(vehicle, offset, where, where, where, rng.integers(0, 6_500, vehicle.size))


def _draw(rng, hats):
    """HATs of 20 vehicles with 1 to 40 reports: no two are alike."""
    mechanism, totals = registered()["array-average"](), []
    for _ in range(hats):
        counts = np.sort(rng.integers(1, 41, 20))[::-1].astype(np.int64)
        totals.append(Totals(counts, counts * 2_000))
    started = time.process_time()
    plans = mechanism.plans([CountsKnown(total.counts, int(total.counts.sum())) for total in totals], GRID, Fraction(1))
    planned = time.process_time()
    released = mechanism.release(totals, plans, Noise())
    body = msgspec.json.encode([[plan.document(), integers] for plan, integers in zip(plans, released, strict=True)])
    _say("plan", planned - started, hats, "HAT", 0)
    _say("noise and encoding", time.process_time() - planned, hats, "HAT", len(body))


def _say(what, seconds, number, unit, size):
    click.echo(f"{what}: {1e6 * seconds / number:.2f} us and {size / number:.1f} bytes a {unit} ({number:,} of them)")


if __name__ == "__main__":
    measure()
