"""Reports made from telemetry, as each vehicle's own device would make them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpops.noise import Noise
from pipelines.scheduled.release import InputError, UsageError, paths_of
from pipelines.specification.fusion import FusionSpecification
from transforms.layouts.apart import read_apart
from transforms.observe import hexagons
from transforms.observe.parse import Rules, parse
from transforms.observe.vehicle_hash import Secret
from transforms.records import Observations
from transforms.reports.columns import Hours
from transforms.reports.perturb import SCHEMA, perturb
from transforms.sinks.files import FORMATS, write_whole

Report = Callable[[str, int, int | None], None]


@dataclass
class Perturbed:
    """What was made. leakage: the most epsilon that one vehicle gave away over all its reports."""

    reports: int = 0
    vehicles: int = 0
    leakage: float = 0.0
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def run(spec: FusionSpecification, pattern: str, output: Path, secret: Secret, report: Report) -> Perturbed:
    """Reads telemetry and writes reports to a file whose ending says the format. Raises UsageError or InputError."""
    kind = output.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"--output must end in one of {', '.join(FORMATS)}; it is {output.name!r}")
    if spec.telemetry is None:
        raise UsageError("the specification needs a [telemetry] table: the layout of the raw positions")
    made = Perturbed()
    hours = spec.reports.hours or Hours("UTC", 3600)
    rules = Rules(spec.grid, spec.telemetry.units, None, hours, secret.derive("reports"))
    parts: list[Observations] = []
    paths = paths_of(pattern)
    for done, path in enumerate(paths):
        for batch in read_apart(spec.telemetry, path):
            observed, refused = parse(batch.table, rules)
            made.read += batch.rows
            made.refused.update(batch.refused)
            made.refused.update(refused)
            parts.append(observed)
        report("files read", done + 1, len(paths))
    whole = Observations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    if not whole.vehicle.size:
        raise InputError(f"no row of the telemetry was usable, of {made.read}")
    nowhere = np.zeros_like(whole.vehicle)
    if spec.reports.hours is None:
        whole = whole._replace(slot_start_us=nowhere)
    cell = nowhere if spec.resolution is None else hexagons.cells_of(whole, spec.resolution)
    rows = perturb(whole, cell, spec.grid.upper_steps, spec.fusion.services, Noise())
    values = Counter(row["user"] for row in rows)
    made.reports, made.vehicles = len(rows), len(values)
    made.leakage = max(values.values()) / len(spec.fusion.services) * spec.epsilon_of_all
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, FORMATS[kind](rows, SCHEMA, output.stem))
    return made
