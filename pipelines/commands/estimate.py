"""`hatstream estimate`: estimates of released days again, or of days to come, without data and without spending."""

from datetime import date, timedelta
from pathlib import Path

import click
import msgspec

from pipelines.account import location
from pipelines.commands.options import (
    by_date_option,
    columns_option,
    formats_option,
    json_option,
    key_option,
    ledger_option,
    output_folder_option,
    progress_bars,
    shape_of,
    spec_option,
)
from pipelines.exit_codes import DONE
from pipelines.scheduled import estimates
from pipelines.scheduled.release import UsageError, range_of
from pipelines.specification import load


@click.command()
@spec_option
@click.option("--from", "start", required=True, metavar="DATE", help="First local date.")
@click.option("--to", "end", required=True, metavar="DATE", help="Last local date (included).")
@output_folder_option
@click.option("--whole", is_flag=True, help="By all that is released by now, not only by what was then.")
@click.option(
    "--forecast",
    "days",
    type=click.IntRange(1, estimates.MOST_DAYS),
    metavar="DAYS",
    help="Also this many days after the last one, from all that is released by now.",
)
@ledger_option
@key_option
@formats_option
@columns_option
@by_date_option
@json_option
def estimate(
    spec_path: Path,
    start: str,
    end: str,
    output: Path,
    whole: bool,
    days: int | None,
    ledger: str | None,
    key_path: Path | None,
    formats: tuple[str, ...],
    columns: frozenset[str],
    by_date: bool,
    as_json: bool,
) -> int:
    """Estimate released days again from the ledger: no data is read, and nothing is spent.

    \b
    Examples:
      hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output again
      hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output whole --whole --forecast 7
    """
    spec = load(spec_path)
    shape = shape_of(spec, columns, formats, by_date=by_date)
    known = estimates.recorded(spec, location.find(ledger, key_path))
    when = range_of(spec.timetable, start, end)
    with progress_bars(quiet=as_json) as report:
        written, missing = estimates.estimate_again(known, when, output, formats, report, whole=whole, shape=shape)
    if days is not None:
        written += estimates.forecast(known, _after(end), days, output, formats, shape)
    if as_json:
        plain = {"files": [str(path) for path in written], "not_released": missing}
        click.echo(msgspec.json.encode(plain).decode())
        return DONE
    for period in missing:
        click.echo(f"{period} is not released: no estimate")
    click.echo(f"{len(written):,} files in {output}")
    return DONE


def _after(text: str) -> date:
    try:
        return date.fromisoformat(text) + timedelta(days=1)
    except ValueError:
        raise UsageError(f"--forecast needs --to as a date, {text!r} is none") from None
