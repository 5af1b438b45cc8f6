"""What suppression, a fixed cap and plain composition are worth at one total per vehicle and day. Not private."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table as RichTable

from hatstream.api import Specification, load, release_days
from hatstream_lab.evaluation.experiment import Experiment, Mean, Row, Table
from hatstream_lab.evaluation.tables import class_names, figures_by_class
from hatstream_lab.evaluation.telemetry import Telemetry, beside_truth, floats, true_values
from hatstream_lab.types import Report

CAPPED_CELLS = (1, 2, 4)
CONSTANT, CLIPPED = "constant of the whole city", "clip-user"


class Composition(NamedTuple):
    """A setting: days as a composition counts them, and the specification that releases them at a total."""

    label: str
    total: str
    spec: Specification
    counted: pa.Table


class Compared(NamedTuple):
    """True values of all HATs, and the figures of every composition and total."""

    truth: pa.Table
    table: Table

    def constant(self, statistic: str) -> float:
        """Computes what somebody who knew the whole city would publish everywhere: the mean over reports."""
        return _constant(self.truth, statistic)


def compare(feed: Telemetry, totals: Sequence[str], runs: int, report: Report) -> Compared:
    """Releases telemetry with each composition at each total, divided over all HATs of a day at once."""
    asked = feed.base["statistic"]
    shared = {"per": "period", "scope": "period"}
    whole = feed.counted(feed.tables(asked, **shared), report)
    samples = int(np.median(whole["reports"].to_numpy()))
    caps = [{"composition": "cap", "max_cells": cells, "max_samples": samples} for cells in CAPPED_CELLS]
    ways: dict[str, dict[str, Any]] = {"none": {}, CLIPPED: {"composition": CLIPPED}}
    ways |= {f"cap: {cap['max_cells']} cells of {samples} samples": cap for cap in caps}
    settings = []
    for label, way in ways.items():
        counted = feed.counted(feed.tables(asked, **shared, **way), report) if "max_cells" in way else whole
        for total in totals:
            spec = load(feed.tables(asked, **shared, **way, epsilon=Decimal(total)))
            settings.append(Composition(label, total, spec, counted))
    truth = true_values(whole, float(feed.spec.value.grid.step))
    table = Experiment(truth, settings, measured).table(runs, lambda *done: report("runs simulated", *done))
    return Compared(truth, Table([*table.rows, *_constants(truth, [stat.name for stat in feed.spec.statistics])]))


def measured(truth: pa.Table, setting: Composition, run: int) -> Iterator[Row]:
    """Measures errors of a release, and what it made of a vehicle's total. A HAT without a value counts with the
    constant."""
    rows = release_days(setting.spec, setting.counted, seed=run)["hats"]
    labels: dict[str, Any] = {"composition": setting.label, "total": setting.total}
    epsilon, reports, valued = 0.0, 0.0, 1.0
    for stat in setting.spec.statistics:
        both = beside_truth(rows.filter(pc.equal(rows["statistic"], stat.name)), truth)
        true, value = floats(both[stat.name]), floats(both["value"])
        has_value = ~np.isnan(value)
        error = np.abs(np.where(has_value, value, _constant(truth, stat.name)) - true)
        yield {"part": "errors", "statistic": stat.name, **labels, **figures_by_class(error, floats(both["vehicles"]))}
        epsilon += float(np.median(floats(both["epsilon"])[has_value])) if has_value.any() else 0.0
        reports = float(np.nansum(np.where(has_value, floats(both["reports_released"]), 0.0)))
        valued = float(has_value.mean())
    left_out = 1 - reports / float(pc.sum(truth["reports"]).as_py())
    yield {
        "part": "spent",
        **labels,
        "epsilon_hat": Mean(epsilon),
        "hats_at_once": Mean(float(setting.total), epsilon),
        **({} if setting.label == CLIPPED else {"reports_left_out": Mean(left_out)}),  # not told of suppressed HATs
        "hats_without_value": Mean(1 - valued),
    }


def _constant(truth: pa.Table, statistic: str) -> float:
    reports = floats(truth["reports"])
    return float(floats(truth[statistic]) @ reports / reports.sum())


def _constants(truth: pa.Table, statistics: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name in statistics:
        figures = figures_by_class(np.abs(floats(truth[name]) - _constant(truth, name)), floats(truth["vehicles"]))
        means = {key: mean.value for key, mean in figures.items()}
        yield {"part": "errors", "statistic": name, "composition": CONSTANT, "total": None, **means}


def shown(compared: Compared, units: dict[str, str]) -> Iterator[RichTable]:
    """Shows what each composition makes of a total, and its errors, a table a statistic. units: by statistic."""
    yield compared.table.where(part="spent").show(
        "What a vehicle's total is divided into",
        "epsilon: of a HAT, all statistics together. HATs at once: the total over it.",
        ("composition", "total"),
        {
            "hats_at_once": "HATs at once",
            "epsilon_hat": "epsilon",
            "reports_left_out": "reports left out",
            "hats_without_value": "HATs without value",
        },
    )
    for name, unit in units.items():
        yield compared.table.where(part="errors", statistic=name).show(
            f"NOT PRIVATE: actual mean absolute error of the {name}, {unit}",
            "columns to the right: HATs by vehicles.",
            ("composition", "total"),
            {"hats": "all HATs"} | {text: text for text in class_names()},
        )
