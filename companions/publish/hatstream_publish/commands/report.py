"""`hatstream report`: an HTML page for officers and operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hatstream.api import UsageError, option
from hatstream_publish.commands.answer import answer, loaded

_HELP = """Write promise, spending, quality and missing slots into one HTML page that needs no network.

\b
Example:
  hatstream report --spec town.toml --ledger town.sqlite --input 'out/*.parquet' --output out/report.html
"""


@click.command(help=_HELP)
@option("spec")
@option("account")
@option("input", required=False, help="Result files, to show their quality: a folder, or files as a quoted pattern.")
@click.option("--from", "start", metavar="DATE", help="First local date of slots to check.")
@click.option("--to", "end", metavar="DATE", help="Last local date of slots to check.")
@option("file")
@option("json")
def report(
    spec_path: Path, location: Any, pattern: str | None, start: str | None, end: str | None, output: Path, as_json: bool
) -> int:
    """Writes an account's report; `location`: its ledger and key files."""
    from hatstream.api import AccountReport
    from hatstream_publish.pages.page import draw_report
    from hatstream_publish.pages.rows import HATS, check_origin, read_results, with_trips

    spec = loaded(spec_path, quiet=as_json)
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither")
    tables = read_results(pattern) if pattern else {}
    for rows in tables.values():
        check_origin(rows, spec.name, spec.spec_id)
    # Hours without a trip by the timetable are no gaps in quality.
    tables = {name: with_trips(rows, spec) if name == HATS else rows for name, rows in tables.items()}
    habits = (1, 5, 7, 30)  # numbers of equal days of which the report shows a vehicle's spending
    account = AccountReport.read(spec, location, (start, end) if start and end else None, days=habits)
    draw_report(account, tables, output)
    size = output.stat().st_size
    answer(as_json, {"output": str(output), "bytes": size}, f"{output} ({size / 1e3:,.0f} kB)")
    return 0
