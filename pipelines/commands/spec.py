"""`hatstream spec`: check a specification, draft one from a sample, and the schema and reference of all."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pipelines.commands.options import console, json_option, loaded
from pipelines.commands.terminal import with_verbosity
from pipelines.companions import COMPANION_COMMANDS, companion_command

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from fractions import Fraction

    from pipelines.specification import Specification
    from pipelines.specification.span_total import SpanTotal
    from transforms.releases import DayShare
    from transforms.time.calendar import Weekday


class _SpecGroup(click.Group):
    """The group `spec`, whose command `new` a companion brings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "new"])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command: click.Command | None = companion_command("spec new") if name == "new" else None
        return with_verbosity(command) if command is not None else super().get_command(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        lines = {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        lines["new"] = COMPANION_COMMANDS["spec new"][1]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


@click.group(cls=_SpecGroup)
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
    region = "all with reports" if cells.region is None else f"{len(cells.region):,}"
    region += f" from a {cells.source}" if cells.source else ""
    region += _where(cells.region, cells.resolution) if isinstance(cells.region, tuple) else ""
    allocation = spec.privacy.allocation
    total = f"epsilon {float(allocation.epsilon):g} for {_each(spec)}"
    return {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "account": f"{spec.account.name}: {spec.account.unit}, {spec.account.adjacency}, {spec.account.limit.said()}",
        "slots": f"{table.slot_minutes} minutes, {table.service_text} {table.zone}",
        "cells": f"resolution {cells.resolution}, {region}",
        "statistics": ", ".join(_statistics(spec)),
        "privacy": total,
        "input": spec.input.name,
        "outputs": ", ".join(_outputs(spec)),
        **({} if spec.places is None else {"places": f"{len(spec.places.pieces.places.names):,}, within the cells"}),
    }


def _where(region: Sequence[int], resolution: int) -> str:
    """Says how large a region is and where its middle lies, so that one on another continent is seen."""
    import h3

    lats, lons = zip(*(h3.cell_to_latlng(h3.int_to_str(cell)) for cell in region), strict=True)
    lat, lon = (sorted(degrees)[len(degrees) // 2] for degrees in (lats, lons))
    km2 = len(region) * h3.average_hexagon_area(resolution, unit="km^2")
    sides = ("north" if lat >= 0 else "south", "east" if lon >= 0 else "west")
    return f", {km2:,.0f} km2 around {abs(lat):.2f} {sides[0]}, {abs(lon):.2f} {sides[1]}"


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
