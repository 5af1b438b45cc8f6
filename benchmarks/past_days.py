"""What the day N of an account costs, with what older days taught kept in a file and without it.

.venv/bin/python -m benchmarks.past_days --days 60

Made-up days of `levels` are recorded in a ledger one by one. Every tenth day what a new process would do to estimate
it is timed, as seconds of CPU: entries are read, and the model is brought up to that day and fitted.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click
import h3
import numpy as np

from benchmarks.learning import DELTA, TOTAL, made_up
from dpops.accountant import limit_of
from dpops.claims import ZCDP, rho_within
from dpops.levels import UNIT, BoundsOnly, Fleet, recipe, sum_up
from dpops.noise import Noise
from dpops.types import Grid
from transforms.ledger import Account, Ledger
from transforms.ledger.chain import Signature
from transforms.ledger.head import Head
from transforms.places.hierarchy import hats_of
from transforms.releases.periods import fitted, learned, states
from transforms.releases.periods.stages import LevelsPolicy, first_centres, laid_stage, seal_stage
from transforms.releases.slots import SlotFacts
from transforms.releases.state_file import StateFile
from transforms.value import Value

ACCOUNT = Account(
    name="bench",
    unit="vehicle-day",
    since=None,
    until=None,
    timezone="UTC",
    adjacency="add-remove",
    limit="epsilon=2.64,delta=1e-6",
    key_check="00",
)
HOURS, DAY_S = list(range(24)), 86_400
GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
SIGNATURE = Signature(b"k" * 32, "00")
EVERY = 10


@click.command()
@click.option("--days", default=60, show_default=True)
@click.option("--rings", default=9, show_default=True, help="Of cells around one.")
@click.option("--vehicles", default=1000, show_default=True)
def benchmark(days: int, rings: int, vehicles: int) -> None:
    region = tuple(sorted(h3.str_to_int(cell) for cell in h3.grid_disk(h3.latlng_to_cell(30.3, -97.7, 7), rings)))
    print(f"{len(region)} cells\n| day | with the file, s | without |")
    print("|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for day, kept, anew in _levels(Path(folder), region, days, vehicles):
            print(f"| {day} | {kept:.2f} | {anew:.2f} |", flush=True)


def _levels(folder: Path, region: tuple[int, ...], days: int, vehicles: int) -> Iterator[tuple[int, float, float]]:
    ledger, how = _ledger(folder), _policy(region, vehicles, folder)
    for day in range(days):
        slots = _slots(day)
        stage = laid_stage(how, how.later, 0, HOURS, first_centres(len(region), len(HOURS)), day)
        sums = sum_up(made_up(len(region), vehicles, day), stage)
        ledger.record(
            "bench", limit_of(ACCOUNT.limit), "", "", [seal_stage(sums, stage, slots, day * DAY_S, how, Noise())]
        )

        def estimate(how: LevelsPolicy, slots: list[SlotFacts] = slots) -> None:
            states._FOLDED.clear()
            fitted._fitted.cache_clear()
            learned.learned_estimates(ledger.stages("bench", "bench"), how, slots)

        spent = _seconds(lambda estimate=estimate: estimate(how))
        if (day + 1) % EVERY == 0:
            yield day + 1, spent, _seconds(lambda estimate=estimate: estimate(replace(how, kept=None)))


def _slots(day: int) -> list[SlotFacts]:
    name = str(np.datetime64("2026-01-01") + day)
    plan = tuple(day * DAY_S + 3600 * hour for hour in HOURS)
    return [
        SlotFacts(name, *(f"{name}T{hour:02}:{end}+00:00" for end in ("00:00", "59:59")), plan, 1) for hour in HOURS
    ]


def _policy(region: tuple[int, ...], vehicles: int, folder: Path) -> LevelsPolicy:
    fleet = Fleet(vehicles=vehicles)
    how = recipe("gaussian", TOTAL, rho_within(TOTAL, DELTA), BoundsOnly(hats=hats_of(region, HOURS), fleet=fleet))
    return LevelsPolicy(
        spec_id="bench",
        total=ZCDP.of_gaussian(Fraction(UNIT), how.spread),
        epsilon=TOTAL,
        delta=DELTA,
        first=how.first,
        later=how.later,
        region=region,
        value=Value(GRID),
        fleet=fleet,
        digest_key=b"key",
        kept=StateFile.beside(folder / "key.head", "bench", SIGNATURE),
    )


def _ledger(folder: Path) -> Ledger:
    head = folder / "key.head"
    Head(head).create()
    ledger = Ledger(f"sqlite:///{folder}/ledger.sqlite", head)
    ledger.create()
    ledger.open_account(ACCOUNT)
    return ledger


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    benchmark()
