"""Reports made from telemetry, as each vehicle's own device would make them."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h3.api.basic_int as h3
import numpy as np

from dpops import Noise
from hatstream.api import InputError, UsageError, read_positions, write_rows
from hatstream_local.mechanisms.mechanism import Float64s, Int64s
from hatstream_local.reports.perturb import SCHEMA, perturb
from hatstream_local.specification import GRID_STEPS, FusionSpecification

READABLE = ("parquet", "avro", "csv", "jsonl")
"""What `hatstream fuse` reads, of what can be written."""
Report = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Perturbed:
    """What was made. leakage: the most epsilon that one vehicle gave away over all its reports."""

    reports: int
    vehicles: int
    leakage: float
    read: int
    refused: dict[str, int]


def run(spec: FusionSpecification, pattern: str, output: Path, key: Path, report: Report) -> Perturbed:
    """Reads telemetry and writes reports to a file whose ending says the format. Raises UsageError or InputError."""
    if output.suffix.removeprefix(".") not in READABLE:
        raise UsageError(f"--output must end in one of {', '.join(READABLE)}; it is {output.name!r}")
    observed, values, refused = read_telemetry(spec, pattern, key, report)
    read = values.size + sum(refused.values())
    if not values.size:
        raise InputError(nothing_usable("row of the telemetry", read, refused, "[telemetry]"))
    nowhere = np.zeros_like(observed.vehicle)
    slot_us = nowhere if spec.reports.hours is None else spec.reports.hours.starts_us(observed.event_us)
    cell = nowhere if spec.resolution is None else _cells(observed.lat_e7, observed.lon_e7, spec.resolution)
    rows = perturb(observed.vehicle, slot_us, cell, values, spec.fusion.services, Noise())
    of_users = Counter(row["user"] for row in rows)
    leakage = max(of_users.values()) / len(spec.fusion.services) * spec.epsilon_of_all
    output.parent.mkdir(parents=True, exist_ok=True)
    write_rows(output, rows, SCHEMA, mode=0o600)  # a user's own reports, which only the services are to have
    return Perturbed(len(rows), len(of_users), leakage, read, refused)


def _cells(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    positions = zip((lat_e7 / 1e7).tolist(), (lon_e7 / 1e7).tolist(), strict=True)
    return np.fromiter((h3.latlng_to_cell(lat, lon, resolution) for lat, lon in positions), np.int64, lat_e7.size)


def nothing_usable(what: str, read: int, refused: Mapping[str, int], table: str) -> str:
    """Says that no row of an input is usable, and why. table: of the specification, which says the input's form."""
    why = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in sorted(refused.items())) or "there are none"
    return f"no {what} is usable, of {read:,} rows ({why}): does {table} of the specification fit these files?"


def read_telemetry(
    spec: FusionSpecification, pattern: str, key: Path | None, report: Report
) -> tuple[Any, Float64s, dict[str, int]]:
    """Reads the files that match: the accepted rows, their speeds on [-1, 1], and the refused ones by reason."""
    if spec.telemetry is None:
        raise UsageError("the specification needs a [telemetry] table: the layout of the raw positions")
    observed, refused = read_positions(spec.telemetry, pattern, key, step=spec.step, steps=GRID_STEPS, report=report)
    return observed, 2 * observed.value / GRID_STEPS - 1, refused
