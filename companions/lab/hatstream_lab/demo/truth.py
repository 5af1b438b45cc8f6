"""Compares estimates and a constant with the truth, by vehicles in the HAT: the fleet is made up, so it is known."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatstream_lab.evaluation.days import Days, truth_of
from hatstream_lab.evaluation.released import beside
from hatstream_lab.evaluation.telemetry import HAT_KEYS

CLASSES = ((1, 2), (3, 9), (10, 29), (30, None))
"""HATs by the number of vehicles that drove through them, from and to, both included."""


class ClassError(NamedTuple):
    """Mean absolute errors in km/h over the HATs of a class. covered: share of HATs whose interval holds the truth;
    None where none of them has a value."""

    name: str
    hats: int
    known: int
    estimate: float | None
    constant: float
    covered: float | None
    half_width: float | None


class StreetErrors(NamedTuple):
    """Mean absolute errors in km/h by reports of all days. constant: of one value for all, the streets' true mean."""

    streets: int
    learned: float
    constant: float


def compared_streets(days: Days, rows: pa.Table) -> StreetErrors:
    """Compares streets with the truth. rows: what they usually are (see `read_results`), of which the newest count."""
    on_streets = days.chosen(pc.is_valid(days.counted["place"]))
    truth = truth_of(on_streets, {"place": None}).rename_columns(["cell", "reports", "vehicles", "truth"])
    newest = rows.filter(pc.equal(rows["slot_start"], pc.max(rows["slot_start"]))).select(["cell", "value"])
    both = beside(newest, truth, ("cell",))
    weight = both["reports"] / both["reports"].sum()
    learned, constant = (float(weight @ np.abs(s - both["truth"])) for s in (both["value"], weight @ both["truth"]))
    return StreetErrors(weight.size, learned, constant)


def compared(days: Days, rows: pa.Table) -> list[ClassError]:
    """Compares HATs with the truth. rows: what was published of the days (`read_rows`), each with every HAT."""
    starts = sorted(set(rows["slot_start"].to_pylist()))
    number = {start: starts.index(start) - [s[:10] for s in starts].index(start[:10]) for start in starts}
    rows = rows.select(["slot_start", "cell", "value", "lower95", "upper95"])
    rows = rows.append_column("period", pc.utf8_slice_codeunits(rows["slot_start"], 0, 10))
    rows = rows.append_column("slot", pa.array([number[start] for start in rows["slot_start"].to_pylist()]))
    hats = beside(rows, truth_of(days, dict.fromkeys(HAT_KEYS)))
    constant, error = np.abs(hats["truth"] - days.mean_kmh), np.abs(hats["truth"] - hats["value"])
    inside = (hats["lower95"] <= hats["truth"]) & (hats["truth"] <= hats["upper95"])
    half = (hats["upper95"] - hats["lower95"]) / 2
    classes = []
    for least, most in CLASSES:
        in_class = (hats["vehicles"] >= least) & (hats["vehicles"] <= (most or np.inf))
        has_value = in_class & ~np.isnan(hats["value"])
        if not in_class.any():
            continue
        classes.append(
            ClassError(
                name=f"{least} to {most}" if most else f"{least} or more",
                hats=int(in_class.sum()),
                known=int(has_value.sum()),
                estimate=float(error[has_value].mean()) if has_value.any() else None,
                constant=float(constant[has_value if has_value.any() else in_class].mean()),
                covered=float(inside[has_value].mean()) if has_value.any() else None,
                half_width=float(np.median(half[has_value])) if has_value.any() else None,
            )
        )
    return classes
