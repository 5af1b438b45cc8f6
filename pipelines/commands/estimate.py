"""`hatstream estimate`: estimates of released or coming days."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands import options
from pipelines.commands.terminal import progress_bars
from pipelines.errors import UsageError, raise_as
from pipelines.option_types import PRODUCTS

MOST_DAYS = 366  # to come that are forecast at once

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from transforms.releases.periods.products import ProductName


_HELP = """Estimate again, from the ledger, days released by 'levels': no data is read, and nothing is spent.

\b
Examples:
  hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output again
  hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output whole --whole --forecast 7
  hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output coarse --product parent-hour
  hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output sums --released --formats csv
"""


@click.command(help=_HELP)
@options.spec_option
@click.option("--from", "start", required=True, metavar="DATE", help="First local date.")
@click.option("--to", "end", required=True, metavar="DATE", help="Last local date (included).")
@click.option(
    "--forecast",
    type=click.IntRange(1, MOST_DAYS),
    metavar="DAYS",
    help="Also this many days after the last one, from all that is released by now.",
)
@click.option("--whole", is_flag=True, help="Use all releases up to now, not only those up to each day.")
@click.option(
    "--released",
    is_flag=True,
    help="Also write the noisy sums that 'levels' released, each period in a file of its own.",
)
@click.option(
    "--product",
    "products",
    type=click.Choice(PRODUCTS),
    multiple=True,
    help="Also a coarser product (see docs/released.md) of each period, in a file of its own; may be repeated.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="HH:MM-HH:MM",
    help="With cell-part and place-part: a part of the day; may be repeated.",
)
@options.files_options
@options.account_options
@options.json_option
def estimate(
    spec_path: Path,
    start: str,
    end: str,
    forecast: int | None,
    whole: bool,
    released: bool,
    products: tuple[ProductName, ...],
    parts: tuple[str, ...],
    outputs_for: options.OutputsFor,
    location: AccountLocation,
    as_json: bool,
) -> None:
    """Writes estimates of released periods again."""
    from pipelines.inputs import range_of
    from pipelines.runs import estimates
    from transforms.releases.periods.products import product_of

    spec = options.loaded(spec_path, quiet=as_json)
    table = spec.timetable
    calendar = range_of(table, start, end)
    try:
        next_day = date.fromisoformat(end) + timedelta(days=1) if forecast else None
    except ValueError:
        raise UsageError(f"--forecast needs --to as a date; {end!r} is not one") from None
    outputs = outputs_for(spec)
    if parts and not {"cell-part", "place-part"} & {*products}:
        raise UsageError("--part goes with --product cell-part and --product place-part")
    with raise_as(UsageError, ValueError, "--part: "):
        coarser = [
            product_of(name, parts if name.endswith("-part") else (), table.slot_minutes, table.service_span)
            for name in dict.fromkeys(products)
        ]
    with progress_bars(quiet=as_json) as report:
        recorded = estimates.recorded(spec, location, coarser)
        written, missing = estimates.estimate_again(recorded, calendar, outputs, report, whole=whole, sums=released)
        if forecast and next_day:
            written += estimates.forecast(recorded, next_day, forecast, outputs)
    lines = (f"{period} is not released: no estimate" for period in missing)
    document = {"files": list(map(str, written)), "not_released": missing}
    options.answer(as_json, document, *lines, f"{len(written):,} files in {outputs.folder}")
