"""`hatstream estimate`: estimates of released days again, or of days to come, without data and without spending."""

from collections.abc import Sequence
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
from pipelines.scheduled import estimates, past
from pipelines.scheduled.release import UsageError, range_of
from pipelines.specification import Specification, load
from transforms.release.products import PRODUCTS, Product, ProductName, product_of


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
@click.option(
    "--product",
    "products",
    type=click.Choice(PRODUCTS),
    multiple=True,
    help="Also a coarser product of each period, in a file of its own; may be given several times.",
)
@click.option(
    "--part", "parts", multiple=True, metavar="HH:MM-HH:MM", help="With cell-part: a part of the day; several times."
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
    products: tuple[ProductName, ...],
    parts: tuple[str, ...],
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
      hatstream estimate --spec austin.toml --from 2016-11-24 --to 2016-11-27 --output coarse --product cell-day
    """
    spec, place = load(spec_path), location.find(ledger, key_path)
    when = range_of(spec.timetable, start, end)
    shape = shape_of(spec, columns | _own_columns(spec), formats, by_date=by_date)
    with progress_bars(quiet=as_json) as report:
        if spec.levels is None:
            _refuse_more(products, parts, days)
            written, missing = past.estimate_again(spec, place, when, output, formats, report, shape, whole=whole)
        else:
            known = estimates.recorded(spec, place, _asked(spec, products, parts))
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


def _own_columns(spec: Specification) -> frozenset[str]:
    """By `levels` values themselves are learned; else they stand in columns of their own."""
    return frozenset() if spec.levels is not None else frozenset({"model"})


def _refuse_more(products: Sequence[str], parts: Sequence[str], days: int | None) -> None:
    if products or parts or days is not None:
        raise UsageError("--product, --part and --forecast are for statistics by 'levels'")


def _asked(spec: Specification, names: Sequence[ProductName], parts: Sequence[str]) -> list[Product]:
    """Raises UsageError."""
    table = spec.timetable
    service = table.service_start_minute, table.service_end_minute
    if parts and "cell-part" not in names:
        raise UsageError("--part goes with --product cell-part")
    try:
        return [
            product_of(name, parts if name == "cell-part" else (), table.slot_minutes, service)
            for name in dict.fromkeys(names)
        ]
    except ValueError as error:
        raise UsageError(f"--part: {error}") from None


def _after(text: str) -> date:
    try:
        return date.fromisoformat(text) + timedelta(days=1)
    except ValueError:
        raise UsageError(f"--forecast needs --to as a date, {text!r} is none") from None
