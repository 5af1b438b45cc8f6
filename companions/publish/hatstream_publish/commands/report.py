"""`hatstream report`: one HTML page for a privacy officer and an operator."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.options import (
    account_options,
    answer,
    html_option,
    json_option,
    loaded,
    pattern_option,
    spec_option,
)
from pipelines.errors import UsageError
from pipelines.input_files import paths_of

if TYPE_CHECKING:
    from hatstream_publish.pages.report import ReportFacts
    from pipelines.account.location import AccountLocation
    from pipelines.specification import Specification
    from transforms.time.calendar import Calendar

HABIT_DAYS = (1, 5, 7, 30)


_HELP = """Write what is promised, spent, good and missing into one HTML page that needs no network.

\b
Example:
  hatstream report --spec town.toml --ledger town.sqlite --input 'out/*.parquet' --output out/report.html
"""


@click.command(help=_HELP)
@spec_option
@account_options
@pattern_option("Result files: a folder, or files as a quoted pattern, to say how good they are.", required=False)
@click.option("--from", "start", metavar="DATE", help="First local date of the slots to look for.")
@click.option("--to", "end", metavar="DATE", help="Last local date of them.")
@html_option
@json_option
def report(
    spec_path: Path,
    place: AccountLocation,
    pattern: str | None,
    start: str | None,
    end: str | None,
    output: Path,
    as_json: bool,
) -> int:
    from hatstream_publish.pages.report import draw_report
    from pipelines.ranges import range_of

    spec = loaded(spec_path, quiet=as_json)
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither")
    facts = _facts(spec, place, range_of(spec.timetable, start, end) if start and end else None, pattern)
    draw_report(facts, output)
    size = output.stat().st_size
    answer(as_json, {"output": str(output), "bytes": size}, f"{output} ({size / 1e3:,.0f} kB)")
    return 0


def _facts(spec: Specification, place: AccountLocation, when: Calendar | None, pattern: str | None) -> ReportFacts:
    """Walks the ledger. Raises LedgerError where there is none, or it is not whole."""
    from hatstream_publish.pages.report import ReportFacts
    from hatstream_publish.pages.rows import check_origin, read_rows
    from pipelines.account.cost import costs
    from pipelines.account.guarantee import Loss, loss_of, sentence, span_bounds
    from pipelines.account.missing_slots import gaps
    from pipelines.account.record import walked

    rows = read_rows(paths_of(pattern)) if pattern else None
    if rows is not None:
        check_origin(rows, spec.name, spec.spec_id)
    book = place.read()
    record = walked(book, spec)
    limit, by_period = book.limit(spec.account.name), book.debited(spec.account.name)
    bounds = span_bounds(limit, by_period)
    spent = {period: loss_of(total, limit) for period, total in by_period.items()}
    return ReportFacts(
        spec=spec,
        guarantee=sentence(spec, bounds, spec.privacy.allocation.epsilon, max(spent.values(), default=Loss())),
        spent=spent,
        limit=limit,
        bounds=bounds,
        gaps=gaps(spec, when, book, int(datetime.now(UTC).timestamp())) if when else [],
        slots=len(when.slots) if when else 0,
        rows=rows,
        record=record,
        costs=costs(spec.account.unit, limit, by_period, HABIT_DAYS) if by_period else [],
    )
