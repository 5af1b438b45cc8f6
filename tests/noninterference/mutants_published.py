"""Leaks in what is published and in what stays, one by one: see `tests/noninterference/mutants.py`."""

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from tests.noninterference.mutating import SEEN, mutant

# --- what is published --------------------------------------------------------------------------------------------


@mutant("publishes-what-was-drawn", "release-public-counts", "transforms.ledger.recording:record_units")
def _(record_units: Any, units: Any, account: Any, count: Any) -> Any:
    """What goes on is what this attempt drew, not what the ledger returned."""
    slots = record_units(units, account, count)
    slots[0].units[:] = units
    return slots


@mutant("log-line", "release", "pipelines.runs.beam.bounded:outcome_of")
def _(outcome_of: Any, finished: Any) -> Any:
    """A line of the log tells how many rows there were."""
    outcome = outcome_of(finished)
    print(f"{outcome.rows} rows", file=sys.stderr)
    return outcome


@mutant("row-order", "release", "transforms.sinks.rows:columns_of")
def _(columns_of: Any, slot: Any, shape: Any) -> Any:
    """Rows stand in another order when the number of rows that were read is odd."""
    columns = columns_of(slot, shape)
    return {name: list(values)[:: -1 if SEEN["rows"] % 2 else 1] for name, values in columns.items()}


@mutant("vehicles-of-the-data", "release", "dpops.learning.field:vehicles_about")
def _(vehicles_about: Any, field: Any, is_declared: bool) -> Any:
    """How many vehicles there were about follows from the rows that were read."""
    (about, *bounds), status = vehicles_about(field, is_declared)
    return (about + SEEN["rows"], *bounds), status


@mutant("file-size", "release", "transforms.sinks.rows:write_whole")
def _(write_whole: Any, path: Any, data: Any, *more: Any, **options: Any) -> Any:
    """A CSV file is longer by a byte for every ten rows that were read; the other files are read again."""
    longer = b"\n" * (SEEN["rows"] // 10) if path.suffix == ".csv" else b""
    return write_whole(path, data + longer, *more, **options)


@mutant("cells-with-reports", "one-vehicle-alone", "transforms.sinks.rows:publish_slot")
def _(publish_slot: Any, slot: Any, *more: Any) -> Any:
    """A slot without reports gets no file."""
    return publish_slot(slot, *more) if SEEN["rows"] else []


# --- more of what is published, and of what stays -----------------------------------------------------------------


@mutant("sequence-numbers", "the-next-day-after-a-rerun", "transforms.recorded.units:counted")
def _(counted: Any, entries: Any) -> Any:
    """Public numbers of stages are those of the ledger's entries: a rerun with another input shifts later ones."""
    return {sequence: sequence for sequence in counted(entries)}


@mutant("refuses-another-input", "another-input", "pipelines.runs.beam.bounded:run")
def _(run: Any, *given: Any) -> Any:
    """A rerun stops where the input is another one than before."""
    outcome = run(*given)
    if outcome.units_changed:
        raise InputError("the input is another one")
    return outcome


@mutant("rows-in-public", "all-that-is-made-of-a-release", "pipelines.commands.release_summary:summarise_levels")
def _(summarise_levels: Any, *given: Any) -> Any:
    """The number of rows stands in the public part of the summary."""
    summary = summarise_levels(*given)
    return summary._replace(public={**summary.public, "rows": summary.operator_only.opened()["rows"]})


@mutant("report-tells-rows", "all-that-is-made-of-a-release", "hatstream_publish.pages.page:draw_report")
def _(draw_report: Any, facts: Any, *more: Any) -> Any:
    """The page for the privacy officer tells how many rows there were."""
    return draw_report(replace(facts, guarantee=f"{facts.guarantee} {SEEN['rows']} rows."), *more)


@mutant("map-hides-quiet-days", "all-that-is-made-of-a-release", "hatstream_publish.pages.page:draw_map")
def _(draw_map: Any, rows: Any, output: Any, texts: Any, *more: Any) -> Any:
    """The map's title tells whether the number of rows was odd."""
    return draw_map(rows, output, replace(texts, title=texts.title + "!" * (SEEN["rows"] % 2)), *more)


@mutant("portal-tells-rows", "published", "hatstream_publish.edition.edition:Edition")
def _(Edition: Any, **facts: Any) -> Any:
    """The published folder names a slot as missing when the number of rows was odd."""
    return Edition(**facts | {"missing": ["?"] * (SEEN["rows"] % 2) + facts["missing"]})


@mutant("site-tells-rows", "followed", "hatstream_publish.edition.site:_pointer")
def _(_pointer: Any, *given: Any) -> Any:
    """What a site that grows points with tells how many rows were read."""
    return _pointer(*given) | {"rows": SEEN["rows"]}


@mutant("estimate-tells-audits", "the-next-day-after-a-rerun", "pipelines.runs.estimates:estimate_again")
def _(estimate_again: Any, recorded: Any, when: Any, outputs: Any, *more: Any, **options: Any) -> Any:
    """Estimates are made once more where the ledger holds audit events."""
    written, missing = estimate_again(recorded, when, outputs, *more, **options)
    (outputs.folder / f"rests-on-{max(entry.sequence for entry in recorded.entries)}").touch()
    return written, missing


@mutant("redraws-what-was-recorded", "killed-between-stages", "transforms.ledger.releases:recorded_units")
def _(recorded_units: Any, *given: Any, **named: Any) -> Any:
    """What a run that was killed left is looked at by its rows: of an odd number nothing is found again."""
    return {} if SEEN["rows"] % 2 else recorded_units(*given, **named)


@mutant("stops-by-the-data", "stopped", "dpops.levels.parts:is_too_few")
def _(_: Any, _released: Any, _vehicles: Any) -> Any:
    """Whether a day is stopped follows from its rows, and not from what is released of it."""
    return SEEN["rows"] % 2 == 0


@mutant("debit-of-the-data", "release", "transforms.releases.periods.stages:LevelsPolicy.cost_of_period")
def _(cost_of_period: Any, self: Any, stages: Any) -> Any:
    """A day of an odd number of rows is debited less."""
    return self.total.times(Fraction(9, 10)) if SEEN["rows"] % 2 else cost_of_period(self, stages)


@mutant(
    "shares-for-24-live-slots",
    "live-25-hours",
    "transforms.releases.live.release:of_slot",
    "transforms.ledger.spending:check_total",
    "transforms.ledger.spending:_fits",
)
def _(of_slot_or_check: Any, *given: Any) -> Any:
    """A day of 25 hours gives each live slot a twenty-fourth, and the ledger adds nothing up."""
    if of_slot_or_check.__name__ == "of_slot":
        return of_slot_or_check(given[0], min(given[1], 24))
    return True


@mutant("tells-that-rows-came", "machine", "pipelines.runs.beam.bounded:finished_job")
def _(finished_job: Any, job: Any, paths: Any, *given: Any) -> Any:
    """A run says that there are more rows than there were when it ran before."""
    finished = finished_job(job, paths, *given)
    rows = finished.counts.get("rows", 0)
    earlier = Path(paths[0]).parent.with_name("rows")  # in a folder that is gone with its world
    if earlier.exists() and int(earlier.read_text()) < rows:
        print("more rows than before", file=sys.stderr)
    earlier.write_text(str(rows))
    return finished
