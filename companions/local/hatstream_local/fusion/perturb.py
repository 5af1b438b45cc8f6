"""Reports made from telemetry, as each vehicle's device would."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h3.api.basic_int as h3
import numpy as np
import pyarrow as pa

from dpops import Noise
from hatstream.api import InputError, UsageError, read_positions, write_rows
from hatstream_local.fusion.fuse import Progress, Row, changes, nothing_usable
from hatstream_local.mechanisms.mechanism import Float64s, Int64s, Service
from hatstream_local.specification import GRID_STEPS, FusionSpecification

SCHEMA = pa.schema(
    pa.field(name, pa.float64() if name in ("epsilon", "report") else pa.string(), nullable=False)
    for name in ("user", "service", "epsilon", "mechanism", "time", "cell", "report")
)


def perturb(
    vehicle: Int64s, slot_us: Int64s, cell: Int64s, values: Float64s, services: Sequence[Service], noise: Noise
) -> list[Row]:
    """Perturbs each vehicle's mean of a slot and cell, once for each service.

    vehicle, slot_us, cell, values: (positions,); cell 0: without cells; values on [-1, 1]. Each row spends its
    service's epsilon, and a vehicle's rows add up.
    """
    (slots, cells, vehicles), means = _means(np.stack([slot_us, cell, vehicle]), values)
    times = [f"{instant}Z" for instant in np.datetime_as_string(slots.view("datetime64[us]"), unit="s").tolist()]
    rows: list[Row] = []
    for service in services:
        reports = service.mechanism.sample(means, noise)
        spent = {"service": service.name, "epsilon": service.mechanism.epsilon, "mechanism": service.mechanism.name}
        for time, cell_id, user, report in zip(times, cells.tolist(), vehicles.tolist(), reports.tolist(), strict=True):
            labels = {"user": f"{user:016x}", "time": time, "cell": f"{cell_id:x}" if cell_id else ""}
            rows.append(labels | spent | {"report": report})
    return rows


def _means(key: Int64s, values: Float64s) -> tuple[Int64s, Float64s]:
    """Averages values by slot, cell, vehicle, the rows of `key`; returns distinct columns, means."""
    order = np.lexsort(key[::-1])
    key, values = key[:, order], values[order]
    starts = np.flatnonzero(changes(*key))
    counts = np.diff(np.append(starts, values.size))
    sums = np.add.reduceat(values, starts) if starts.size else values  # np.add.reduceat takes no empty list of starts
    return key[:, starts], sums / counts


READABLE = ("parquet", "avro", "csv", "jsonl")  # what `hatstream fuse` reads, of what can be written


@dataclass(frozen=True)
class Perturbed:
    """Result of perturbing; leakage: a vehicle's largest epsilon."""

    reports: int
    vehicles: int
    leakage: float
    read: int
    refused: dict[str, int]


def run(spec: FusionSpecification, pattern: str, output: Path, key: Path, progress: Progress) -> Perturbed:
    """Writes the reports of telemetry to `output`. Raises UsageError or InputError."""
    if output.suffix.removeprefix(".") not in READABLE:
        raise UsageError(f"--output must end in one of {', '.join(READABLE)}; it is {output.name!r}")
    observed, values, refused = read_telemetry(spec, pattern, key, progress)
    read = values.size + sum(refused.values())
    if not values.size:
        raise InputError(nothing_usable("row of the telemetry", read, refused, "[telemetry]"))
    undivided = np.zeros_like(observed.vehicle)  # one group of all
    slot_us = undivided if spec.hours is None else spec.hours.starts_us(observed.event_us)
    cell = undivided if spec.resolution is None else _cells(observed.lat_e7, observed.lon_e7, spec.resolution)
    rows = perturb(observed.vehicle, slot_us, cell, values, spec.services, Noise())
    rows_of_user = Counter(row["user"] for row in rows)
    leakage = max(rows_of_user.values()) / len(spec.services) * spec.epsilon_of_all  # each mean is a row per service
    output.parent.mkdir(parents=True, exist_ok=True)
    write_rows(output, rows, SCHEMA, mode=0o600)  # a user's own reports, which only the services are to have
    return Perturbed(reports=len(rows), vehicles=len(rows_of_user), leakage=leakage, read=read, refused=refused)


def _cells(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    positions = zip((lat_e7 / 1e7).tolist(), (lon_e7 / 1e7).tolist(), strict=True)
    return np.fromiter((h3.latlng_to_cell(lat, lon, resolution) for lat, lon in positions), np.int64, lat_e7.size)


def read_telemetry(
    spec: FusionSpecification, pattern: str, key: Path | None, progress: Progress
) -> tuple[Any, Float64s, dict[str, int]]:
    """Reads telemetry: accepted positions, their speeds on [-1, 1], refused rows by reason."""
    if spec.telemetry is None:
        raise UsageError("the specification needs a [telemetry] table: the layout of the raw positions")
    observed, refused = read_positions(spec.telemetry, pattern, key, step=spec.step, steps=GRID_STEPS, report=progress)
    return observed, 2 * observed.value / GRID_STEPS - 1, refused  # from steps of 0..upper_kmh
