"""`hatstream release`: scheduled release of a closed time range."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands import options
from pipelines.commands.terminal import note, progress_bars
from pipelines.errors import DIFFERS, DONE, FAILED, UsageError
from pipelines.option_types import InputFiles

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from pipelines.engine import BoundedEngine

input_options = options.packed(
    "files",
    InputFiles,
    options.option("input", help="The input: a folder, or files as a quoted pattern; s3://.. and gs://.. too."),
    click.option(
        "--allow-empty",
        is_flag=True,
        help="Seal periods without a row in the input: nothing can be added later. Under add-remove empty periods are "
        "sealed anyway; this option seals them even if there is no file.",
    ),
    click.option(
        "--skip-unreadable",
        is_flag=True,
        help="Count a file that cannot be decoded as a dead letter, by name, instead of stopping the release.",
    ),
    click.option(
        "--unattended",
        is_flag=True,
        help="For schedulers with retries: never release a period that was stopped for too few vehicles; a run without "
        "this option does.",
    ),
)


@click.command()
@options.spec_option
@input_options
@click.option("--from", "start", metavar="DATE", help="First local date, or an ISO time on the edge of a slot.")
@click.option("--to", "end", metavar="DATE", help="Last local date (included), or an ISO time (excluded).")
@click.option("--yesterday", is_flag=True, help="In place of --from and --to: the local day before today.")
@options.release_options
@options.runner_options
@click.option("--check-input", is_flag=True, help="Only describe the range's input; keep the output to yourself.")
@options.site_option
@options.account_options
@options.json_option
def release(
    spec_path: Path,
    files: InputFiles,
    start: str | None,
    end: str | None,
    yesterday: bool,
    outputs_for: options.OutputsFor,
    location: AccountLocation,
    engine: BoundedEngine | None,
    check_input: bool,
    site: Path | None,
    as_json: bool,
) -> int:
    """Release the statistics of a closed range of time, exactly once.

    Running it again returns the same numbers and spends nothing.

    \b
    Example:
      hatstream release --spec austin.toml --input 'feed/*.csv' --from 2016-11-24 --to 2016-11-27 \\
          --output out --ledger austin.sqlite --formats parquet,csv
      hatstream release --spec austin.toml [other options] --runner DataflowRunner -- --project P --region R
    """
    spec = options.loaded(spec_path, quiet=as_json)
    if engine is None:  # the job runs on this machine: its decoder process starts meanwhile
        from transforms.layouts.decoder_process import begin_early

        begin_early(spec.input.layout)
    elif check_input:
        raise UsageError("--check-input runs on this machine alone: give it with --runner local")
    from pipelines import inputs
    from pipelines.commands.release_summary import print_summary, show_check
    from pipelines.runs import release as scheduled

    outputs = None if check_input else outputs_for(spec)
    if yesterday == bool(start or end) or bool(start) != bool(end):
        raise UsageError("give either --from and --to, or --yesterday")
    table, now = spec.timetable, datetime.now(UTC)
    calendar = inputs.closed_range(table, start, end, now) if start and end else inputs.yesterday(table, now)
    slots = f"{len(calendar.slots):,} slots of {len(calendar.periods):,} periods"
    files_used = f"ledger {location.shown}\nkey {location.key}\nhead {location.head}"
    note(f"{spec.name} ({spec.spec_id}): {slots}\n{files_used}", verbosity=1)
    if outputs is None:  # a check of the input alone, which records nothing and so signs nothing
        import transforms.lean_beam  # noqa: F401 - first: it makes Beam's import fast  # isort: skip
        from pipelines.job import ledger_account_of
        from pipelines.runs.check_input import check_input as check

        with progress_bars(quiet=as_json) as report:
            checked = check(spec, calendar, files, ledger_account_of(spec, location, signs=False), report)
        show_check(checked, as_json=as_json)
        return DONE if all(period.rows for period in checked.periods) else FAILED
    with progress_bars(quiet=as_json) as report, options.keep_current(site, spec, spec_path, location, outputs):
        run = scheduled.release(spec, calendar, files, outputs, location, report, engine=engine)
    print_summary(spec, run, location, as_json=as_json)
    # `opened` shows the operator's counters. Where counts are secret, a changed input decides no exit code.
    return DIFFERS if spec.counts_are_public and run.outcome.opened().units_changed else DONE
