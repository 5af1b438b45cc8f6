"""Pipelines with `hatstream.Release` over the reports of a small town."""

import csv
import json
import re
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import TimestampedValue

import hatstream as library
from tests import city
from transforms.sinks.rows import rows_of

DAY = city.DAYS[0]


def reports(lines):
    records = csv.DictReader([city.HEADER, *lines])
    return [{**row, **{name: float(row[name]) for name in ("lat", "lon", "v")}} for row in records]


def bounded():
    """A pipeline on Beam's own runner, whatever this process was given as arguments."""
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))


def streaming(runner="DirectRunner"):
    return beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"]))


def released(folder, elements, *, pipe=lambda p: p, **options):
    """Runs a bounded pipeline; returns the rows, sorted."""
    with bounded() as p:
        given = pipe(p | "reports" >> beam.Create(elements))
        made = library.Release(
            ledger=str(folder / "ledger.sqlite"), **{"spec": folder / "spec.toml", "start": DAY, "end": DAY} | options
        )
        _ = given | made | "keep" >> beam.Map(lambda row: append(folder / "kept.jsonl", row))
    return in_order(kept_of(folder))


def in_order(rows):
    return sorted(rows, key=lambda row: (row["slot_start"], row["cell"]))


def by_parts(p, elements, hats):
    """The rows of the road's parts, put together by a Beam developer."""
    assigned = p | beam.Create(elements) | library.AssignHats(hats)
    units = assigned | library.ContributionsPerUser(hats) | library.ReleaseMeans(hats)
    means = units | library.Record(hats.job.account) | library.Estimate(hats.job.release, hats.job.account)
    return means | beam.FlatMap(rows_of)


def append(path, row):
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def kept_of(folder):
    """The rows that a pipeline kept, which are forgotten then."""
    path = folder / "kept.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    return rows


# --- streams ----------------------------------------------------------------------------------------------------------

START_S = 1_641_004_200  # 08:00 of the day in Kolkata


def streamed(folder, *moves, pipe=lambda p: p, start=f"{DAY}T08:00", end=None):
    """Runs an unbounded pipeline under a watermark that the moves move; returns the rows by their hour."""
    clock = Clock()
    for at_s, rows in moves:
        clock = clock.advance_watermark_to(START_S + at_s)
        if rows:
            clock = clock.add_elements([TimestampedValue(row, START_S + taken_s) for taken_s, row in rows])
    p = streaming()
    made = library.Release(spec=folder / "spec.toml", ledger=str(folder / "ledger.sqlite"), start=start, end=end)
    given = p | clock.advance_watermark_to_infinity()
    assert not given.is_bounded
    _ = pipe(given) | made | "keep" >> beam.Map(lambda row: append(folder / "kept.jsonl", row))
    p.run().wait_until_finish()
    rows = kept_of(folder)
    return {row["slot_start"][11:16]: row for row in rows}


def row(minute, bus="b1", speed=30):
    hour = 8 + minute // 60
    time = f"2022-01-01T{hour:02d}:{minute % 60:02d}:00+05:30"
    return {"bus": bus, "ts": time, "lat": 21.17, "lon": 72.83, "v": speed}


def ten_lines():
    """The program of the README."""
    (program,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "README.md").read_text(), re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    return program


def are_delays(folder):
    """Whether the program wrote a number within its bounds for each key; noise may hold a first day back."""
    rows = sorted(line.split() for line in (folder / "delays.txt").read_text().splitlines())
    assert [key for key, *_ in rows] == ["A", "B", "C"]
    return all(status == "held-back" or -5 <= float(value) <= 10 for _, value, _, status in rows)
