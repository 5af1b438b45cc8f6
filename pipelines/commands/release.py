"""`hatstream release`: the scheduled job over a closed range of time."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from pipelines.account import location
from pipelines.account.guarantee import sentence
from pipelines.account.spending import spending
from pipelines.assembly import ledger_account_of
from pipelines.commands.levels_summary import show_check, show_levels, summarise_levels
from pipelines.commands.options import (
    by_date_option,
    columns_option,
    console,
    formats_option,
    json_option,
    kafka_output_option,
    key_option,
    ledger_option,
    output_folder_option,
    progress_bars,
    shape_of,
    spec_option,
)
from pipelines.commands.terminal import detail
from pipelines.exit_codes import DIFFERS, DONE, FAILED
from pipelines.scheduled import release as scheduled
from pipelines.scheduled.check_input import check_input as check
from pipelines.scheduled.crew import MOST_WORKERS
from pipelines.specification import Specification, load
from transforms.release.recorded import Sealed
from transforms.sources.kafka_partition import Topic


@click.command()
@spec_option
@click.option(
    "--input",
    "pattern",
    required=True,
    metavar="GLOB",
    help="The input files, as a quoted pattern; s3://.. and gs://.. too.",
)
@click.option("--from", "start", metavar="DATE", help="First local date, or an ISO time on the edge of a slot.")
@click.option("--to", "end", metavar="DATE", help="Last local date (included), or an ISO time (excluded).")
@click.option("--yesterday", is_flag=True, help="The local day before today, for schedulers.")
@output_folder_option
@ledger_option
@key_option
@formats_option
@columns_option
@by_date_option
@kafka_output_option
@click.option(
    "--runner",
    type=click.Choice(["FnApiRunner", "DirectRunner"]),
    default="FnApiRunner",
    show_default=True,
    help="DirectRunner is another name for FnApiRunner here.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    help="Processes that read and count. [default: the cores there are; 1 for a small input]",
)
@click.option(
    "--allow-empty", is_flag=True, help="Nothing happened: seal a period, for ever, of which the input has no row."
)
@click.option(
    "--check-input",
    is_flag=True,
    help="Only say what the input holds of the range. The answer is for the operator alone.",
)
@json_option
def release(
    spec_path: Path,
    pattern: str,
    start: str | None,
    end: str | None,
    yesterday: bool,
    output: Path,
    ledger: str | None,
    key_path: Path | None,
    formats: tuple[str, ...],
    columns: frozenset[str],
    by_date: bool,
    kafka_output: Topic | None,
    runner: str,  # noqa: ARG001 - both names mean the one runner there is
    workers: int | None,
    allow_empty: bool,
    check_input: bool,
    as_json: bool,
) -> int:
    """Release the statistics of a closed range of time, exactly once.

    Running it again returns the same numbers and spends nothing.

    \b
    Example:
      hatstream release --spec austin.toml --input 'feed/*.csv' --from 2016-11-24 --to 2016-11-27 \\
          --output out --ledger austin.sqlite --formats parquet,csv
    """
    spec = load(spec_path)
    if yesterday == bool(start or end) or bool(start) != bool(end):
        raise scheduled.UsageError("give either --from and --to, or --yesterday")
    shape = shape_of(spec, columns, formats, by_date=by_date)
    now = datetime.now(UTC)
    if yesterday:
        when = scheduled.yesterday(spec.timetable, now)
    else:
        when = scheduled.closed_range(spec.timetable, start or "", end or "", now)
    place = location.find(ledger, key_path)
    detail(f"{spec.name} ({spec.spec_id}): {len(when.slots):,} slots of {len(when.periods):,} periods")
    detail(f"ledger {place.shown}\nkey {place.key}\nhead {place.head}")
    if check_input:
        with progress_bars(quiet=as_json) as report:
            checked = check(spec, when, pattern, ledger_account_of(spec, place, signs=False), workers, report)
        show_check(checked, as_json=as_json)
        return DONE if checked.is_complete else FAILED
    with progress_bars(quiet=as_json) as report:
        done = scheduled.release(
            spec,
            when,
            pattern,
            output,
            place,
            formats,
            report,
            kafka_output,
            allow_empty=allow_empty,
            workers=workers,
            shape=shape,
        )
    if spec.levels is None:
        summary = summarise(spec, done, place)
    else:
        summary = summarise_levels(spec, spec.levels, done, place.ledger)
    if as_json:
        click.echo(msgspec.json.encode(summary).decode())
    else:
        (show if spec.levels is None else show_levels)(summary, console())
    # Whether the input is the same as before decides no exit code where counts are secret.
    return DIFFERS if done.outcome.units_changed and spec.counts_are_public else DONE


def summarise(spec: Specification, done: scheduled.Release, place: location.AccountLocation) -> dict[str, Any]:
    """What a run did, as plain values: printed as tables for people and as it is for programs."""
    outcome = done.outcome
    periods, hat, bound = [], Fraction(0), Fraction(0)
    wanted = {slot.start_s for slot in done.calendar.slots}
    for period in done.calendar.periods:
        units = [unit for unit in place.ledger.released(spec.spec_id, period) if unit.slot_s in wanted]
        hat = max([hat, *(Fraction(unit.epsilon_hat) for unit in units)])
        debits, spend = spending(place.ledger, spec, period)
        bound = max(bound, debits if spend is None else spend.most)
        released = [each for unit in units for each in unit.released]
        empty = Counter(each.plan is None for each in released)
        periods.append(
            {
                "period": period,
                "slots": len({unit.slot_s for unit in units}),
                "slots_with_data": _with_data(spec, units),
                "hats": sum(empty.values()) // len(spec.statistics),
                "no_data": empty[True] // len(spec.statistics),
                "constants": sum(each.plan is not None and each.plan.get("epsilon") == "0" for each in released),
                "sum_of_slot_maxima": float(debits),
                "most_spent_by_a_vehicle": None if spend is None else float(spend.most),
                "spent_by_half_of_vehicles_at_most": None if spend is None else float(spend.median),
                "spent_by_nine_in_ten_at_most": None if spend is None else float(spend.p90),
            }
        )
    return {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "rows": outcome.rows,
        "observations": outcome.observations,
        "duplicates": outcome.duplicates,
        "refused": dict(sorted(outcome.refused.items())),
        "left_out_by_the_cap": outcome.capped,
        "periods": periods,
        "slots_new": sum(outcome.new.values()),
        "slots_that_differ_now": outcome.units_changed,
        "guarantee": sentence(spec, hat, bound),
        "files": [str(path) for path in done.files],
        "kafka": None if done.topic is None else str(done.topic),
    }


def _with_data(spec: Specification, units: Sequence[Sealed]) -> int | None:
    """Slots with a HAT that has data; not told where counts are secret."""
    if not spec.counts_are_public:
        return None
    return len({unit.slot_s for unit in units if any(released.plan is not None for released in unit.released)})


def show(summary: dict[str, Any], out: Console) -> None:
    """The summary as tables, the guarantee, and where the files are."""
    out.print(_rows_table(summary))
    out.print(_spending_table(summary["periods"]))
    for period in summary["periods"]:
        _show_period(period, out)
    if any(period["most_spent_by_a_vehicle"] is None for period in summary["periods"]):
        out.print(
            "Not known: other runs recorded slots of the period; the sum of slot maxima bounds what a vehicle spent."
        )
    out.print(f"Guarantee: {summary['guarantee']}", highlight=False)
    if summary["slots_that_differ_now"]:
        out.print(
            f"{summary['slots_that_differ_now']:,} slots were released before from other input or by other code; "
            "what was released then stands."
        )
    files = summary["files"]
    out.print(f"{len(files):,} files, first ... last:" if files else "no files")
    for path in dict.fromkeys([files[0], files[-1]] if files else []):
        out.print(f"  {path}", soft_wrap=True, highlight=False)
    if summary["kafka"]:
        out.print(f"the rows were sent to {summary['kafka']} too", soft_wrap=True, highlight=False)


def _rows_table(summary: dict[str, Any]) -> Table:
    rows = Table(title=f"{summary['name']} ({summary['spec_id']})", title_justify="left")
    rows.add_column("rows")
    rows.add_column("number", justify="right")
    for name in ("rows", "observations", "duplicates"):
        rows.add_row({"rows": "read"}.get(name, name), f"{summary[name]:,}")
    for reason, number in summary["refused"].items():
        rows.add_row(f"refused: {reason}", f"{number:,}")
    if summary["left_out_by_the_cap"]:
        rows.add_row("observations left out by the cap", f"{summary['left_out_by_the_cap']:,}")
    return rows


def _spending_table(periods: Sequence[dict[str, Any]]) -> Table:
    spent = Table()
    for title in ("period", "slots", "HATs", "no data", "sum of slot maxima", "most spent by a vehicle"):
        spent.add_column(title, justify="left" if title == "period" else "right")
    for period in periods:
        spent.add_row(
            period["period"],
            f"{period['slots']:,}",
            f"{period['hats']:,}",
            f"{period['no_data']:,}",
            f"{period['sum_of_slot_maxima']:g}",
            "not known" if period["most_spent_by_a_vehicle"] is None else f"{period['most_spent_by_a_vehicle']:g}",
        )
    return spent


def _show_period(period: dict[str, Any], out: Console) -> None:
    if period["slots_with_data"] is not None:
        out.print(f"{period['period']}: {period['slots_with_data']} of {period['slots']} slots have data.")
    if period["constants"]:
        out.print(f"{period['period']}: {period['constants']:,} values are constants, which cost and say nothing.")
    if period["most_spent_by_a_vehicle"] is not None:
        half, most = period["spent_by_half_of_vehicles_at_most"], period["spent_by_nine_in_ten_at_most"]
        out.print(f"{period['period']}: half of the vehicles spent at most {half:g}, nine in ten at most {most:g}.")
