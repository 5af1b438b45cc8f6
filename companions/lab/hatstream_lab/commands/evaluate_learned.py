"""`hatstream evaluate --learned` and `--live`: what `levels` and live slots would be worth."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from rich.table import Table

from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation import learned_tables as tables
from hatstream_lab.evaluation.classes import read_spread_city, spread_errors
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned_errors import Evaluated, evaluated
from hatstream_lab.evaluation.live import evaluated_live, live_table
from hatstream_lab.evaluation.truth import TrueCity, read_city
from pipelines.commands.options import progress_bars
from pipelines.errors import UsageError
from pipelines.specification.classes import classes_asked


def evaluate_learned(feed: Feed, totals: list[str], runs: int, results: Results, span_days: int) -> None:
    """Shows tables on standard output, writes learned.json and pictures into the folder. span_days: of the totals."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        evaluation = evaluated(city, totals, runs, partial(bars, "totals simulated"), span_days)
    plain = {
        "span_days": span_days,
        "days": [day.name for day in city.days],
        "cells": len(city.region),
        "region_of_first_day": city.made_region,
        "city_mean_kmh": city.mean_kmh,
        **asdict(evaluation),
    }
    if results.output is not None:
        from hatstream_lab.evaluation.learned_pictures import draw_learned  # matplotlib takes a second to import

        results.drew(draw_learned(evaluation, city, results.output))
    results.tell(plain, "learned.json", *_shown(evaluation, city, runs))


def _shown(evaluated: Evaluated, city: TrueCity, runs: int) -> Iterator[str | Table]:
    region = "the first day's cells and a ring, which carries no guarantee" if city.made_region else "as specified"
    yield f"{_several(len(city.days), 'day')}, {len(city.region):,} cells ({region}), {_several(runs, 'run')}"
    yield tables.error_table(evaluated.errors)
    yield tables.class_table(evaluated.errors)
    yield tables.day_table(evaluated.errors, city)
    if evaluated.coverage:
        yield tables.coverage_table(evaluated.coverage)
    else:
        yield "No HAT is known well enough for the status ok."
    if evaluated.products:
        yield tables.product_table(evaluated.products)


def _several(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' if number != 1 else ''}"


def evaluate_spread(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """Evaluates distributions by `levels`, as the specification asks for them or by default: a table, spread.json."""
    with progress_bars(quiet=results.as_json) as bars:
        asked = feed.spec.classes or classes_asked({}, feed.spec.value.grid)
        city = read_spread_city(feed, asked, bars)
        errors = spread_errors(city, totals, runs, bars)
    plain = {"days": [day.name for day in city.city.days], "errors": [asdict(row) for row in errors]}
    results.tell(plain, "spread.json", tables.spread_table(errors))


def evaluate_live(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """Shows a table, and writes live.json into the folder."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        if len(city.days) < 2:
            raise UsageError("--live needs telemetry of two days or more: the first one has no live slots")
        errors, storms = evaluated_live(city, totals, runs, partial(bars, "totals simulated"))
    plain = {
        "days": [day.name for day in city.days],
        "errors": [asdict(error) for error in errors],
        "storms": [asdict(storm) for storm in storms],
    }
    results.tell(plain, "live.json", live_table(errors, storms))
