"""What the day N of an account costs, with what older days taught kept in a file and without it.

.venv/bin/python -m benchmarks.past_days --days 60

Made-up days of `levels`, and of means that are released HAT by HAT (24 slots a day), are recorded in a ledger one by
one. Every tenth day what a new process would do to estimate it is timed, as seconds of CPU: entries are read, and the
model is brought up to that day and fitted.
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
from dpops.accountant import PureLimit, limit_of
from dpops.claims import ZCDP, PureDP, rho_within
from dpops.levels import UNIT, BoundsOnly, Fleet, recipe, sum_up
from dpops.mechanism import plan_of_one
from dpops.mechanisms.array_average import ArrayAverage
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid
from transforms.ledger import Account, Ledger
from transforms.ledger.chain import Signature
from transforms.ledger.head import Head
from transforms.places.hexagons import cell_text
from transforms.places.hierarchy import hats_of
from transforms.recorded.units import HatUnit, Released
from transforms.releases.hats.past_reader import PastReader
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
EPSILON = Fraction(1)
SIGNATURE = Signature(b"k" * 32, "00")
EVERY = 10


@click.command()
@click.option("--days", default=60, show_default=True)
@click.option("--rings", default=9, show_default=True, help="Of cells around one.")
@click.option("--vehicles", default=1000, show_default=True)
def benchmark(days: int, rings: int, vehicles: int) -> None:
    region = tuple(sorted(h3.str_to_int(cell) for cell in h3.grid_disk(h3.latlng_to_cell(30.3, -97.7, 7), rings)))
    print(
        f"{len(region)} cells\n| day | by levels: with the file, s | without | HAT by HAT: with the file, s | without |"
    )
    print("|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for first, second in zip(
            _levels(Path(one), region, days, vehicles), _hats(Path(other), region, days), strict=True
        ):
            print("|", " | ".join([str(first[0]), *(f"{cost:.2f}" for cost in (*first[1:], *second))]), "|", flush=True)


def _levels(folder: Path, region: tuple[int, ...], days: int, vehicles: int) -> Iterator[tuple[int, float, float]]:
    ledger, how = _ledger(folder, ACCOUNT.limit), _policy(region, vehicles, folder)
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


def _hats(folder: Path, region: tuple[int, ...], days: int) -> Iterator[tuple[float, float]]:
    ledger, rng = _ledger(folder, "1000000"), np.random.default_rng(1)
    files = StateFile.beside(folder / "key.head", "bench", SIGNATURE), StateFile(folder / "none" / "never")
    for day in range(days):
        units = [_unit(day, hour, region, rng) for hour in HOURS]
        last = ledger.record("bench", PureLimit(Fraction(1000000)), "", "", units).sequences[-1]

        def estimate(file: StateFile, last: int = last) -> None:
            reader = PastReader(ledger, "bench", "bench", file)
            reader._go_to(last)
            reader.keep()

        spent = _seconds(lambda estimate=estimate: estimate(files[0]))
        if (day + 1) % EVERY == 0:
            yield spent, _seconds(lambda estimate=estimate: estimate(files[1]))


def _unit(day: int, hour: int, region: tuple[int, ...], rng: np.random.Generator) -> HatUnit:
    """A third of the cells has eight vehicles."""
    cells = np.sort(rng.choice(np.array(region), len(region) // 3, replace=False)).tolist()
    counts = CountsKnown(np.full(8, 4, np.int64), 32)
    plan = plan_of_one(ArrayAverage(), counts, GRID, EPSILON)
    kmh = 20 + 5 * np.sin(np.array(cells) % 97) + float(plan.noise_std()) * rng.normal(size=len(cells))
    integers = np.rint(kmh / float(plan.step)).astype(np.int64).tolist()
    slot = _slots(day)[hour]
    return HatUnit(
        spec_id="bench",
        period=slot.period,
        slot_s=day * DAY_S + hour * 3600,
        slot_start=slot.start,
        slot_end=slot.end,
        shard=0,
        per_hat=PureDP(EPSILON),
        spent=PureDP(Fraction(10)),
        debit=PureDP(Fraction(10)),
        unit="km/h",
        released=[
            Released(cell_text(cell), "mean", plan.mechanism, plan.document(), [integer])
            for cell, integer in zip(cells, integers, strict=True)
        ],
        digest="0" * 64,
    )


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


def _ledger(folder: Path, limit: str) -> Ledger:
    head = folder / "key.head"
    Head(head).create()
    ledger = Ledger(f"sqlite:///{folder}/ledger.sqlite", head)
    ledger.create()
    ledger.open_account(replace(ACCOUNT, limit=limit))
    return ledger


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    benchmark()
