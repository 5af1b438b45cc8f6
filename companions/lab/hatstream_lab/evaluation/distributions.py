"""Released distributions beside the truth: of telemetry, and of a dense made-up city. Not private."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table as RichTable

from hatstream.api import Specification, load, release_days
from hatstream_lab.evaluation.experiment import Mean, Row, Table
from hatstream_lab.evaluation.released import PERCENTILES, lists_of, quantiles
from hatstream_lab.evaluation.tables import class_names, figures_by_class
from hatstream_lab.evaluation.telemetry import HAT_KEYS, Telemetry, beside_truth, floats, groups_of
from hatstream_lab.types import Float64s, Int64s, Report

FINE = 4
"""Bins of the truth for each bin of the release."""
OUTPUTS = ("cdf", "p50", "p85", "mean")
UNITS = {"cdf": "share, averaged over the edges", "p50": "km/h", "p85": "km/h", "mean": "km/h"}
MADE_UP_VEHICLES = (5, 10, 30, 100, 300, 1_000)
MADE_UP_HATS = 30
UPPER_KMH, STEPS = 65, 6_500
TREE, ARRAY_AVERAGE, CONSTANT = "tree", "array-average", "constant of the city"
_DAY, _CENTRE = "2026-05-13", h3.latlng_to_cell(48.1, 11.6, 7)
_MADE_UP: Mapping[str, Any] = {
    "name": "dense-city",
    "account": {
        "name": "dense-city",
        "unit": "vehicle-day",
        "timezone": "UTC",
        "adjacency": "counts-public",
        "limit": Decimal(10**9),
    },
    "slot": {"minutes": 60},
    "cells": {"resolution": 7, "region": "occupied"},
    "speed": {
        "upper_kmh": UPPER_KMH,
        "prior": {"mean_kmh": 25, "sd_kmh": 12, "between": Decimal("0.3")},
    },
    "input": {"layout": "csv", "columns": {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}},
}


class CountedHats(NamedTuple):
    """HATs of a city. counted: rows by vehicle, in the bins of the release. truth: of each HAT its `vehicles`,
    `reports` and outputs. city: outputs of all HATs together."""

    counted: pa.Table
    truth: pa.Table
    city: Mapping[str, Float64s]


class ReleaseSetting(NamedTuple):
    """A setting: how HATs are released, and at which epsilon of each."""

    label: str
    epsilon: str
    spec: Specification


def settings(tables: Mapping[str, Any], bins: int, epsilons: Sequence[str]) -> list[ReleaseSetting]:
    """Lists a distribution, and beside it a mean alone, at each epsilon."""
    statistics: dict[str, dict[str, Any]] = {
        TREE: {"name": "distribution", "bins": bins},
        ARRAY_AVERAGE: {"name": "mean", "mechanism": ARRAY_AVERAGE},
    }
    return [
        ReleaseSetting(label, epsilon, _spec_of(tables, statistic, Decimal(epsilon)))
        for epsilon in epsilons
        for label, statistic in statistics.items()
    ]


def _spec_of(tables: Mapping[str, Any], statistic: Mapping[str, Any], epsilon: Decimal) -> Specification:
    privacy = {"per": "hat", **tables.get("privacy", {}), "epsilon": epsilon}
    return load({**tables, "privacy": privacy, "statistic": [statistic]})


def read_counted(feed: Telemetry, bins: int, report: Report) -> CountedHats:
    """Counts telemetry: what a cap keeps, and the truth of all reports."""
    capped = feed.tables([{"name": "distribution", "bins": bins}], **feed.cap)
    kept = feed.counted(capped, report, bins)
    whole = feed.counted(feed.tables(), report, bins * FINE)
    grid = feed.spec.value.grid
    keys, hat = groups_of(whole.select(HAT_KEYS))
    fine = np.zeros((keys.num_rows, bins * FINE), np.int64)
    np.add.at(fine, hat, lists_of(whole["histograms"]))
    sums, reports = (
        np.bincount(hat, whole[name].to_numpy(), keys.num_rows).astype(np.float64) for name in ("sums", "reports")
    )
    means = sums / reports * float(grid.step)
    whole_mean, upper = np.array([np.average(means, weights=reports)]), float(grid.upper)
    truth = _truth(keys, np.bincount(hat).astype(np.int64), reports, _outputs(fine, means, upper))
    return CountedHats(kept, truth, _outputs(fine.sum(axis=0)[None], whole_mean, upper))


def made_up(bins: int, seed: int) -> CountedHats:
    """Makes up a dense city: 1 to 20 samples a vehicle, vehicles that differ, a tenth of the samples at rest.

    Thirty HATs each of 5 to 1,000 vehicles.
    """
    cells = iter(h3.grid_disk(_CENTRE, 9))
    parts: list[pa.Table] = []
    names, fine, means, vehicles, reports = [], [], [], [], []
    for size in MADE_UP_VEHICLES:
        generator = np.random.default_rng([seed, size])
        for _ in range(MADE_UP_HATS):
            counts = np.sort(generator.integers(1, 21, size))[::-1].copy()
            owner = np.repeat(np.arange(size), counts)
            centre = generator.normal(25, 6) + generator.normal(0, 6, size)[owner]
            speeds = np.where(generator.random(owner.size) < 0.1, 0.0, generator.normal(centre, 9))
            steps = np.clip(np.round(speeds * (STEPS / UPPER_KMH)), 0, STEPS).astype(np.int64)
            own = np.zeros((size, bins), np.int64)
            np.add.at(own, (owner, np.minimum(steps * bins // STEPS, bins - 1)), 1)
            names.append(next(cells))
            fine.append(np.bincount(np.minimum(steps * bins * FINE // STEPS, bins * FINE - 1), minlength=bins * FINE))
            means.append(float(steps.mean()) * UPPER_KMH / STEPS)
            vehicles.append(size)
            reports.append(owner.size)
            sums = np.bincount(owner, steps, size).astype(np.int64)
            parts.append(_rows(names[-1], len(parts) * 10_000 + np.arange(1, size + 1), counts, sums, own))
    keys = pa.table({"period": [_DAY] * len(names), "slot": np.zeros(len(names), np.int64), "cell": names})
    whole, number = np.stack(fine), np.array(reports, np.float64)
    city = _outputs(whole.sum(axis=0)[None], np.array([np.average(means, weights=number)]), float(UPPER_KMH))
    outputs = _outputs(whole, np.array(means), float(UPPER_KMH))
    return CountedHats(pa.concat_tables(parts), _truth(keys, np.array(vehicles), number, outputs), city)


def made_up_settings(bins: int, epsilons: Sequence[str]) -> list[ReleaseSetting]:
    return settings(_MADE_UP, bins, epsilons)


def _rows(cell: str, vehicle: Int64s, counts: Int64s, sums: Int64s, histograms: Int64s) -> pa.Table:
    size = vehicle.size
    return pa.table(
        {
            "period": [_DAY] * size,
            "slot": np.zeros(size, np.int64),
            "cell": [cell] * size,
            "place": pa.nulls(size, pa.string()),
            "vehicle": vehicle,
            "reports": counts,
            "sums": sums,
            "histograms": pa.FixedSizeListArray.from_arrays(histograms.ravel(), histograms.shape[1]),
        }
    )


def _truth(keys: pa.Table, vehicles: Int64s, reports: Float64s, outputs: Mapping[str, Float64s]) -> pa.Table:
    columns = {name: keys[name] for name in HAT_KEYS}
    shares = outputs["cdf"]
    lists = pa.FixedSizeListArray.from_arrays(shares.ravel(), shares.shape[1]).cast(pa.list_(pa.float64()))
    values = {f"true_{name}": lists if name == "cdf" else outputs[name] for name in OUTPUTS}
    return pa.table(columns | {"true_vehicles": vehicles, "true_reports": reports} | values)


def _outputs(fine: Int64s, means: Float64s, upper: float) -> dict[str, Float64s]:
    """Finds outputs of histograms in FINE times as many bins: quantiles straight within these."""
    below = np.cumsum(fine, axis=1) / np.maximum(fine.sum(axis=1), 1)[:, None]
    percentiles = dict(zip(PERCENTILES, quantiles(fine, upper), strict=True))
    return {"cdf": below[:, FINE - 1 :: FINE], "mean": means} | {name: percentiles[name] for name in ("p50", "p85")}


def measured(data: CountedHats, setting: ReleaseSetting, run: int) -> Iterator[Row]:
    """Measures the errors of a release, of shares averaged over the edges."""
    both = beside_truth(release_days(setting.spec, data.counted, seed=run)["hats"], data.truth)
    for name in OUTPUTS if setting.label == TREE else ("mean",):
        labels = {"output": name, "released": setting.label, "epsilon": setting.epsilon}
        if name == "cdf":
            there = pc.is_valid(both["cdf"])
            kept = {key: column.filter(there) for key, column in both.items()}
            off = np.abs(lists_of(kept["cdf"]) - lists_of(kept["true_cdf"]))[:, :-1].mean(axis=1)
        else:
            kept = both
            off = np.abs(floats(both[name if setting.label == TREE else "value"]) - floats(both[f"true_{name}"]))
        yield {**labels, **_figures(off, kept)}


def constants(data: CountedHats) -> Table:
    """Measures what the whole city's outputs are worth everywhere."""
    rows = []
    for name in OUTPUTS:
        column = data.truth[f"true_{name}"].combine_chunks()
        off = np.abs((lists_of(column) if name == "cdf" else floats(column)[:, None]) - np.atleast_2d(data.city[name]))
        columns = {key: data.truth[key].combine_chunks() for key in data.truth.column_names}
        figures = _figures(off[:, : max(1, off.shape[1] - 1)].mean(axis=1), columns)
        labels = {"output": name, "released": CONSTANT, "epsilon": "-"}
        rows.append(labels | {key: mean.value for key, mean in figures.items()})
    return Table(rows)


def _figures(off: Float64s, columns: Mapping[str, Any]) -> dict[str, Mean]:
    vehicles, reports = (floats(columns[f"true_{name}"]) for name in ("vehicles", "reports"))
    there = ~np.isnan(off)
    off, vehicles, reports = off[there], vehicles[there], reports[there]
    sizes = {f"{size:,}": Mean.of(off[vehicles == size]) for size in MADE_UP_VEHICLES}
    return figures_by_class(off, vehicles) | {"rows": Mean.of(off, reports)} | sizes


def shown(table: Table) -> Iterator[RichTable]:
    """Shows errors on telemetry, a table an output."""
    for name in OUTPUTS:
        yield table.where(output=name).show(
            f"NOT PRIVATE: mean absolute error of {name} per HAT, {UNITS[name]}",
            "columns to the right: HATs by vehicles.",
            ("released", "epsilon"),
            {"hats": "all HATs", "rows": "by rows"} | {text: text for text in class_names()},
        )


def dense_shown(table: Table) -> RichTable:
    """Shows errors in the made-up city by the number of vehicles of a HAT."""
    return table.show(
        "dense made-up city: mean absolute error by vehicles in the HAT, km/h (cdf: share)",
        "constant: the whole city's value of the same output.",
        ("output", "released", "epsilon"),
        {f"{size:,}": f"{size:,}" for size in MADE_UP_VEHICLES},
    )


def by_size(table: Table) -> Table:
    """Turns the made-up city's figures into rows by the number of vehicles, for a picture."""
    labels = ("output", "released", "epsilon")
    return Table(
        [
            {name: row[name] for name in labels} | {"vehicles": size, "error": row[f"{size:,}"]}
            for row in table.rows
            for size in MADE_UP_VEHICLES
        ]
    )
