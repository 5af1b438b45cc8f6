"""Check of an input against a range, without release."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpops.types import Int64s
from pipelines.errors import Report
from pipelines.inputs import input_of
from pipelines.job import NOWHERE, job_of
from pipelines.option_types import InputFiles
from pipelines.outcome import Outcome, count_in
from pipelines.runs.beam.bounded import READ, Bounded, Spool, bounded_here
from pipelines.runs.beam.judge import UNREADABLE
from pipelines.runs.beam.reading import Observe, estimate_rows, pieces_of
from pipelines.specification import Specification
from transforms import counters, tasks, wire
from transforms.count.tally import distinct
from transforms.errors import StepError
from transforms.layouts.base import RawBatch
from transforms.ledger.recording import LedgerAccount
from transforms.observe.parse import SpeedShares, shares_in, speed_counts
from transforms.observe.vehicle_ids import MergedIds, Secret, merged, spellings
from transforms.places.ground import NOWHERE as ELSEWHERE
from transforms.places.ground import Pieces
from transforms.records import EventBytes, PaneShard
from transforms.time.calendar import Calendar


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
    ids, total = list[Int64s](), estimate_rows(paths)
    parts = dict[PaneShard, list[tuple[int, EventBytes]]]()  # packed events by slot or period, shard and pane
    starts = np.array([slot.start_s for slot in calendar.slots], np.int64)  # ascending
    rows, at_places = np.zeros((2, starts.size), np.int64)  # of observations, and those at a place, by slot

    def look(batch: RawBatch) -> dict[str, int]:
        """Counts speeds; hashes ids in spellings that show what another form merges."""
        progress(READ, reading.counts[counters.ROWS] + batch.rows, total)
        ids.append(spellings(batch.table.column("vehicle"), job.rules.vehicle_form, job.rules.vehicle_key))
        return speed_counts(batch.table, job.rules)

    with Spool() as spool:
        bounded = bounded_here(job, paths, total, needed=None, spool=spool)  # no period needs rows
        reading = Observe(bounded, look)
        for key, part in reading.process(pieces_of(job.layout, paths)):
            parts.setdefault(key, []).append(part)
        counts = reading.counts
        if unreadable := min((name for name in counts if name.startswith(UNREADABLE)), default=""):
            raise StepError(unreadable.removeprefix(UNREADABLE))
        for group in parts.values():
            for slots_s, cell, number in _observations(bounded, group, counts):
                index = np.searchsorted(starts, slots_s)
                np.add.at(rows, index, number)
                if isinstance(job.ground, Pieces):
                    np.add.at(at_places, index, number * (job.ground.place[cell] != ELSEWHERE))  # cell: a piece
    outcome = Outcome()
    count_in(outcome, counts)
    periods = []
    for period in calendar.periods:
        inside = np.array([slot.period == period for slot in calendar.slots])
        with_rows, rows_at_places = int(np.count_nonzero(rows[inside])), int(at_places[inside].sum())
        shown_at_places = rows_at_places if isinstance(job.ground, Pieces) else None
        periods.append(PeriodInput(period, int(inside.sum()), with_rows, int(rows[inside].sum()), shown_at_places))
    # `merged`: ids that another form would merge; `shares_in`: numbers of implausible speeds.
    return InputCheck(outcome, periods, merged(ids), shares_in(counts))


def _observations(
    bounded: Bounded, group: Sequence[tuple[int, EventBytes]], counts: Counter[str]
) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    """Yields slots' starts, cells and numbers of observations, (entries,) each. group: (slot_s, events)."""
    job, slots = bounded.job, bounded.by_slot(group)

    def count(name: str, number: int) -> None:
        counts[name] += number

    if job.rules.need_whole_periods:
        for _, table in tasks.derived(slots, job.rules, job.ground, job.release, count):
            yield table.slot_s, table.cell, table.kept  # `derived` applies no cap: all reports with a derived value
        return
    for slot_s, packed in slots.items():
        events, duplicates = distinct(wire.unpack_events(packed))
        count(counters.DUPLICATES, duplicates)
        yield np.full(events.cell.size, slot_s), events.cell, np.ones(events.cell.size, np.int64)  # one each
