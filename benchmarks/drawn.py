"""Made-up cities drawn at random over all that was seen of real ones: `python -m benchmarks.drawn --seeds 1,3,5`.

Nobody chose their constants. Cities of even seeds are to choose numbers on; those of odd seeds judge what was chosen,
and are not looked at before. The noise of each city's releases is of its seed too, so two models can be compared.
"""

from fractions import Fraction
from itertools import product

import click
import numpy as np

from benchmarks.cities import MadeUp, made_up
from benchmarks.intervals import KINDS, causal
from dpops.learning import PublishedNumbers, Status
from dpops.noise import Noise
from dpops.types import Float64s, Grid
from hatstream_lab.evaluation.learned import Simulated, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity, TrueDay

GRID = Grid(step=Fraction(1, 100), upper_steps=6500)


_WHOLE_DAY, _SIX_HOURS, _SERVICE = tuple(range(24)), tuple(range(6, 12)), tuple(range(5, 23))


def drawn(seed: int, most_vehicles: int = 5000, most_days: int = 14) -> MadeUp:
    """Places 5 to 35 km/h apart, 20 to 5,000 vehicles, 1 to 800 reports a vehicle and hour, some hours to weeks."""
    rng = np.random.default_rng([seed, 20])
    vehicles = round(_between(rng, 20, most_vehicles))
    rings = int(np.clip(round(2.0 + 0.9 * np.log(vehicles) + rng.normal(0, 1.5)), 3, 12))
    visits = int(rng.integers(1, 8))
    mean = float(rng.uniform(13, 38))
    apart = float(rng.uniform(2, 14))
    return MadeUp(
        f"drawn {seed}",
        "lines" if rng.random() < 0.6 else "cabs",
        vehicles=vehicles,
        days=int(rng.integers(3, most_days + 1)),
        hours=(_WHOLE_DAY, _WHOLE_DAY, _SERVICE, _SIX_HOURS)[rng.integers(0, 4)],
        rings=rings,
        lines=int(np.clip(vehicles / 12, 3, 80)),
        visits=visits,
        mean_kmh=mean,
        rough_kmh=float(rng.uniform(0.5, 3)),
        own_kmh=float(rng.uniform(6, 18)),
        uneven_kmh=float(rng.uniform(0.2, 0.8)) * apart,
        slow_centre_kmh=float(rng.uniform(0, 0.5)) * apart,
        steep=float(rng.uniform(0.8, 3)),
        apart_kmh=apart,
        reporting=float(_between(rng, 1, 800)) / (visits * 3.3),
        lasting_kmh=float(rng.uniform(0, 3)),
        weekend_kmh=float(rng.uniform(2, 6)) if rng.random() < 0.5 else 0.0,
        night=2 if rng.random() < 0.3 else None,
        depot=0.1 if rng.random() < 0.25 else 0.0,
        visitors=float(rng.uniform(0, 0.4)) if rng.random() < 0.5 else 0.0,
        seed=seed,
    )


def _between(rng: np.random.Generator, least: float, most: float) -> float:
    """Log-uniform."""
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


DENSE = MadeUp(
    "dense",
    "lines",
    vehicles=1500,
    days=4,
    hours=tuple(range(6, 23)),
    rings=4,
    lines=40,
    visits=4,
    mean_kmh=27,
    own_kmh=9,
    rough_kmh=1,
    apart_kmh=14,
    uneven_kmh=6,
    slow_centre_kmh=4,
    reporting=8,
    seed=50,
)
SPARSE = MadeUp(
    "sparse", "lines", vehicles=500, days=7, rings=9, lines=40, visits=1, reporting=0.2, apart_kmh=8, seed=52
)


@click.command()
@click.option("--seeds", default="1,3,5,7,9,11", show_default=True)
@click.option("--totals", default="2.64", show_default=True)
@click.option("--noise", default="delta", show_default=True)
@click.option("--most-vehicles", default=5000, show_default=True)
@click.option("--most-days", default=14, show_default=True)
def benchmark(seeds: str, totals: str, noise: str, most_vehicles: int, most_days: int) -> None:
    """A row for each city, total and kind of noise, as Markdown; two cities of extreme kinds besides."""
    print(
        "| city | total | days published | error by reports, km/h | of the constant's | worst day | HATs `ok` | hold |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for of in (DENSE, SPARSE, *(drawn(int(seed), most_vehicles, most_days) for seed in seeds.split(","))):
        city = made_up(of, GRID)
        for total, label in product(totals.split(","), noise.split(",")):
            how = recipe_for(city, KINDS[label], Fraction(total), DELTA)
            simulated = causal(city, how, Noise(np.random.default_rng(of.seed).bytes))
            print(f"| {_described(of)} | {total}, {label} | {_row(city, simulated)} |", flush=True)


def _described(of: MadeUp) -> str:
    return f"{of.name}: {of.vehicles:,} {'buses' if of.kind == 'lines' else 'cabs'}"


def _row(city: TrueCity, simulated: Simulated) -> str:
    days = [
        (day, published)
        for day, published in zip(city.days, simulated.causal, strict=True)
        if not np.all(published.status == Status.HELD_BACK)
    ]
    if not days:
        return f"0 of {len(city.days)} | | | | |"
    errors = np.array([_missed(day, published.values) for day, published in days])
    constant = np.array([_missed(day, np.full(day.means.shape, city.mean_kmh)) for day, _ in days])
    reports = np.array([day.reports.sum() for day, _ in days])
    held = np.concatenate([_held(day, published) for day, published in days])
    whole, bar = float(errors.sum() / reports.sum()), float(constant.sum() / reports.sum())
    share = f"{held.mean():.3f}" if held.size else ""
    worst = float((errors / constant).max())
    return f"{len(days)} of {len(city.days)} | {whole:.2f} | {whole / bar:.3f} | {worst:.2f} | {held.size:,} | {share}"


def _missed(day: TrueDay, values: Float64s) -> float:
    """The sum over reports of how far the values lie off."""
    return float(np.nansum(np.abs(values - day.means) * day.reports))


def _held(day: TrueDay, published: PublishedNumbers) -> "np.typing.NDArray[np.bool_]":
    """Of the HATs that have reports and status `ok`, whether intervals hold their true means."""
    there = (day.reports > 0) & (published.status == Status.OK)
    held: np.typing.NDArray[np.bool_] = ((published.lower95 <= day.means) & (day.means <= published.upper95))[there]
    return held


if __name__ == "__main__":
    benchmark()
