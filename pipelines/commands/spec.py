"""`hatstream spec`: check a specification, draft one from a sample, and the schema and reference of all."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pipelines.commands.local_path import LocalPath
from pipelines.commands.options import console, json_option, loaded
from pipelines.commands.terminal import note
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from fractions import Fraction

    from pipelines.advice.draft.draft import Draft
    from pipelines.specification import Specification
    from pipelines.specification.span_total import SpanTotal
    from transforms.releases.slots import DayShare
    from transforms.time.calendar import Weekday


@click.group()
def spec() -> None:
    """Check a specification, draft one from a sample of a feed, print the schema or the reference.

    \b
    Examples:
      hatstream spec new --gtfs static.zip --sample feed.csv --output town.toml
      hatstream spec check town.toml
    """


@spec.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def check(path: Path, as_json: bool) -> None:
    """Check FILE as a release would, and say what it asks for.

    Exit code 2 where something is wrong.

    \b
    Example:
      hatstream spec check town.toml
    """
    from pipelines.specification.foreseen import foreseen

    spec = loaded(path, quiet=as_json)
    described, beware = _described(spec), foreseen(spec, date.today())
    if as_json:
        click.echo(msgspec.json.encode({**described, "beware": beware}).decode())
        return
    out = console()
    out.print(f"{path} is a good specification")
    for name, value in described.items():
        out.print(f"  {name.replace('_', ' ')}: {value}")
    for told in beware:
        out.print(f"  beware: {told}")


def _described(spec: Specification) -> dict[str, str | int]:
    table, cells = spec.timetable, spec.cells
    hours = f"{table.service_start_minute // 60:02d}:{table.service_start_minute % 60:02d}"
    until = f"{table.service_end_minute // 60:02d}:{table.service_end_minute % 60:02d}"
    region = "all with reports" if cells.region is None else f"{len(cells.region):,}"
    region += f" from a {cells.source}" if cells.source else ""
    allocation = spec.privacy.allocation
    total = f"epsilon {float(allocation.epsilon):g} for {_each(spec)}"
    return {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "account": f"{spec.account.name}: {spec.account.unit}, {spec.account.adjacency}, {spec.account.limit.said()}",
        "slots": f"{table.slot_minutes} minutes, {hours} to {until} {table.zone}",
        "cells": f"resolution {cells.resolution}, {region}",
        "statistics": ", ".join(_statistics(spec)),
        "privacy": total,
        "input": spec.input.name,
        "outputs": ", ".join(_outputs(spec)),
        **({} if spec.places is None else {"places": f"{len(spec.places.pieces.places.names):,}, within the cells"}),
    }


def _statistics(spec: Specification) -> list[str]:
    asked = [f"{stat.name} by {stat.mechanism.name}" for stat in spec.statistics] or ["mean by levels"]
    return [*asked, "distribution by levels"] if spec.classes else asked


def _each(spec: Specification) -> str:
    """Says what the epsilon of a specification is of."""
    if spec.span is not None:
        return _of_span(spec, spec.span)
    return "each HAT" if spec.privacy.allocation.per == "hat" else "each period"


def _of_span(spec: Specification, span: SpanTotal) -> str:
    served = f"any {span.days} days, of which {spec.timetable.most_served(span.days)} are released"
    by_day = span.by_day
    if by_day is None:
        return f"{served} with {float(span.of_a_day()[0]):.3g} each"
    usual = _by_epsilon(by_day.by_weekday, spec.timetable.weekdays)
    if by_day.first_days is None:
        return f"{served}: {usual}"
    since, days, _ = by_day.first_days
    first = _by_epsilon(by_day.first, by_day.first_days.weekdays.intersection(spec.timetable.weekdays))
    return f"{served}: {usual}; the first {days}, from {since} on: {first}"


def _by_epsilon(by_weekday: Sequence[DayShare], served: Container[Weekday]) -> str:
    """Says what days have, those together that have the same."""
    from transforms.time.calendar import WEEKDAYS

    by_epsilon: dict[Fraction, list[str]] = {}
    for weekday, share in zip(WEEKDAYS, by_weekday, strict=True):
        if weekday in served:
            by_epsilon.setdefault(share.epsilon, []).append(weekday)
    return "; ".join(f"{', '.join(days)} with {float(day):.3g}" for day, days in by_epsilon.items())


def _outputs(spec: Specification) -> tuple[str, ...]:
    """Names what gets rows, each in files of its own."""
    live = ("live HATs",) if spec.has_live else ()
    return ("HATs", *live, *(product.name for product in spec.products))


@spec.command()
def schema() -> None:
    """Print the JSON Schema of specifications.

    It holds keys, types and words, for editors and other programs.

    \b
    Example:
      hatstream spec schema > hatstream.schema.json
    """
    from pipelines.specification.schema import schema as make_schema

    click.echo(msgspec.json.format(msgspec.json.encode(make_schema()), indent=2).decode())


@spec.command()
def reference() -> None:
    """Print docs/specification.md, the reference.

    \b
    Example:
      hatstream spec reference > docs/specification.md
    """
    from pipelines.specification.reference import reference as make_reference

    click.echo(make_reference(), nl=False)


@spec.command()
@click.option("--sample", type=click.Path(path_type=Path, exists=True), help="A file of the feed, or a folder of them.")
@click.option(
    "--gtfs",
    type=click.Path(path_type=Path, exists=True),
    help="The static timetable, a zip or folder: region, zone, hours, fleet and names of places, all public.",
)
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "counts-public"]),
    default="add-remove",
    show_default=True,
    help="Hide that a vehicle drove at all under one small total, or only its speeds.",
)
@click.option(
    "--output",
    type=LocalPath(path_type=Path, dir_okay=False),
    help="The file to write; needed with --gtfs. [default: print it]",
)
@click.option(
    "--streets",
    is_flag=True,
    help="With --gtfs and add-remove: also a file of segments from stop to stop, for a map of them (needs shapely).",
)
@json_option
def new(
    sample: Path | None, gtfs: Path | None, adjacency: str, output: Path | None, streets: bool, as_json: bool
) -> None:
    """Draft a specification from a sample of a feed, a timetable, or both.

    Layout, columns, units, time zone and cells are found; every guess has a comment to check.
    What was found is said on standard error. Nothing is released, and no value of a row is shown.

    \b
    Examples:
      hatstream spec new --gtfs static.zip --sample feed.csv --output town.toml
      hatstream spec new --gtfs static.zip --sample feed.csv --streets --output town.toml
      hatstream spec new --sample feed.csv
    """
    from pipelines.advice.draft.draft import draft
    from pipelines.specification import load

    _check_files(sample, gtfs, output)
    if streets:
        _check_streets(gtfs, adjacency)
    stem = output.stem if output else ""
    made = draft(sample, adds_and_removes=adjacency == "add-remove", timetable=gtfs, stem=stem, streets=streets)
    if not as_json:
        _say(made)
    spec_id = None
    if output is not None:
        _write(output, made)
        spec_id = load(output).spec_id
    if as_json:
        told = {"found": made.found, "warnings": made.warnings, "files": list(made.files), "toml": made.toml}
        click.echo(msgspec.json.encode({"output": output and str(output), "spec_id": spec_id, **told}).decode())
    elif output is None:
        click.echo(made.toml, nl=False)
    else:
        note(f"wrote {output} ({spec_id}). Read its comments, then: hatstream plan --spec {output}")


def _check_files(sample: Path | None, gtfs: Path | None, output: Path | None) -> None:
    if sample is None and gtfs is None:
        raise UsageError("give --gtfs, --sample or both")
    if gtfs is not None and output is None:
        raise UsageError("give --output: with --gtfs files of the region and of places lie beside the specification")


def _check_streets(gtfs: Path | None, adjacency: str) -> None:
    from transforms.extras import require

    if gtfs is None or adjacency != "add-remove":
        raise UsageError("--streets needs --gtfs, whose lines are cut from stop to stop, and --adjacency add-remove")
    try:
        require("shapely")
    except ModuleNotFoundError as error:
        raise UsageError(f"--streets: {error}") from None


def _say(made: Draft) -> None:
    for line in made.found:
        note(f"found: {line}")
    for line in made.warnings:
        click.echo(f"WARNING: {line}", err=True)


def _write(output: Path, made: Draft) -> None:
    """Writes the files, the specification last, and nothing over what is there. Raises UsageError and OutputError."""
    from pipelines.output_folder import OutputError

    texts = {output.with_name(name): content for name, content in made.files.items()} | {output: made.toml.encode()}
    there = next((path for path in (output, *texts) if path.exists()), None)
    if there is not None:
        raise UsageError(f"{there} is there already: name another file")
    for path, content in texts.items():
        try:
            path.write_bytes(content)
        except OSError as error:
            if path.is_file():
                path.unlink()  # of a full disk
            raise OutputError(f"{path}: {error.strerror}") from None
        if path != output:
            click.echo(f"wrote {path}", err=True)
