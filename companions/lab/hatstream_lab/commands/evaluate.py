"""`hatstream evaluate`: errors of releases, on several data sets.

`feed`: telemetry with its specification, None for made-up data. A city is counted days, of telemetry or made up.
`bars(phase, done, total)` shows progress; `experiment(data, settings, measure, runs, ..)` averages rows of
figures over runs; `results.show` prints tables or JSON, and `results.draw` makes pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from hatstream.api import InputError, UsageError, console, load, option, packed, progress_bars
from hatstream_lab.evaluation.experiment import NOT_PRIVATE, Table, experiment

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from hatstream_lab.evaluation.days import Days
    from hatstream_lab.evaluation.experiment import Report

USERS = 100_000  # of a trial of fusion


class Feed(NamedTuple):
    """Telemetry with its specification, and first and last date."""

    pattern: str
    spec_path: Path
    dates: tuple[str, str] | None


def _feed(
    pattern: str | None, spec_path: Path | None, not_private: bool, start: str | None = None, end: str | None = None
) -> Feed | None:
    """Checks options that belong together (else UsageError); returns the telemetry, None without --data."""
    if pattern is None:
        if spec_path is not None or not_private or start is not None or end is not None:
            raise UsageError("--spec, --from, --to and --not-private go with --data")
        return None
    if spec_path is None or not not_private:
        raise UsageError("--data needs --spec and --not-private: the output shows functions of true values")
    if (start is None) != (end is None):
        raise UsageError("--from and --to go together")
    return Feed(pattern, spec_path, dates=None if start is None or end is None else (start, end))


def telemetry_options(*, required: bool = True, dated: bool = True) -> Callable[[Any], Any]:
    """Makes a decorator that gives a command `feed`: a Feed, None without --data."""
    dates = (
        click.option("--from", "start", metavar="DATE", help="First local date, or an ISO time."),
        click.option("--to", "end", metavar="DATE", help="Last local date (included), or an ISO time."),
    )
    return packed(  # these options go into `_feed`, and what it returns into the command's argument `feed`
        "feed",
        _feed,
        click.option("--data", "pattern", metavar="GLOB", required=required, help="Telemetry; needs --spec."),
        click.option("--spec", "spec_path", type=click.Path(path_type=Path, dir_okay=False), help="Its specification."),
        click.option("--not-private", is_flag=True, help="Confirm that the output shows functions of true values."),
        *(dates if dated else ()),  # a range of days, where the command reads one
    )


@dataclass(frozen=True)
class Results:
    """Output of an evaluation: tables, JSON, documents and pictures."""

    output: Path | None
    as_json: bool

    def show(
        self, name: str, table: Table, blocks: Iterable[str | RichTable], *, shows_truth: bool = True, **facts: Any
    ) -> None:
        """Writes JSON of `facts` and rows, and prints it or `blocks`, with any warning."""
        document = {**({"not_private": NOT_PRIVATE} if shows_truth else {}), **facts, "rows": table.rows}
        encoded = msgspec.json.encode(document)
        if self.output is not None:
            self.output.mkdir(parents=True, exist_ok=True)
            (self.output / f"{name}.json").write_bytes(encoded)
            click.echo(f"wrote {self.output / name}.json", err=True)
        if self.as_json:
            click.echo(encoded.decode())
            return
        out, warning = console(), [NOT_PRIVATE] if shows_truth else []
        for block in (*warning, *blocks, *warning):
            out.print(block, soft_wrap=isinstance(block, str))

    def draw(self, pictures: Callable[[Table, Path], Sequence[Path]], table: Table) -> None:
        """Draws a table's pictures into the output folder."""
        if self.output is not None:
            click.echo(f"wrote {len(pictures(table, self.output))} pictures to {self.output}", err=True)


results_options = packed(
    "results",
    Results,
    option("folder", required=False, help="Folder for all figures as JSON, and for pictures."),
    option("json"),
)
seed_option = click.option("--seed", type=int, default=1, show_default=True, help="Seed of made-up data and noise.")
processes_option = click.option("--processes", type=click.IntRange(1), default=2, show_default=True, help="Workers.")


def runs_option(number: int) -> Callable[[Any], Any]:
    """Creates the option --runs with its default."""
    return click.option("--runs", type=click.IntRange(1), default=number, show_default=True, help="Repetitions.")


def epsilons_option(name: str, default: str, help: str) -> Callable[[Any], Any]:
    """Creates an option of comma-separated epsilons, which the command gets as written."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> list[str]:
        epsilons = [text_of_epsilon.strip() for text_of_epsilon in text.split(",")]
        for text_of_epsilon in epsilons:
            try:
                epsilon = Fraction(text_of_epsilon)
            except (ValueError, ZeroDivisionError):
                epsilon = Fraction(0)  # no number: refused below
            if not Fraction(1, 10**6) <= epsilon <= 10**6:
                raise UsageError(f"{name} needs numbers from 1e-6 to 1e6; {text_of_epsilon!r} is not one")
        return epsilons

    return click.option(name, default=default, show_default=True, callback=read, help=help)


noise_option = click.option(
    "--noise",
    type=click.Choice(["pure", "delta", "pure,delta"]),
    default="pure,delta",
    show_default=True,
    callback=lambda _context, _parameter, value: value.split(","),
    help="Pure DP, DP with delta 1e-6, or both.",
)


@click.group()
def evaluate() -> None:
    """Compare releases with the truth: the papers' tables (docs/algorithms.md), or errors on your telemetry.

    \b
    Examples:
      hatstream evaluate papers --runs 1000 --output build/evaluation
      hatstream evaluate mechanisms --data 'feed/*.csv' --spec austin.toml --not-private
      hatstream evaluate days --data 'feed/*.csv' --spec austin.toml --not-private --totals 1,2.64
      hatstream evaluate days --cities '500 taxis,drawn 1' --totals 2.64 --runs 1
      hatstream evaluate distributions --data 'feed/*.csv' --spec austin.toml --not-private
      hatstream evaluate fusion --output build/fusion
    """


@evaluate.command()
@runs_option(10_000)
@seed_option
@click.option("--counts", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="JSON: samples per bus.")
@click.option(
    "--sets",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of .npz data sets (counts, values in km/h) instead of the generated ones.",
)
@click.option("--not-private", is_flag=True, help="With --sets: the output shows functions of true values.")
@processes_option
@results_options
def papers(
    runs: int, seed: int, counts: Path | None, folder: Path | None, not_private: bool, processes: int, results: Results
) -> None:
    """Simulate every mechanism on the papers' data sets, beside the published errors."""
    from hatstream_lab.evaluation import papers
    from hatstream_lab.evaluation.papers import counts_from

    if not_private != (folder is not None):
        raise UsageError("--sets needs --not-private: the output shows functions of true values; nothing else needs it")
    samples = None if counts is None else tuple(counts_from(counts).tolist())
    sources = papers.Sources(seed, samples, folder)
    with progress_bars(quiet=results.as_json) as bars:
        table = papers.compare(sources, runs, partial(bars, "cells simulated"), processes)
    results.draw(papers.pictures, table)
    # A folder holds the papers' own sets, on which the published errors must be met.
    tables = papers.tables(table, is_exact=folder is not None)
    results.show("papers", table, tables, shows_truth=folder is not None)


@evaluate.command()
@telemetry_options()
@epsilons_option("--epsilons", "0.5,1,2", "Epsilons of a HAT.")
@runs_option(20)
@results_options
def mechanisms(feed: Feed, epsilons: list[str], runs: int, results: Results) -> None:
    """Compare every mechanism for means on telemetry, HAT by HAT, with the true means."""
    from hatstream_lab.evaluation import mechanisms

    with progress_bars(quiet=results.as_json) as bars:
        hats = mechanisms.read_hats(*feed, bars)
        prior = load(feed.spec_path).prior
        contenders = list(mechanisms.contenders(hats, epsilons, prior))
        table = experiment(hats, contenders, mechanisms.measure, runs, partial(bars, "runs compared"))
    number, reports = len(hats.totals), int(hats.reports.sum())
    first = f"{number} HATs, {reports} samples, city mean {hats.mean_kmh:.2f} km/h, {runs} runs"
    parts = (first, *mechanisms.tables(table, hats))
    results.show("mechanisms", table, parts, hats=number, reports=reports, city_mean_kmh=hats.mean_kmh)


@evaluate.command()
@telemetry_options(required=False)
@click.option("--cities", metavar="NAMES", help="In place of --data: made-up cities (? lists), such as '500 taxis'.")
@epsilons_option("--totals", "1,2.64,10", "Epsilons to try, each a vehicle's total for a day or for --span-days.")
@noise_option
@click.option("--span-days", type=click.IntRange(1, 3_653), default=1, show_default=True, help="Days a total covers.")
@click.option(
    "--days",
    "number",
    type=click.IntRange(1, 3_653),
    help="Number of days: repeated telemetry, or new days of a made-up city.",
)
@runs_option(5)
@results_options
def days(
    feed: Feed | None,
    cities: str | None,
    totals: list[str],
    noise: list[str],
    span_days: int,
    number: int | None,
    runs: int,
    results: Results,
) -> None:
    """Release days by levels, and compare estimates, intervals, products and places with truth."""
    from hatstream_lab.evaluation import released

    if (feed is None) == (cities is None):
        raise UsageError("give telemetry (--data) or made-up cities (--cities)")
    settings = released.settings(totals, noise, span_days)
    is_brief = cities is not None or number is not None  # days are many then: causal estimates alone
    measure = partial(released.learned, is_brief=is_brief)
    rows: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    with progress_bars(quiet=results.as_json) as bars:
        for name, city in _cities(feed, cities, number, bars):
            table = experiment(city, settings, measure, runs, partial(bars, "runs simulated"))
            constant = released.constant_table(city)  # errors of the true city mean, to compare with
            rows += [{"city": name, **row} for row in (*constant.rows, *table.rows)]
            facts.append(_facts_of(name, city))
    table = Table(rows)
    results.draw(released.pictures, table)
    parts = (*(fact["shown"] for fact in facts), *released.tables(table))
    # The first city's facts stand at the top too, where telemetry alone has its own.
    results.show("days", table, parts, **facts[0], cities=facts, span_days=span_days)


def _cities(feed: Feed | None, cities: str | None, number: int | None, report: Report) -> Iterator[tuple[str, Days]]:
    """Yields the telemetry's days, unnamed (""), or each made-up city with its name.

    feed: None for made-up cities. number: of days of each city, or of repeated telemetry; None for those there are.
    """
    from hatstream_lab.evaluation.cities import city_named
    from hatstream_lab.evaluation.days import read_days, tables_of

    if feed is None:
        for name in (cities or "").split(","):
            yield name.strip(), city_named(name.strip(), number)
        return
    base = tables_of(feed.spec_path)  # its own products are replaced by those that are compared with the truth
    products = ["days", "parent-hour", "city-hour", *(["place-standing"] if "places" in base else [])]
    tables = {name: base[name] for name in ("places",) if name in base}
    days = read_days(*feed, report, **tables, output=[{"product": product} for product in products])
    yield "", days if number is None else days.repeated(number)


def _facts_of(name: str, city: Days) -> dict[str, Any]:
    """Describes a city's counted days for JSON; `shown` says it to people."""
    region = "the first day's cells and a ring, which carries no guarantee" if city.made_region else "as specified"
    number = f"{len(city.names)} day{'s' * (len(city.names) != 1)}"
    return {
        "city": name,
        "days": city.names,
        "cells": len(city.region),
        "region_of_first_day": city.made_region,
        "city_mean_kmh": city.mean_kmh,
        "shown": f"{name}{': ' * bool(name)}{number}, {len(city.region):,} cells ({region}), "
        f"mean {city.mean_kmh:.2f} km/h",
    }


@evaluate.command()
@telemetry_options()
@epsilons_option("--epsilons", "1,2.64,10", "Epsilons: of a vehicle and day by levels, else of a HAT.")
@noise_option
@runs_option(3)
@results_options
def distributions(feed: Feed, epsilons: list[str], noise: list[str], runs: int, results: Results) -> None:
    """Release distributions, by levels or as specified, and compare percentiles with the truth."""
    from hatstream_lab.evaluation import released
    from hatstream_lab.evaluation.days import read_with_bins

    with progress_bars(quiet=results.as_json) as bars:
        city = read_with_bins(*feed, bars)
        settings = released.settings(epsilons, ["pure"] if city.is_by_hat else noise)  # HAT by HAT there is no delta
        table = experiment(city, settings, released.percentiles, runs, partial(bars, "runs simulated"))
    facts = _facts_of(name="", city=city)
    results.show("distributions", table, (facts["shown"], *released.tables(table)), **facts)


@evaluate.command()
@telemetry_options(required=False, dated=False)
@click.option("--runs", "trials", type=click.IntRange(1), default=50, show_default=True, help="Trials of each setting.")
@seed_option
@processes_option
@results_options
def fusion(feed: Feed | None, trials: int, seed: int, processes: int, results: Results) -> None:
    """Fuse simulated reports to several services (recipients), and compare with exact and reference figures.

    --data and --spec, the specification of a fusion, add the speeds of telemetry to the two made-up sets of values.
    """
    from hatstream_lab.evaluation import fusion
    from hatstream_local.fusion.fuse import nothing_usable, read_telemetry
    from hatstream_local.specification import load_fusion

    pool = None  # accepted speeds of the telemetry, scaled to [-1, 1]; key=None below: no id is used
    if feed is not None:
        _, pool, refused = read_telemetry(load_fusion(feed.spec_path), feed.pattern, key=None, progress=lambda *_: None)
        if not pool.size:
            raise InputError(nothing_usable("row of the telemetry", sum(refused.values()), refused, "[telemetry]"))
    with progress_bars(quiet=results.as_json) as bars:
        table = fusion.compare(USERS, trials, seed, pool, partial(bars, "cells simulated"), processes)
    results.draw(fusion.pictures, table)
    results.show("fusion", table, fusion.tables(table), shows_truth=feed is not None, users=USERS)
