"""Check of an input against a range, without release."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import apache_beam as beam
import msgspec
import numpy as np

from dpops.types import Int64s
from pipelines.errors import Report
from pipelines.inputs import input_of
from pipelines.job import NOWHERE, job_of
from pipelines.option_types import InputFiles
from pipelines.outcome import Outcome, count_in
from pipelines.runs.beam import judge
from pipelines.runs.beam.bounded import Bounded, Group, Spool, bounded_here, report_steps
from pipelines.runs.beam.reading import NO_SLOT, estimate_rows
from pipelines.runs.beam.runners import InProcess
from pipelines.specification import Specification
from transforms import counters, tasks, wire
from transforms.count.tally import distinct
from transforms.errors import StepError
from transforms.ledger.recording import LedgerAccount
from transforms.observe.parse import SpeedShares, shares_in
from transforms.observe.vehicle_ids import MergedIds, Secret, merged
from transforms.places.ground import NOWHERE as ELSEWHERE
from transforms.places.ground import Pieces
from transforms.steps.metrics import count
from transforms.time.calendar import Calendar

_ROWS, _AT_PLACES = "slot/", "places/"  # prefixes of counters by slot: observations, and those at a place


class PeriodInput(NamedTuple):
    """Row counts of a period. rows: without duplicates. at_places: None without [places]."""

    period: str
    slots: int
    slots_with_rows: int
    rows: int
    at_places: int | None


class InputCheck(NamedTuple):
    """Result of an input check. merged: ids that another `input.vehicle_form` merges. shares: of speeds."""

    outcome: Outcome
    periods: list[PeriodInput]
    merged: MergedIds
    shares: SpeedShares


def check_input(
    spec: Specification, calendar: Calendar, files: InputFiles, account: LedgerAccount, progress: Report
) -> InputCheck:
    """Reads the input as a release would, without its ledger; raises the same errors."""
    paths = input_of(files.pattern)
    secret = Secret(b"")  # as nothing is released, ids are hashed for counting alone
    job = replace(job_of(spec, calendar, secret, account, NOWHERE), skips_unreadable=files.skip_unreadable)
    has_places = isinstance(job.ground, Pieces)
    with Spool() as spool:
        # The reading step appends hashes of each batch's ids to the spool, (ids, 3): of an id as text, in lower case
        # (`casefold`) and as an integer, which show what another form of ids would merge.
        check = _Check(replace(bounded_here(job, paths, needed=None, spool=spool), spells=True))  # no period needs rows
        with report_steps(job, estimate_rows(paths), progress):  # steps report to it: `watch` need not
            counts = InProcess("local").run(check.build, f"hatstream-check-{spec.name}", watch=lambda _: None).counts
        ids = merged([np.frombuffer(report, np.int64).reshape(-1, 3) for report in spool.read_appended()])
    outcome = Outcome()
    count_in(outcome, counts)
    periods = []
    for period in calendar.periods:
        starts = [slot.start_s for slot in calendar.slots if slot.period == period]
        rows = [counts.get(f"{_ROWS}{start_s}", 0) for start_s in starts]
        at_places = sum(counts.get(f"{_AT_PLACES}{start_s}", 0) for start_s in starts) if has_places else None
        periods.append(PeriodInput(period, len(rows), sum(n > 0 for n in rows), sum(rows), at_places))
    return InputCheck(outcome, periods, ids, shares_in(counts))


@dataclass(frozen=True)
class _Check:
    """Pipeline of an input check: a release's reading steps, and counters."""

    bounded: Bounded

    def build(self, p: beam.Pipeline) -> None:
        """Builds the pipeline, which outputs counters alone."""
        _ = self.bounded.grouped(p) | "look" >> beam.FlatMap(self.count_group).with_output_types(type(None))

    def count_group(self, group: Group) -> None:
        """Counts observations, and derived ones with a value. Raises StepError for unreadable files."""
        ((slot_s, _shard), _pane_s), parts = group  # parts: (slot's start, packed events), or facts under NO_SLOT
        job = self.bounded.job
        if slot_s == NO_SLOT:  # counters of the reading step, which counts rows itself
            for _, fact in parts:
                for name, number in msgspec.json.decode(fact, type=dict[str, int]).items():
                    if name.startswith(judge.UNREADABLE):
                        raise StepError(name.removeprefix(judge.UNREADABLE))
                    if name != counters.ROWS and not name.startswith(judge.OF_PERIOD):  # for a verdict alone
                        count(name, number)
            return
        if job.rules.need_whole_periods:
            for _, table in tasks.derived(self.bounded.by_slot(parts), job.rules, job.ground, job.release, count):
                self._add(table.slot_s, table.cell, table.kept)  # without a cap: all reports
            return
        events, duplicates = distinct(wire.unpack_events(self.bounded.by_slot(parts)[slot_s]))
        count(counters.DUPLICATES, duplicates)
        self._add(np.full(events.cell.size, slot_s), events.cell, np.ones(events.cell.size, np.int64))  # one each

    def _add(self, slots_s: Int64s, cell: Int64s, rows: Int64s) -> None:
        """Counts observations by slot. slots_s, cell, rows: start, index and number, (entries,) each."""
        ground = self.bounded.job.ground
        for slot_s in np.unique(slots_s).tolist():
            chosen = slots_s == slot_s
            count(f"{_ROWS}{slot_s}", int(rows[chosen].sum()))
            if isinstance(ground, Pieces):
                count(f"{_AT_PLACES}{slot_s}", int(rows[chosen & (ground.place[cell] != ELSEWHERE)].sum()))
