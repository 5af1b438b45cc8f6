"""The roads that a feed may take, each as a history of one town."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import TimestampedValue

import hatstream
from pipelines.runs import library
from tests.city import DAYS, FORMATS
from tests.noninterference import feeds
from tests.noninterference.world import Feed, Report, Town
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink
from tests.stream.clock import Beats


@dataclass(frozen=True)
class Job:
    """`hatstream release` of files, and what is made of its results."""

    layout: str = "csv"
    files: int = 1
    workers: int = 1
    formats: Sequence[str] = ("csv",)
    more: Sequence[str] = ()
    days: tuple[str, str] = DAYS[:1] * 2

    def __call__(self, town: Town, feed: Feed) -> None:
        pattern = feeds.write(feed, town.folder / "in", self.layout, self.files)
        town.run(*self.command(town, pattern))

    def command(self, town: Town, pattern: str) -> list[object]:
        return [
            "release", *town.ledger(), "--input", pattern, "--from", self.days[0], "--to", self.days[1],
            "--output", town.out, "--formats", ",".join(self.formats), "--workers", self.workers, *self.more,
        ]  # fmt: skip


def everything(town: Town, feed: Feed) -> None:
    """A release in every format, said for people and for programs, and all that is made of it."""
    Job(formats=(*FORMATS, "geojson"))(town, feed)
    Job(formats=(*FORMATS, "geojson"), more=("--json",))(town, feed)
    folder, days = town.folder / "public", ("--from", DAYS[0], "--to", DAYS[0])
    town.run("report", *town.ledger(), *days, "--input", f"{town.out}/hats-*.csv", "--output", folder / "report.html")
    town.run("map", "--input", f"{town.out}/hats-*.csv", "--output", folder / "map.html", *town.ledger()[:2])
    town.run("estimate", *town.ledger(), *days, "--output", folder / "again", "--formats", "csv", "--json")
    if '"levels"' in (town.folder / "spec.toml").read_text():
        sums = ("--output", folder / "sums", "--formats", "jsonl", "--released", "--whole", "--forecast", "1")
        town.run("estimate", *town.ledger(), *days, *sums)


def bounded_library(town: Town, feed: Feed) -> None:
    """A bounded PCollection of dicts."""
    p = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    made = hatstream.Release(
        spec=town.folder / "spec.toml", ledger=str(town.folder / "ledger.sqlite"), start=DAYS[0], end=DAYS[0]
    )
    given = p | "reports" >> beam.Create([dict(zip(feeds.NAMES, report[:5], strict=True)) for report in feed])
    _ = given | made | "keep" >> beam.Map(_keep, str(town.folder / "rows.jsonl"))
    p.run().wait_until_finish()
    town.show("rows of the library", "\n".join(sorted((town.folder / "rows.jsonl").read_text().splitlines())))


def _keep(row: Any, path: str) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def cluster(town: Town, feed: Feed) -> None:
    """The pipeline of a cluster, on Beam's own runner in this process."""
    with pytest.MonkeyPatch.context() as patch:
        put_in_the_place_of_flink(patch)
        job = Job(more=("--json",))
        command = job.command(town, feeds.write(feed, town.folder / "in", job.layout, 2))
        at = command.index("--workers")
        town.run(*command[:at], *command[at + 2 :], *OPTIONS)


@dataclass(frozen=True)
class UnboundedLibrary:
    """An unbounded PCollection of dicts, taken by the transport at the times that the reports say."""

    slots: tuple[int, ...]

    def __call__(self, town: Town, feed: Feed) -> None:
        clock = Clock()
        for hour in self.slots:
            clock = clock.advance_watermark_to(hour)
            rows = [each for each in feed if hour <= (each.received_s or 0) < hour + 3_600]
            if rows:
                elements = [
                    TimestampedValue(dict(zip(feeds.NAMES, row[:5], strict=True)), row.received_s) for row in rows
                ]
                clock = clock.add_elements(elements)
        made = hatstream.Release(
            spec=town.folder / "spec.toml", ledger=str(town.folder / "ledger.sqlite"), start=f"{DAYS[0]}T08:00"
        )
        p = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(library, "Heartbeat", lambda *_: Beats(self.slots))
            given = p | clock.advance_watermark_to_infinity()
            _ = given | made | "keep" >> beam.Map(_keep, str(town.folder / "rows.jsonl"))
            p.run().wait_until_finish()
        town.show("rows of the library", "\n".join(sorted((town.folder / "rows.jsonl").read_text().splitlines())))


def reports(
    buses: int, *, day: str = DAYS[0], hours: Sequence[int] = (8, 9), per_hour: int = 3, first: int = 0
) -> Feed:
    """Buses that go through three cells."""
    return [
        Report(
            f"PLATE{bus}", f"{day}T{hour:02d}:{17 * i:02d}:{bus % 60:02d}+05:30", 21.17 + 0.02 * ((bus + i) % 3), 72.83,
            float((7 * bus + 11 * i + hour) % 60),
        )
        for hour in hours
        for i in range(per_hour)
        for bus in range(first, first + buses)
    ]  # fmt: skip
