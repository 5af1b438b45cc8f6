"""`hatstream report`: one HTML page for a privacy officer and an operator."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.local_path import LocalPath
from pipelines.commands.options import account_options, spec_option
from pipelines.errors import UsageError
from pipelines.input_files import paths_of

if TYPE_CHECKING:
    from pipelines.account.guarantee import Loss
    from pipelines.account.location import AccountLocation
    from pipelines.specification import Specification
    from transforms.ledger import Ledger


@click.command()
@spec_option
@account_options
@click.option(
    "--input",
    "pattern",
    metavar="GLOB",
    help="Result files: a folder, or files as a quoted pattern, to say how good they are.",
)
@click.option("--from", "start", metavar="DATE", help="First local date of the slots to look for.")
@click.option("--to", "end", metavar="DATE", help="Last local date of them.")
@click.option("--output", required=True, type=LocalPath(path_type=Path, dir_okay=False), help="The HTML file.")
def report(
    spec_path: Path,
    place: AccountLocation,
    pattern: str | None,
    start: str | None,
    end: str | None,
    output: Path,
) -> int:
    """Write what is promised, spent, good and missing into one HTML page that needs no network.

    \b
    Example:
      hatstream report --spec town.toml --ledger town.sqlite --input 'out/*.parquet' --output out/report.html
    """
    return _run(spec_path, place, pattern, start, end, output)


def _run(
    spec_path: Path,
    place: AccountLocation,
    pattern: str | None,
    start: str | None,
    end: str | None,
    output: Path,
) -> int:
    from pipelines.account.cost import debits
    from pipelines.account.guarantee import loss_of
    from pipelines.account.missing_slots import gaps
    from pipelines.advice.pages.report import Facts, draw_report
    from pipelines.advice.pages.rows import read_rows
    from pipelines.ranges import range_of
    from pipelines.specification import load

    spec = load(spec_path)
    _check_range(start, end)
    book, signatures = _walked(place)
    name, limit = spec.account.name, book.limit(spec.account.name, spec.account.limit)
    spent = {period: loss_of(total, limit) for period, total in debits(book.spent(name)).items()}
    when = range_of(spec.timetable, start, end) if start and end else None
    facts = Facts(
        spec=spec,
        guarantee=_guarantee(spec, spent),
        spent=spent,
        limit=limit,
        signatures=signatures,
        gaps=gaps(spec, when, book, int(datetime.now(UTC).timestamp())) if when else [],
        slots=len(when.slots) if when else 0,
        rows=read_rows(paths_of(pattern)) if pattern else None,
    )
    draw_report(facts, output)
    click.echo(f"{output} ({output.stat().st_size / 1e6:.1f} MB)")
    return 0


def _check_range(start: str | None, end: str | None) -> None:
    """Raises UsageError for half a range."""
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither")


def _walked(place: AccountLocation) -> tuple[Ledger, str]:
    """The ledger, whose chain is whole, and whether its signatures were compared. Raises LedgerError."""
    from transforms.ledger.head import LedgerError

    book = place.reader()
    if not book.exists():
        raise LedgerError(f"there is no ledger at {place.shown}")
    return book, book.verify_chain().said()


def _guarantee(spec: Specification, spent: Mapping[str, Loss]) -> str:
    from pipelines.account.guarantee import Loss, sentence

    return sentence(spec, spec.privacy.allocation.epsilon, max(spent.values(), default=Loss()))
