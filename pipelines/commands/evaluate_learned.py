"""`hatstream evaluate --learned` and `--live`: what `levels`, a past and live slots would be worth on telemetry."""

from dataclasses import asdict
from functools import partial

from pipelines.commands.evaluation_results import NOT_PRIVATE, Results
from pipelines.commands.options import console, progress_bars
from pipelines.evaluation import learned_errors
from pipelines.evaluation.feed import Feed
from pipelines.evaluation.learned import read_city
from pipelines.evaluation.live import evaluated_live, live_table
from pipelines.scheduled import release as scheduled


def evaluate_learned(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """Tables on standard output, learned.json into the folder."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        errors, coverage = learned_errors.evaluated(city, totals, runs, partial(bars, "totals simulated"))
    plain = {
        "not_private": NOT_PRIVATE,
        "days": [day.name for day in city.days],
        "cells": len(city.region),
        "region_of_first_day": city.made_region,
        "city_mean_kmh": city.mean_kmh,
        "errors": [asdict(each) for each in errors],
        "coverage": [asdict(each) for each in coverage],
    }
    results.keep(plain, "learned.json")
    if results.as_json:
        return
    out = console()
    out.print(NOT_PRIVATE, style="bold")
    region = "the first day's cells and a ring, which carries no guarantee" if city.made_region else "as specified"
    out.print(f"{len(city.days)} days, {len(city.region):,} cells ({region}), {runs} runs")
    out.print(learned_errors.error_table(errors, city))
    out.print(learned_errors.coverage_table(coverage))
    out.print(NOT_PRIVATE)


def evaluate_live(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """A table on standard output, live.json into the folder."""
    with progress_bars(quiet=results.as_json) as bars:
        city = read_city(feed, bars)
        if len(city.days) < 2:
            raise scheduled.UsageError("--live needs telemetry of two days or more: the first one has no live slots")
        errors, storms = evaluated_live(city, totals, runs, partial(bars, "totals simulated"))
    plain = {
        "not_private": NOT_PRIVATE,
        "days": [day.name for day in city.days],
        "errors": [asdict(each) for each in errors],
        "storms": [asdict(each) for each in storms],
    }
    results.keep(plain, "live.json")
    if results.as_json:
        return
    out = console()
    out.print(NOT_PRIVATE, style="bold")
    out.print(live_table(errors, storms))
    out.print(NOT_PRIVATE)
