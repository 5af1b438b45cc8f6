"""Reports made from telemetry, as each vehicle's own device would make them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpops.noise import Noise
from hatstream_local.reports.columns import Hours
from hatstream_local.reports.perturb import SCHEMA, perturb
from hatstream_local.specification import FusionSpecification
from pipelines.errors import InputError, UsageError
from pipelines.input_files import paths_of
from pipelines.progress import Report
from transforms.atomic_files import write_whole
from transforms.layouts import MAPPED
from transforms.layouts.decoder_process import read_apart
from transforms.observe import hexagons
from transforms.observe.parse import Rules, parse
from transforms.observe.vehicle_hash import Secret
from transforms.records import Observations
from transforms.sinks.files import FORMATS
from transforms.sinks.rows import columns_in

READABLE = tuple(kind for kind in FORMATS if kind in MAPPED)
"""What `hatstream fuse` reads."""


@dataclass(frozen=True)
class Perturbed:
    """What was made. leakage: the most epsilon that one vehicle gave away over all its reports."""

    reports: int
    vehicles: int
    leakage: float
    read: int
    refused: dict[str, int]


def run(spec: FusionSpecification, pattern: str, output: Path, secret: Secret, report: Report) -> Perturbed:
    """Reads telemetry and writes reports to a file whose ending says the format. Raises UsageError or InputError."""
    kind = output.suffix.removeprefix(".")
    if kind not in READABLE:
        raise UsageError(f"--output must end in one of {', '.join(READABLE)}; it is {output.name!r}")
    whole, refused = read_telemetry(spec, pattern, secret.derive("reports"), report)
    read = whole.vehicle.size + sum(refused.values())
    if not whole.vehicle.size:
        raise InputError(nothing_usable("row of the telemetry", read, refused, "[telemetry]"))
    nowhere = np.zeros_like(whole.vehicle)
    if spec.reports.hours is None:
        whole = whole._replace(slot_start_us=nowhere)
    cell = nowhere if spec.resolution is None else hexagons.cells_of(whole, spec.resolution)
    rows = perturb(whole, cell, spec.fusion.value.grid.upper_steps, spec.fusion.services, Noise())
    values = Counter(row["user"] for row in rows)
    leakage = max(values.values()) / len(spec.fusion.services) * spec.epsilon_of_all
    output.parent.mkdir(parents=True, exist_ok=True)
    table = FORMATS[kind](columns_in(rows, SCHEMA), SCHEMA, output.stem)
    write_whole(output, table, mode=0o600)  # a user's own reports, which only the services are to have
    return Perturbed(len(rows), len(values), leakage, read, dict(refused))


def nothing_usable(what: str, read: int, refused: Mapping[str, int], table: str) -> str:
    """Says that no row of an input is usable, and why. table: of the specification, which says the input's form."""
    why = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in sorted(refused.items())) or "there are none"
    return f"no {what} is usable, of {read:,} rows ({why}): does {table} of the specification fit these files?"


def read_telemetry(
    spec: FusionSpecification, pattern: str, vehicle_key: bytes, report: Report
) -> tuple[Observations, Counter[str]]:
    """Reads the files that match: all accepted rows, and how many were refused for each reason."""
    if spec.telemetry is None:
        raise UsageError("the specification needs a [telemetry] table: the layout of the raw positions")
    hours = spec.reports.hours or Hours("UTC", 3600)
    rules = Rules(spec.fusion.value.grid, spec.telemetry.units, None, hours, vehicle_key)
    refused: Counter[str] = Counter()
    parts = [Observations(*np.empty((len(Observations._fields), 0), np.int64))]  # a file may hold no row at all
    paths = paths_of(pattern)
    for done, path in enumerate(paths):
        for batch in read_apart(spec.telemetry, path):
            observed, reasons = parse(batch.table, rules)
            refused.update(batch.refused)
            refused.update(reasons)
            parts.append(observed)
        report("files read", done + 1, len(paths))
    return Observations(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), refused
