"""What the past is worth beside means released HAT by HAT, by feed: `python -m benchmarks.past_cities --data ..`.

On a real feed, parts of it and its days taken for one, and on made-up cities. `Pull` of mechanisms and the variances of
HATs were fitted on the real one and its parts, and chosen with made-up ones in view; UNSEEN were looked at last.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import click
import numpy as np

from benchmarks.cities import MadeUp, made_up
from benchmarks.intervals import FITTED, UNSEEN
from dpops.types import Grid
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.past import PastCoverage, PastErrors, Telemetry, compared, telemetry_of
from hatstream_lab.evaluation.truth import TrueDay
from transforms import wire
from transforms.releases.slots import SlotFacts
from transforms.wire import Tally

SMALL = (
    MadeUp(
        "80 smooth buses",
        "lines",
        vehicles=80,
        days=6,
        rings=6,
        lines=10,
        rough_kmh=1,
        own_kmh=9,
        uneven_kmh=1.5,
        seed=51,
    ),
    MadeUp(
        "250 rough cabs",
        "cabs",
        vehicles=250,
        days=4,
        visits=6,
        rough_kmh=4,
        own_kmh=17,
        uneven_kmh=5,
        mean_kmh=28,
        seed=52,
    ),
)
PARTS = {"half": 2, "third": 3, "sixth": 6, "twelfth": 12}
BUSY = ("4-7", "8-15", "16-31", "32+")
LEAST_HATS = 50
DAY_S = 86_400


@click.command()
@click.option("--data", required=True, help="Days of a real feed, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed; its mechanism is tried.")
@click.option("--feeds", default="", help="Names, with semicolons between them; all by default.")
@click.option("--totals", default="30,100,300", show_default=True)
@click.option("--runs", default=1, show_default=True)
def benchmark(data: str, spec: str, feeds: str, totals: str, runs: int) -> None:
    """A row for each feed and total, as Markdown."""
    print(f"| feed (days) | total | held back | model | constant | worst day | all | {' | '.join(BUSY)} |")
    print("|" + "---|" * (7 + len(BUSY)))
    real, policy = telemetry_of(Feed.of(data, Path(spec), None), "1", lambda *_: None)
    chosen = [name.strip() for name in feeds.split(";") if name]
    for (name, make), total in product(_feeds(real, policy.value.grid).items(), totals.split(",")):
        if not chosen or name in chosen:
            telemetry = make()
            comparison = compared(telemetry, policy, [total], runs, lambda *_: None)
            print(f"| {name} ({len(telemetry.periods)}) | {total} | {_row(*comparison)} |", flush=True)


def _feeds(real: Telemetry, grid: Grid) -> Mapping[str, Callable[[], Telemetry]]:
    feeds: dict[str, Callable[[], Telemetry]] = {"real": lambda: real}
    feeds |= {name: partial(_part, real, 1 / of) for name, of in PARTS.items()}
    feeds["three days as one"] = lambda: _as_one(real, 3)
    cities = {city.name: city for city in (*FITTED, *SMALL, *UNSEEN)}
    return feeds | {name: partial(_made_up, of, grid) for name, of in cities.items()}


def _part(real: Telemetry, share: float) -> Telemetry:
    """Random vehicles of each period."""
    rng = np.random.default_rng(1)

    def some(tally: Tally) -> Tally:
        names = np.unique(tally.vehicle)
        return tally.take(np.isin(tally.vehicle, rng.permutation(names)[: round(names.size * share)]))

    return real._replace(periods={period: some(tally) for period, tally in real.periods.items()})


def _as_one(real: Telemetry, days: int) -> Telemetry:
    """So many periods from each one on, taken for it: a denser city. Each vehicle-day stays one."""
    starts = list(real.periods)

    def moved(index: int, by: int) -> Tally:
        tally = real.periods[starts[index + by]]
        slot_s = tally.slot_s - starts[index + by] + starts[index]
        return Tally(slot_s, tally.vehicle ^ (by << 40), *tally.keys()[2:], sums=tally.sums)

    groups = range(len(starts) - days + 1)
    return real._replace(
        periods={starts[index]: wire.joined([moved(index, by) for by in range(days)]) for index in groups}
    )


def _made_up(of: MadeUp, grid: Grid) -> Telemetry:
    city = made_up(of, grid)
    region, slots, periods = np.array(city.region, np.int64), dict[int, SlotFacts](), dict[int, Tally]()
    for index, day in enumerate(city.days):
        name, starts = str(np.datetime64("2026-01-01") + index), index * DAY_S + 3600 * np.array(day.hours)
        plan = tuple(starts.tolist())
        for hour, start in zip(day.hours, plan, strict=True):
            slots[start] = SlotFacts(name, f"{name}T{hour:02}:00:00+00:00", "", plan, 1)
        periods[plan[0]] = _tallied(day, starts, region)
    return Telemetry(slots, periods)


def _tallied(day: TrueDay, starts: "np.typing.NDArray[np.int64]", region: "np.typing.NDArray[np.int64]") -> Tally:
    rows = day.rows
    nothing = np.zeros_like(rows.reports)
    return Tally(starts[rows.slot], rows.vehicle, region[rows.cell], rows.reports, nothing, sums={"sums": rows.total})


def _row(errors: list[PastErrors], coverage: list[PastCoverage]) -> str:
    """Errors by reports, the worst day's over the constant's, and of classes with enough HATs how often intervals
    hold, and half their widths."""
    whole, *days = errors
    if whole.model is None or whole.constant is None:
        return " | ".join([f"{whole.held_back:.2f}", *[""] * (4 + len(BUSY))])
    worst = max(day.model[1] / day.constant[1] for day in days if day.model and day.constant)
    by = {row.vehicles: f"{row.held:.3f} / {row.half_width:.1f}" for row in coverage if row.hats >= LEAST_HATS}
    figures = f"{whole.held_back:.2f}", f"{whole.model[1]:.2f}", f"{whole.constant[1]:.2f}", f"{worst:.2f}"
    return " | ".join([*figures, *(by.get(name, "") for name in ("all", *BUSY))])


if __name__ == "__main__":
    benchmark()
