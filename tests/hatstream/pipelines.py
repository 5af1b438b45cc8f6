"""Bounded pipelines with `hatstream.Release` over the reports of a small town."""

import csv
import json

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

import hatstream as library
from tests import city

DAY = city.DAYS[0]


def reports(lines):
    found = csv.DictReader([city.HEADER, *lines])
    return [{**row, **{name: float(row[name]) for name in ("lat", "lon", "v")}} for row in found]


def released(folder, elements, *, pipe=lambda p: p, **options):
    """Runs a bounded pipeline; returns the rows, sorted."""
    rows = []
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
        given = pipe(p | "reports" >> beam.Create(elements))
        made = library.Release(
            ledger=str(folder / "ledger.sqlite"), **{"spec": folder / "spec.toml", "start": DAY, "end": DAY} | options
        )
        _ = given | made | "keep" >> beam.Map(lambda row: append(folder / "kept.jsonl", row))
    if (folder / "kept.jsonl").exists():
        rows = [json.loads(line) for line in (folder / "kept.jsonl").read_text().splitlines()]
        (folder / "kept.jsonl").unlink()
    return sorted(rows, key=lambda row: (row["slot_start"], row["cell"]))


def append(path, row):
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
