"""`hatstream evaluate` of what is released by levels: `--learned`, `--live`, `--places`, and distributions."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table as RichTable

from hatstream.api import UsageError, progress_bars
from hatstream_lab.commands.evaluate_options import AskedComparison, AskedTelemetry, epsilons_of
from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation import released
from hatstream_lab.evaluation.cities import city_named
from hatstream_lab.evaluation.days import Days, place_tables, read_days, tables_of
from hatstream_lab.evaluation.experiment import Experiment, Row, Table

PRODUCTS = [{"product": name} for name in ("cell-day", "parent-hour", "city-hour")]
LABELS = ("city", "total", "delta")
CLASSES = {released.span_name(*span): released.span_name(*span) for span in released.CLASSES}


@dataclass(frozen=True)
class Subject:
    """What is measured of days, and how it is shown. further: tables of the specification that releases them."""

    name: str
    measure: Callable[[Days, released.Variation, int], Iterable[Row]]
    shown: Callable[[Table], Iterator[RichTable | str]]
    totals: str
    runs: int
    bins: int = 0


def evaluate_days(telemetry: AskedTelemetry, asked: AskedComparison, runs: int | None, results: Results) -> None:
    """Shows tables on standard output; writes all figures as JSON, and a picture where errors depend on totals."""
    evaluation, further = _evaluation(telemetry, asked)
    totals = epsilons_of(asked.totals or evaluation.totals, "--totals")
    rows: list[dict[str, Any]] = []
    facts = []
    with progress_bars(quiet=results.as_json) as bars:
        for name, days in _feeds(telemetry, asked, evaluation.bins, further, bars):
            if evaluation.name == "live" and len(days.names) < 2:
                raise UsageError("--live needs telemetry of two days or more: the first one has no live slots")
            varied = released.settings(totals, asked.span_days, asked.noise.split(","), **further)
            report = partial(bars, "runs simulated")
            table = Experiment(days, varied, evaluation.measure).table(runs or evaluation.runs, report)
            if evaluation.name == "learned":
                bar = Experiment(days, [{"part": "errors", "estimate": released.CONSTANT}], _constant).table(1)
                table = Table([*bar.rows, *table.rows])
            rows += [{"city": name, **row} for row in table.rows]
            facts.append(_facts(name, days))
    table = Table(rows)
    document = {**facts[0], "cities": facts, "rows": rows, "span_days": asked.span_days}
    if results.output is not None and evaluation.name == "learned":
        results.drew(list(_pictures(table, results)))
    results.tell(document, f"{evaluation.name}.json", *(fact["told"] for fact in facts), *evaluation.shown(table))


def _constant(days: Days, labels: Row, _run: int) -> Iterator[Row]:
    return released.errors_of(days, released.constant_rows(days), labels)


def _facts(name: str, days: Days) -> dict[str, Any]:
    region = "the first day's cells and a ring, which carries no guarantee" if days.made_region else "as specified"
    number = len(days.names)
    shown = f"{number} day{'s' * (number != 1)}, {len(days.region):,} cells ({region}), mean {days.mean_kmh:.2f} km/h"
    return {
        "city": name,
        "days": days.names,
        "cells": len(days.region),
        "region_of_first_day": days.made_region,
        "city_mean_kmh": days.mean_kmh,
        "told": f"{name}: {shown}" if name else shown,
    }


def _feeds(
    telemetry: AskedTelemetry, asked: AskedComparison, bins: int, further: dict[str, Any], bars: Any
) -> Iterator[tuple[str, Days]]:
    """Yields the telemetry, or one city after another."""
    if asked.cities is not None:
        for name in asked.cities.split(","):
            yield name.strip(), _changed(city_named(name.strip(), asked.days), asked)
    elif telemetry.data is not None:
        pattern, path = telemetry.data
        days = read_days(pattern, path, telemetry.dates, bars, bins=bins, **further)
        yield "", _changed(days if asked.days is None else days.repeated(asked.days), asked)


def _changed(days: Days, asked: AskedComparison) -> Days:
    return days if asked.slower_from is None else days.times(0.8, days.names[asked.slower_from - 1])


def _evaluation(telemetry: AskedTelemetry, asked: AskedComparison) -> tuple[Subject, dict[str, Any]]:
    """Says what is measured, and which further tables the specification that releases the days has."""
    base = {} if telemetry.data is None else tables_of(telemetry.data[1])
    if asked.places is not None:
        named = place_tables(asked.places, base) | {"output": [{"product": "place-standing"}]}
        return Subject("places", released.places, _places_shown, "2.64", 1), named
    if asked.live:
        return Subject("live", released.live, _live_shown, "2.64", 4), {"live": {}}
    if asked.distributions:
        classes = [table for table in base["statistic"] if table["name"] == "distribution"]
        means = {"name": "mean", "mechanism": "levels", "target": "reports"}
        spread = (
            classes
            if classes and classes[0].get("mechanism") == "levels"
            else [{"name": "distribution", "mechanism": "levels"}]
        )
        tables = {"statistic": [means, *spread], "output": released.part_tables(base)}
        return Subject("spread", released.spread, _spread_shown, "1,2.64,10", 3, released.BINS), tables
    is_brief = asked.cities is None and asked.days is None
    measure = released.learned if is_brief else partial(released.learned, causal_alone=True)
    return Subject("learned", measure, _learned_shown, "1,2.64,10", 5), {"output": PRODUCTS}


def _learned_shown(table: Table) -> Iterator[RichTable | str]:
    errors = table.where(part="errors", day="all")
    yield errors.show(
        "NOT PRIVATE: mean absolute error of learned estimates, km/h",
        "Published days alone; 10+, 30+: HATs with so many vehicles. bar: the city's true mean, by rows, on these "
        "days; worst: a run's error over it. held back: share of days. half: causal, against half of the vehicles.",
        (*LABELS, "estimate"),
        {
            "hats": "HATs",
            "rows": "rows",
            "from_10": "10+",
            "from_30": "30+",
            "bar": "bar",
            "worst_run": "worst",
            "held_back": "held back",
        },
    )
    causal = errors.where(estimate=(released.CONSTANT, "causal"))
    title = "NOT PRIVATE: the same by vehicles in the HAT, causal estimates"
    yield causal.show(title, "", (*LABELS, "estimate"), CLASSES)
    by_day = Table([row for row in table.where(part="errors").rows if row["day"] != "all"])
    by_day = by_day.where(estimate=(released.CONSTANT, "causal"))
    title = "NOT PRIVATE: the same by day, by rows, causal estimates"
    yield by_day.grid(title, "-: held back", "day", (*LABELS, "estimate"), "rows")
    yield table.where(part="intervals").show(
        "NOT PRIVATE: intervals of HATs with status ok, by true vehicles",
        "ok: HATs of a run. held: share whose true mean lies inside. half width: mean, km/h.",
        (*LABELS, "vehicles"),
        {"ok": "ok", "held": "held", "half_width": "half width"},
    )
    yield table.where(part="products").show(
        "NOT PRIVATE: coarser products, rows with status ok",
        "held: share of rows whose interval holds the mean of all reports.",
        (*LABELS, "product"),
        {"ok": "ok", "error": "error", "half_width": "half width", "held": "held"},
    )


def _live_shown(table: Table) -> Iterator[RichTable | str]:
    storms = {
        (row["city"], row["total"], row["delta"], row["day"]): row["storm"] for row in table.where(part="storm").rows
    }
    rows = [
        row | {"storm": storms.get(tuple(row[name] for name in (*LABELS, "day")))}
        for row in table.where(part="errors").rows
    ]
    yield Table(rows).show(
        "NOT PRIVATE: mean absolute error by reports of live values, km/h",
        "leans: what part of the forecast's variance the day's own slots took away. storm: what part of a made-up "
        f"storm (all speeds of the last day x {released.STORM:g}) live values show.",
        (*LABELS, "day"),
        {name: name for name in ("live", "forecast", "end", "leans", "storm")},
    )


def _places_shown(table: Table) -> Iterator[RichTable | str]:
    yield table.show(
        "NOT PRIVATE: error of the map of places by reports, km/h",
        "Of all days until then. learned: `value`. shown: the cell's value where a place is not ok. constant: the "
        "places' true mean. ok: reports at places that are ok, of all; held: their intervals that hold the truth.",
        (*LABELS, "day"),
        {name: name for name in ("learned", "shown", released.CONSTANT, "ok", "held")},
    )


def _spread_shown(table: Table) -> Iterator[RichTable | str]:
    last = max(row["day"] for row in table.rows)
    yield table.where(day=(1, last)).show(
        f"NOT PRIVATE: distributions of cells' days and parts with {released.FROM_VEHICLES} vehicles and more, km/h",
        "constant: error of the whole feed's own percentile. held: share of intervals that hold the truth.",
        (*LABELS, "product", "percentile", "day"),
        {name: name.replace("_", " ") for name in ("error", released.CONSTANT, "held", "half_width", "ok", "held_ok")},
    )


def _pictures(table: Table, results: Results) -> Iterator[Any]:
    folder = results.output
    if folder is None:
        return
    errors = table.where(part="errors", estimate=("causal", "whole", "forecast"))
    axes = ("total epsilon of a vehicle-day", "mean absolute error by rows, km/h")
    series = ("city", "estimate", "delta")
    yield errors.where(day="all").draw(folder / "learned-totals.png", "total", "rows", series, axes)
    by_day = Table([row for row in errors.where(estimate="causal").rows if row["day"] != "all"])
    yield by_day.draw(folder / "learned-days.png", "day", "rows", ("city", "total", "delta"), ("", axes[1]))
    held = Table([row for row in table.where(part="intervals").rows if row["vehicles"] != "all"])
    names = ("vehicles in the HAT", "share of intervals that hold the truth")
    yield held.draw(folder / "learned-intervals.png", "vehicles", "held", ("city", "total", "delta"), names)
