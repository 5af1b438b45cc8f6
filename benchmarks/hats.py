"""Guards what one HAT costs from counts to files: plan and noise, ledger, estimates, rows; 96,000 in a day.

Run: python -m benchmarks.hats [--mechanism auto] [--formats parquet]. Process time, one core.
"""

import argparse
import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import h3
import numpy as np
import pyarrow.compute  # noqa: F401 - as counting by vehicle has before a HAT is planned

from dpops.accountant import PureLimit
from dpops.allocation import Allocation
from dpops.forecast import Prior
from dpops.mechanism import Mechanism
from dpops.mechanisms import registered
from dpops.mechanisms.auto import Auto
from dpops.noise import Noise
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from tests.transforms.ledger.entries import ACCOUNT, opened
from transforms.ledger.chain import Signature
from transforms.ledger.recording import decoded
from transforms.memory import keep_freed_memory
from transforms.recorded.units import encode
from transforms.releases import SlotFacts
from transforms.releases.hats.draw import Policy, draw_releases
from transforms.releases.hats.release import estimates_of
from transforms.sinks.rows import publish_slot
from transforms.value import Value
from transforms.wire import Tally

SLOTS, CELLS, VEHICLES, ROUTE = 24, 4_000, 2_000, 20
GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)


def slot(slot_s: int, seed: int) -> Tally:
    """Vehicles in 20 cells each with one to nine reports: about ten vehicles a HAT, and hardly two HATs alike."""
    rng = np.random.default_rng(seed)
    cells = np.array(sorted(h3.str_to_int(cell) for cell in h3.grid_disk("872830828ffffff", 40))[:CELLS], np.int64)
    vehicle = np.repeat(np.arange(VEHICLES), ROUTE)
    cell = cells[np.concatenate([rng.choice(CELLS, ROUTE, replace=False) for _ in range(VEHICLES)])]
    kept = rng.integers(1, 10, vehicle.size)
    sums = kept * rng.integers(0, GRID.upper_steps + 1, vehicle.size)
    return Tally(
        np.full(vehicle.size, slot_s), vehicle, cell, kept, np.zeros(vehicle.size, np.int64), sums={"sums": sums}
    )


def policy_of(mechanism: Mechanism) -> Policy:
    return Policy(
        spec_id="0123456789abcdef",
        value=Value(GRID),
        statistics=(RequestedStatistic("mean", mechanism, Fraction(1)),),
        allocation=Allocation(epsilon=Fraction(1)),
        shards=1,
        region=None,
        digest_key=b"k",
    )


class Clock:
    """CPU seconds by the name of what was done."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.spent[name] += time.process_time() - start


def run(mechanism: Mechanism, formats: tuple[str, ...], folder: Path) -> tuple[int, Clock]:
    policy, clock, encoded = policy_of(mechanism), Clock(), []
    signature = Signature(b"key", ACCOUNT.key_check)
    book = opened(f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", limit="1000000", signature=signature)
    for number in range(SLOTS):
        slot_s, hour = number * 3_600, f"2026-05-01T{number:02}"
        facts = {slot_s: SlotFacts("2026-05-01", f"{hour}:00:00+00:00", f"{hour}:59:59+00:00", (slot_s,), SLOTS)}
        tally = slot(slot_s, number)
        with clock.doing("plan, noise, check"):
            ((unit, _),) = draw_releases({(slot_s, 0): tally}, facts, policy, Noise())
        with clock.doing("encode the entry"):
            encoded.append(encode(unit))
    with clock.doing("decode the entry"):
        units = decoded(encoded)
    with clock.doing("record"):
        done = book.record("city", PureLimit(Fraction(10**6)), "name", "{}", units)
    for unit in done.units:
        with clock.doing("estimate"):
            estimates = estimates_of([unit], ["mean"])
        with clock.doing("rows and files"):
            publish_slot(estimates, folder, formats)
    return sum(len(unit.released) for unit in done.units), clock


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mechanism", default="array-average")
    parser.add_argument("--formats", default="parquet")
    asked = parser.parse_args()
    gc.set_threshold(1_000_000, 20, 20)  # as the command line does
    keep_freed_memory()
    kind = registered()[asked.mechanism]
    mechanism = Auto(prior=Prior(20.0, 12.0)) if kind is Auto else kind()
    with tempfile.TemporaryDirectory() as folder:
        hats, clock = run(mechanism, tuple(asked.formats.split(",")), Path(folder))
    print(f"{hats:,} HATs, {asked.mechanism}, {asked.formats}; us of CPU a HAT")
    for name, spent in clock.spent.items():
        print(f"{name:>20} {spent / hats * 1e6:8.1f}")
    print(f"{'in sum':>20} {sum(clock.spent.values()) / hats * 1e6:8.1f}")


if __name__ == "__main__":
    main()
