"""`hatstream evaluate --learned` and `--live`: what `levels`, a past and live slots would be worth on telemetry."""

from dataclasses import asdict
from functools import partial

import click

from pipelines.commands.options import console, progress_bars
from pipelines.errors import UsageError
from pipelines.lab.commands.evaluation_results import NOT_PRIVATE, Results
from pipelines.lab.evaluation import learned_tables as tables
from pipelines.lab.evaluation.classes import read_spread_city, spread_errors
from pipelines.lab.evaluation.feed import Feed
from pipelines.lab.evaluation.learned_errors import Evaluated, evaluated
from pipelines.lab.evaluation.live import evaluated_live, live_table
from pipelines.lab.evaluation.truth import TrueCity, read_city
from pipelines.specification.classes import classes_asked


def evaluate_learned(feed: Feed, totals: list[str], runs: int, results: Results, span_days: int) -> None:
    """Tables on standard output, learned.json and pictures into the folder. span_days: of the totals."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        evaluation = evaluated(city, totals, runs, partial(bars, "totals simulated"), span_days)
    plain = {
        "not_private": NOT_PRIVATE,
        "span_days": span_days,
        "days": [day.name for day in city.days],
        "cells": len(city.region),
        "region_of_first_day": city.made_region,
        "city_mean_kmh": city.mean_kmh,
        **asdict(evaluation),
    }
    if results.output is not None:
        from pipelines.lab.evaluation.learned_pictures import draw_learned  # matplotlib takes a second to import

        paths = draw_learned(evaluation, city, results.output)
        click.echo(f"wrote {len(paths)} pictures to {results.output}", err=True)
    results.keep(plain, "learned.json")
    if not results.as_json:
        _show(evaluation, city, runs)


def _show(evaluated: Evaluated, city: TrueCity, runs: int) -> None:
    out = console()
    out.print(NOT_PRIVATE, style="bold")
    region = "the first day's cells and a ring, which carries no guarantee" if city.made_region else "as specified"
    out.print(f"{_several(len(city.days), 'day')}, {len(city.region):,} cells ({region}), {_several(runs, 'run')}")
    out.print(tables.error_table(evaluated.errors))
    out.print(tables.class_table(evaluated.errors))
    out.print(tables.day_table(evaluated.errors, city))
    if evaluated.coverage:
        out.print(tables.coverage_table(evaluated.coverage))
    else:
        out.print("No HAT is known well enough for the status ok.")
    if evaluated.products:
        out.print(tables.product_table(evaluated.products))
    out.print(NOT_PRIVATE)


def _several(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' if number != 1 else ''}"


def evaluate_spread(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """Distributions by `levels`, as the specification asks for them or by default: a table, spread.json."""
    with progress_bars(quiet=results.as_json) as bars:
        asked = feed.spec.classes or classes_asked({}, feed.spec.value.grid)
        city = read_spread_city(feed, asked, bars)
        errors = spread_errors(city, totals, runs, bars)
    days = [day.name for day in city.city.days]
    results.keep({"not_private": NOT_PRIVATE, "days": days, "errors": [asdict(row) for row in errors]}, "spread.json")
    if results.as_json:
        return
    out = console()
    out.print(NOT_PRIVATE, style="bold")
    out.print(tables.spread_table(errors))
    out.print(NOT_PRIVATE)


def evaluate_live(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """A table on standard output, live.json into the folder."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        if len(city.days) < 2:
            raise UsageError("--live needs telemetry of two days or more: the first one has no live slots")
        errors, storms = evaluated_live(city, totals, runs, partial(bars, "totals simulated"))
    plain = {
        "not_private": NOT_PRIVATE,
        "days": [day.name for day in city.days],
        "errors": [asdict(error) for error in errors],
        "storms": [asdict(storm) for storm in storms],
    }
    results.keep(plain, "live.json")
    if results.as_json:
        return
    out = console()
    out.print(NOT_PRIVATE, style="bold")
    out.print(live_table(errors, storms))
    out.print(NOT_PRIVATE)
