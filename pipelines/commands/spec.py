"""`hatstream spec`: check, draft, schema and reference of specifications."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pipelines.commands.options import FILE, json_option, loaded
from pipelines.commands.terminal import console, with_verbosity
from pipelines.companions import COMPANION_COMMANDS, companion_command

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from fractions import Fraction

    from pipelines.specification import Specification
    from pipelines.specification.levels import SpanTotal
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
    """Check a specification, draft one from a feed's sample, print schema or reference.

    \b
    Examples:
      hatstream spec new --gtfs static.zip --sample feed.csv --output town.toml
      hatstream spec check town.toml
    """


@spec.command()
@click.argument("path", metavar="FILE", type=FILE)
@json_option
def check(path: Path, as_json: bool) -> None:
    """Check FILE as a release would, and summarise it.

    Exit code 2 where something is wrong.

    \b
    Example:
      hatstream spec check town.toml
    """
    from pipelines.specification import foreseen

    spec = loaded(path, quiet=as_json)
    described, beware = _described(spec), list(foreseen(spec, date.today()))
    if as_json:
        click.echo(msgspec.json.encode({**described, "beware": beware}).decode())
        return
    out = console()
    out.print(f"{path} is a valid specification")
    for name, value in described.items():
        out.print(f"  {name.replace('_', ' ')}: {value}")
    for warning in beware:
        out.print(f"  beware: {warning}")


def _described(spec: Specification) -> dict[str, str | int]:
    """Describes a specification by name of each fact, for `hatstream spec`."""
    table, cells, account = spec.timetable, spec.cells, spec.account
    region = "all with reports" if cells.region is None else f"{len(cells.region):,}"
    region += f" from a {cells.source}" if cells.source else ""
    if isinstance(cells.region, tuple):  # its size and middle, so that one on another continent is seen
        import h3.api.basic_int as h3_int

        lats, lons = zip(*(h3_int.cell_to_latlng(cell) for cell in cells.region), strict=True)
        lat, lon = (sorted(degrees)[len(degrees) // 2] for degrees in (lats, lons))
        km2 = len(cells.region) * h3_int.average_hexagon_area(cells.resolution, unit="km^2")
        north, east = "north" if lat >= 0 else "south", "east" if lon >= 0 else "west"
        region += f", {km2:,.0f} km2 around {abs(lat):.2f} {north}, {abs(lon):.2f} {east}"
    allocation = spec.privacy.allocation
    unit = "each HAT" if allocation.per == "hat" else "each period"
    statistics = [f"{stat.name} by {stat.mechanism.name}" for stat in spec.statistics] or ["mean by levels"]
    statistics += [f"{name} by levels" for part in spec.parts for name in part.statistics]  # such as distribution
    outputs = ("HATs", *(("live HATs",) if spec.has_live else ()), *(product.name for product in spec.products))
    return {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "account": f"{account.name}: {account.unit}, {account.adjacency}, {account.limit.describe()}",
        "slots": f"{table.slot_minutes} minutes, {table.service_text} {table.zone}",
        **({"keys": f"{len(spec.keys):,}"} if spec.keys else {"cells": f"resolution {cells.resolution}, {region}"}),
        "statistics": ", ".join(statistics),
        "privacy": f"epsilon {float(allocation.epsilon):g} for "
        + (unit if spec.span is None else _of_span(spec, spec.span)),
        "input": spec.input.name,
        "outputs": ", ".join(outputs),
        **dict(fact for part in spec.parts for fact in part.facts),
    }


def _of_span(spec: Specification, span: SpanTotal) -> str:
    """Describes a span's released days and a day's epsilon, by weekday if unequal."""
    served = f"any {span.days} days, of which {spec.timetable.most_served(span.days)} are released"
    if (by_day := span.by_day) is None:
        epsilon, _rho = span.of_a_day()
        return f"{served} with {float(epsilon):.3g} each"
    text, first_days = f"{served}: {_by_epsilon(by_day.by_weekday, spec.timetable.weekdays)}", by_day.first_days
    if first_days is None:
        return text
    # `first`: shares of the account's first days, by weekday.
    shares = _by_epsilon(by_day.first, first_days.weekdays.intersection(spec.timetable.weekdays))
    return f"{text}; the first {first_days.days}, from {first_days.since} on: {shares}"


def _by_epsilon(by_weekday: Sequence[DayShare], served_days: Container[Weekday]) -> str:
    """Formats weekdays' epsilons, grouped by equal values."""
    from transforms.time.calendar import WEEKDAYS

    by_epsilon: dict[Fraction, list[str]] = {}
    for weekday, share in zip(WEEKDAYS, by_weekday, strict=True):
        if weekday in served_days:
            by_epsilon.setdefault(share.epsilon, []).append(weekday)
    return "; ".join(f"{', '.join(days)} with {float(epsilon):.3g}" for epsilon, days in by_epsilon.items())


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
    """Print the reference of specifications, docs/specification.md.

    \b
    Example:
      hatstream spec reference > docs/specification.md
    """
    from pipelines.specification.schema import reference as make_reference

    click.echo(make_reference(), nl=False)
