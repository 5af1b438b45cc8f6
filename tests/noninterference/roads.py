"""The roads that a feed may take, and what is made of results for the public, each as a history of one town."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import apache_beam as beam
import pytest

import hatstream
from hatstream_publish.commands.following import read_options
from hatstream_publish.commands.publish import site_of
from pipelines.runs.per_key import PerKey
from pipelines.specification import load
from tests.city import DAYS, FORMATS
from tests.hatstream.pipelines import bounded, by_parts
from tests.kit import fusion_city
from tests.noninterference import feeds
from tests.noninterference.world import Feed, Report, Town, command
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink


@dataclass(frozen=True)
class Job:
    """`hatstream release` of files, and what is made of its results."""

    layout: str = "csv"
    files: int = 1
    formats: Sequence[str] = ("csv",)
    more: Sequence[str] = ()
    days: tuple[str, str] = DAYS[:1] * 2

    def __call__(self, town: Town, feed: Feed) -> None:
        pattern = feeds.write(feed, town.folder / "in", self.layout, self.files)
        town.run(*self.command(town, pattern))

    def command(self, town: Town, pattern: str) -> list[object]:
        return [
            "release", *town.ledger(), "--input", pattern, "--from", self.days[0], "--to", self.days[1],
            "--output", town.out, "--formats", ",".join(self.formats), *self.more,
        ]  # fmt: skip


def a_file_a_vehicle(town: Town, feed: Feed) -> None:
    """A release of files that are named by their vehicles."""
    job = Job(formats=("csv", "parquet"))
    town.run(*job.command(town, feeds.write_by_vehicle(feed, town.folder / "in")))


EVERY_FORMAT = (*FORMATS, "geojson")


def everything(town: Town, feed: Feed) -> None:
    """A release in every format, said for people and for programs, and all that is made of it."""
    Job(formats=EVERY_FORMAT)(town, feed)
    Job(formats=EVERY_FORMAT, more=("--json",))(town, feed)
    folder, days = town.folder / "public", ("--from", DAYS[0], "--to", DAYS[0])
    results = f"{town.out}/[hd]a[ty]s-*.csv"
    town.run("report", *town.ledger(), *days, "--input", results, "--output", folder / "report.html")
    town.run("map", "--input", results, "--output", folder / "map.html", *town.ledger()[:2])
    if '"levels"' in (town.folder / "spec.toml").read_text():
        town.run("estimate", *town.ledger(), *days, "--output", folder / "again", "--formats", "csv", "--json")
        sums = ("--output", folder / "sums", "--formats", "jsonl", "--released", "--whole", "--forecast", "1")
        town.run("estimate", *town.ledger(), *days, *sums)


def bounded_library(town: Town, feed: Feed) -> None:
    """A bounded PCollection of dicts."""
    by_library(bounded(), beam.Create(list(map(element, feed))), town, start=DAYS[0], end=DAYS[0])


def parts(town: Town, feed: Feed) -> None:
    """The road's parts, put together by hand."""
    hats = hatstream.ClosedHats.of(town.folder / "spec.toml", *DAYS[:1] * 2, str(town.folder / "ledger.sqlite"))
    p = bounded()
    _ = by_parts(p, list(map(element, feed)), hats) | "keep" >> beam.Map(_keep, str(town.folder / "rows.jsonl"))
    _show_rows(p, town, "rows of the parts")


def by_library(p: beam.Pipeline, given: Any, town: Town, **span: str) -> None:
    """Runs a pipeline of a library user, and shows the rows that it gives."""
    made = hatstream.Release(spec=town.folder / "spec.toml", ledger=str(town.folder / "ledger.sqlite"), **span)
    _ = p | "reports" >> given | made | "keep" >> beam.Map(_keep, str(town.folder / "rows.jsonl"))
    _show_rows(p, town, "rows of the library")


def _show_rows(p: beam.Pipeline, town: Town, name: str) -> None:
    """Runs a pipeline, and shows the rows that it kept."""
    try:
        p.run().wait_until_finish()
    except Exception as error:  # noqa: BLE001 - whatever ends it, that it ended is seen
        town.show("error of the library", type(error).__name__)
        return
    town.show(name, "\n".join(sorted((town.folder / "rows.jsonl").read_text().splitlines())))


@dataclass(frozen=True)
class ByKey:
    """A statistic by key, in a library user's pipeline; the latitude stands for a key. options: of the transform."""

    transform: type[PerKey]
    options: Mapping[str, Any]

    def __call__(self, town: Town, feed: Feed) -> None:
        self.show(town, bounded() | beam.Create(list(map(element, feed))), DAYS[0])

    def show(self, town: Town, given: Any, start: str) -> None:
        """Runs the statistic on elements, and shows its rows."""
        spec = load(town.folder / "spec.toml")
        hides = "values" if spec.counts_are_public else "presence"
        account = hatstream.UserAccount(
            limit=(2.64, 1e-6) if hides == "presence" else 50.0,
            ledger=str(town.folder / "ledger.sqlite"),
            name=spec.account.name,
            timezone=spec.account.timezone,
            hides=hides,
        )
        made = self.transform(
            user="bus", time="ts", key=lambda row: f"{row['lat']:.2f}", keys=feeds.KEYS, start=start, account=account,
            total=account.limit, with_refused=False, **self.options,
        )  # fmt: skip
        plain = given | made | beam.Map(lambda row: repr(row))
        _ = plain | "keep" >> beam.Map(_keep, str(town.folder / "rows.jsonl"))
        _show_rows(given.pipeline, town, "rows by key")


def element(report: Report) -> dict[str, Any]:
    return dict(zip(feeds.NAMES, report[:5], strict=True))


def _keep(row: Any, path: str) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def cluster(town: Town, feed: Feed) -> None:
    """The pipeline of a cluster, on Beam's own runner in this process."""
    with pytest.MonkeyPatch.context() as patch:
        put_in_the_place_of_flink(patch)
        job = Job(more=("--json",))
        command = job.command(town, feeds.write(feed, town.folder / "in", job.layout, 2))
        town.run(*command, *OPTIONS)


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


TEXTS = ("--publisher", "City of Town", "--licence", "CC-BY-4.0", "--all")


def portal(town: Town, feed: Feed) -> None:
    """A release, published twice: with values that may be used, and with all."""
    Job(formats=("parquet", "jsonl"))(town, feed)
    for name, texts in (("usable", TEXTS[:-1]), ("all", TEXTS)):
        command = ("publish", *town.ledger(), "--input", f"{town.out}/[hd]a[ty]s-*.parquet", *texts)
        town.run(*command, "--output", town.folder / "public" / name)
        town.run(*command, "--output", town.folder / "public" / f"{name}-again", "--json")


def site(town: Town, feed: Feed) -> None:
    """A release, published once, then as one that follows."""
    from hatstream.api import load
    from pipelines.account import location

    Job(formats=("parquet",))(town, feed)
    folder, spec = town.folder / "public" / "site", town.folder / "spec.toml"
    town.run("publish", *town.ledger(), "--input", town.out, *TEXTS, "--output", folder)
    place = location.find(str(town.folder / "ledger.sqlite"), None)
    options = read_options(folder)
    following = site_of(load(spec), spec, place, str(town.out), folder, options, follows=True)
    assert following.files.look()
    assert following.update() is not None


# --- local reports ----------------------------------------------------------------------------------------------------

# What vehicles perturb themselves, and what is fused of it. Neighbours differ in one vehicle's speeds: which services
# it answers, where and when is told. Noise is drawn by the vehicles, so nothing stands in the ledger: with the same
# draws only the vehicle's own reports may differ, and all that is fused is a function of the reports.
FUSION_SPEC = fusion_city.spec(
    services=fusion_city.SERVICES | {"signals": 'mechanism = "sr", epsilon = 1'}, zone="Asia/Kolkata", by_cell=True
)
ALONE = "T04:30:00Z"  # A slot in which the vehicle is alone, 10:00 local time
IN_RANGE = {"pm": (0.25, -0.5), "laplace": (0.25, -0.5), "sw": (0.25, 0.5)}


STRANGE = [
    {"report": 10**400}, {"report": "much"}, {"report": True}, {"report": 1e9}, {"epsilon": "1"}, {"epsilon": 7},
    {"service": 5}, {"mechanism": None}, {"time": 3}, {"time": "never"}, {"user": 2.5}, {"user": None}, {"cell": "x"},
    {"cell": 1.5}, {"report": float("nan")},
]  # fmt: skip
"""What takes the place of a good value in a report that nobody takes then."""
Rows = list[dict[str, Any]]


def perturbed_and_fused(town: Town, feed: Feed) -> None:
    rows = perturbed(town, feed)
    own = {row["user"] for row in rows if row["time"].endswith(ALONE)}
    told = [row | ({"report": ""} if row["user"] in own else {}) for row in rows]
    town.show("reports of others, and what the vehicle's say besides", "\n".join(map(str, told)))
    fused(town, "csv", [row | {"report": report} for row, report in zip(rows, masks(rows), strict=True)])


def fused_beside_a_stranger(town: Town, feed: Feed) -> None:
    """Reports in JSON lines; those of the vehicle, where there are some, are refused, before and among the others."""
    others = [report for report in feed if report.vehicle != "PLATE-X"]
    rows = [row | {"report": float(row["report"]), "epsilon": float(row["epsilon"])} for row in perturbed(town, others)]
    if len(others) < len(feed):
        strange = [rows[0] | {"user": "stranger"} | change for change in STRANGE]
        rows = [*strange[:4], *rows[:9], *strange[4:], *rows[9:]]
    fused(town, "jsonl", rows)


def perturbed(town: Town, feed: Feed) -> Rows:
    key = town.folder / "reports.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    pattern, output = feeds.write(feed, town.folder / "in", "csv"), town.folder / "reports.csv"
    given = ("--spec", town.folder / "spec.toml", "--input", pattern, "--key", key, "--output", output)
    town.run("perturb", *given)
    town.run("perturb", *given, "--json")
    with output.open() as file:
        return list(csv.DictReader(file))


def masks(rows: Rows) -> list[str]:
    """For each row a report that its mechanism can give, whatever the vehicle's speed."""
    ends = {row["report"] for row in rows if row["mechanism"] == "sr"}  # a mechanism of two values
    reports = {name: cycle(map(str, values)) for name, values in (IN_RANGE | {"sr": sorted(ends)}).items()}
    return [next(reports[row["mechanism"]]) for row in rows]


def fused(town: Town, layout: str, rows: Rows) -> None:
    """What is fused of the reports; how many were refused is told, and may differ."""
    path, spec = town.folder / f"told.{layout}", town.folder / "spec.toml"
    spec.write_text(FUSION_SPEC.replace('layout = "csv"', f'layout = "{layout}"', 1))
    with path.open("w", newline="") as file:
        if layout == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    for formats in ("csv,parquet", "jsonl,geojson"):
        given = ("--spec", spec, "--input", path, "--output", town.folder / "public", "--formats", formats)
        code, _, _ = command("fuse", *given)
        town.show("exit code", code)
