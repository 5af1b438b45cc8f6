"""Totals of several days, week by week, on made-up cities and on real days repeated: `python -m benchmarks.weeks`.

A total is written EPSILON:DAYS; each day is released with an equal share of its rho. A city can change on one day:
`--slower-from 29` lowers every speed by a fifth from day 29 on, `--closed-from` closes a tenth of the busiest cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import click
import numpy as np

from benchmarks.cities import MadeUp, made_up
from benchmarks.drawn import GRID, drawn
from dpops.learning import DayValues, Learned, State, Status, learned, published, taken_in
from dpops.learning.expected import expected_days
from dpops.levels import BoundsOnly
from dpops.levels.count_check import count_stage
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, read_city, true_day
from transforms.places.hierarchy import design_of, hats_of
from transforms.releases.periods.states import facts_of

TAXIS = MadeUp(
    "500 taxis",
    "cabs",
    vehicles=500,
    days=56,
    rings=6,
    visits=6,
    own_kmh=15,
    apart_kmh=7,
    uneven_kmh=5,
    slow_centre_kmh=4,
    lasting_kmh=1,
    weekend_kmh=3,
    seed=60,
)
BUSES = replace(TAXIS, name="500 buses", kind="lines", lines=30, rings=8, reporting=0.1, seed=62)
SLOWER = Fraction(4, 5)
CLOSED = 0.1
_WEEK = 7


@dataclass(frozen=True)
class DayError:
    """Sums over a day's reports of how far the city's true mean and the published values lie off; None: held back."""

    reports: float
    constant: float
    published: float | None
    within: float | None


@click.command()
@click.option("--feeds", default="500 taxis", show_default=True, help="Names; `drawn 3` is a drawn city; commas.")
@click.option("--days", default=56, show_default=True, help="Days; a feed that has fewer is repeated.")
@click.option("--totals", default="2.64:1,10:28,5:28", show_default=True, help="EPSILON:DAYS; commas.")
@click.option("--data", help="Days of a real feed in the place of made-up ones, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed.")
@click.option("--by-day", default=0, show_default=True, help="So many days one by one, before the weeks.")
@click.option("--slower-from", type=int, help="From this day on every speed is a fifth lower.")
@click.option("--closed-from", type=int, help="From this day on a tenth of the cells, the busiest, are closed.")
def benchmark(
    feeds: str,
    days: int,
    totals: str,
    data: str | None,
    spec: str,
    by_day: int,
    slower_from: int | None,
    closed_from: int | None,
) -> None:
    """A row for each feed and total, as Markdown: error by reports, km/h, in days and weeks; -: held back."""
    cities = {name.strip(): _city(name.strip(), days) for name in feeds.split(",")} if data is None else {}
    if data is not None:
        cities["real"] = read_city(Feed.of(data, Path(spec), None), lambda *_: None)
    spans = _spans(days, by_day)
    print(f"| feed | total | {' | '.join(_named(*span) for span in spans)} | first day | `ok` hold |")
    print("|---|---|" + "---|" * (len(spans) + 2))
    for name, city in cities.items():
        changed = [_changed(city, index + 1, slower_from, closed_from) for index in range(days)]
        shown_constant = False
        for total in totals.split(","):
            errors = list(_errors(city, changed, total))
            if not shown_constant:
                print(f"| {name} | the city's true mean | {_cells(errors, spans, of_constant=True)} | | |")
                shown_constant = True
            first = next((str(index + 1) for index, day in enumerate(errors) if day.published is not None), "-")
            held = np.nanmean([np.nan if day.within is None else day.within for day in errors])
            cells = _cells(errors, spans, of_constant=False)
            print(f"| {name} | {total.replace(':', ' in ')} | {cells} | {first} | {held:.3f} |", flush=True)
            print(
                f"| {name} | {total.replace(':', ' in ')}, expected | {_expected(city, days, total, spans)} | |",
                flush=True,
            )


def _city(name: str, days: int) -> TrueCity:
    named = {of.name: of for of in (TAXIS, BUSES)}
    of = named[name] if name in named else drawn(int(name.removeprefix("drawn ")), 1500)
    return made_up(replace(of, days=min(days, of.days if name in named else days)), GRID)


def _spans(days: int, by_day: int) -> list[tuple[int, int]]:
    """First and one after the last of the days of each column."""
    return [(first, first + 1) for first in range(by_day)] + [
        (first, min(first + _WEEK, days)) for first in range(by_day, days, _WEEK if days <= 100 else 4 * _WEEK)
    ]


def _named(first: int, end: int) -> str:
    return f"day {first + 1}" if end == first + 1 else f"days {first + 1} to {end}"


def _changed(city: TrueCity, number: int, slower_from: int | None, closed_from: int | None) -> TrueDay:
    day = city.days[(number - 1) % len(city.days)]
    rows, shape = day.rows, (len(city.region), city.grid)
    if slower_from is not None and number >= slower_from:
        rows = rows._replace(total=np.rint(rows.total * float(SLOWER)).astype(np.int64))
    if closed_from is not None and number >= closed_from:
        busy = np.argsort(-city.days[0].reports.sum(axis=1))[: round(CLOSED * shape[0])]
        rows = type(rows)(*(column[~np.isin(rows.cell, busy)] for column in rows))
    return day if rows is day.rows else true_day(day.name, rows, day.hours, *shape)


def _errors(city: TrueCity, days: list[TrueDay], total: str) -> Iterator[DayError]:
    epsilon, span = total.split(":")
    how = recipe_for(city, "gaussian", Fraction(epsilon), DELTA, int(span))
    noise = Noise(np.random.default_rng(7).bytes)
    state = State.new(design_of(city.region), facts_of(city.fleet))
    model: Learned | None = None
    for day in days:
        hours = np.array(day.hours, np.int64)
        stages = look(city, day, how, None if model is None else model.forecast(hours), state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        model = learned(state)
        yield _error(city, day, model)


def _error(city: TrueCity, day: TrueDay, model: Learned) -> DayError:
    shown = published(model.estimate(), float(city.grid.upper))
    total = float(np.nansum(day.means * day.reports))
    constant = _missed(day, np.full(day.means.shape, total / day.reports.sum()))
    if np.all(shown.status == Status.HELD_BACK):
        return DayError(float(day.reports.sum()), constant, None, None)
    ok = (day.reports > 0) & (shown.status == Status.OK)
    within = ((shown.lower95 <= day.means) & (day.means <= shown.upper95))[ok]
    return DayError(
        float(day.reports.sum()), constant, _missed(day, shown.values), float(within.mean()) if within.size else None
    )


def _expected(city: TrueCity, days: int, total: str, spans: list[tuple[int, int]]) -> str:
    """What a plan tells beforehand, from public facts: of each span its days' mean, and the first published day."""
    epsilon, span = total.split(":")
    how = recipe_for(city, "gaussian", Fraction(epsilon), DELTA, int(span))
    bounds = BoundsOnly(hats=hats_of(city.region, city.days[0].hours), fleet=city.fleet)
    counts = count_stage(how.later[0], city.fleet.vehicles) is not None
    expected = expected_days(how, bounds, [Fraction(1)] * days, counts_vehicles=counts)
    cells = [f"{np.mean([day.kmh for day in expected[first:end]]):.2f}" for first, end in spans]
    published = next((str(day.number) for day in expected if day.is_published), "-")
    return f"{' | '.join(cells)} | {published}; constant {expected[0].constant_kmh:.2f}"


def _missed(day: TrueDay, values: Float64s) -> float:
    return float(np.nansum(np.abs(values - day.means) * day.reports))


def _cells(of_days: list[DayError], spans: list[tuple[int, int]], *, of_constant: bool) -> str:
    cells = []
    for first, end in spans:
        days = [day for day in of_days[first:end] if of_constant or day.published is not None]
        errors = [day.constant if of_constant else day.published or 0.0 for day in days]
        reports = sum(day.reports for day in days)
        cells.append(f"{sum(errors) / reports:.2f}" if days else "-")
    return " | ".join(cells)


if __name__ == "__main__":
    benchmark()
