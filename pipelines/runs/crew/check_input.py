"""What an input holds of a range, for the operator alone: nothing is released, recorded or spent."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipelines.assembly import job_of
from pipelines.input_files import InputFiles, input_of
from pipelines.job import NOWHERE
from pipelines.outcome import Outcome
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.crew.tasks import SPELLINGS
from pipelines.specification import Specification
from transforms import wire
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.vehicle_hash import Secret
from transforms.observe.vehicle_ids import MergedIds, merged
from transforms.places.ground import NOWHERE as ELSEWHERE
from transforms.places.ground import Pieces
from transforms.time.calendar import Calendar, Slot


class PeriodInput(NamedTuple):
    """slots_with_rows: of so many slots how many have an observation.

    rows: observations, duplicates among them; where speeds or headings are derived, those that have one. at_places: how
    many of these lie at a place, which their heading decides too; None without places.
    """

    period: str
    slots: int
    slots_with_rows: int
    rows: int
    at_places: int | None


class InputCheck(NamedTuple):
    """merged: of the whole input, whatever its dates, the ids that another `input.vehicle_form` makes one."""

    outcome: Outcome
    periods: list[PeriodInput]
    merged: MergedIds

    @property
    def is_complete(self) -> bool:
        """Whether every period has an observation."""
        return all(period.rows for period in self.periods)


def check_input(
    spec: Specification,
    when: Calendar,
    files: InputFiles,
    account: LedgerAccount,
    workers: int | None,
    progress: Report,
) -> InputCheck:
    """Reads the input as a release would, without opening the ledger. Raises what it would."""
    paths = input_of(files.pattern)
    job = replace(job_of(spec, when, Secret(b""), account, NOWHERE), skips_unreadable=files.skip_unreadable)
    outcome = Outcome()
    with crew_of(replace(counting.road_of(job), spells=True), paths, workers) as crew:
        work = counting.CrewedJob(job, crew, outcome, progress)
        events = counting.observe_files(work, paths)
        pieces = None if spec.places is None else spec.places.pieces
        if job.rules.need_whole_periods:
            seen = _derived(work, when.slots, events, pieces)
        else:
            seen = _as_read(when.slots, events, pieces)
        ids = [np.frombuffer(part, np.int64).reshape(-1, 3) for part in events.read(SPELLINGS)]
        return InputCheck(outcome, [_of_period(period, when.slots, seen) for period in when.periods], merged(ids))


class _Seen(NamedTuple):
    """Observations by slot, and how many of them lie at a place; None without places."""

    rows: Counter[int]
    at_places: Counter[int] | None


def _as_read(slots: Sequence[Slot], events: Spool, pieces: Pieces | None) -> _Seen:
    rows = Counter({slot.start_s: counting.rows_in(slot, events) for slot in slots})
    if pieces is None:
        return _Seen(rows, None)
    at_places = Counter[int]()
    for slot_s in rows:
        for part in events.read((slot_s, 0)):
            at_places[slot_s] += int(np.count_nonzero(pieces.place[wire.unpack_events([part]).cell] != ELSEWHERE))
    return _Seen(rows, at_places)


def _derived(work: counting.CrewedJob, slots: Sequence[Slot], events: Spool, pieces: Pieces | None) -> _Seen:
    """Counts observations with what is derived; the others are refused."""
    job = work.job
    periods = {slot.period: job.slots[slot.start_s].plan for slot in slots}
    tallies = counting.count_derived(work, periods, events, shards=1)
    rows, at_places = Counter[int](), Counter[int]()
    for group in dict.fromkeys(job.release.group(slot.start_s) for slot in slots):
        table = wire.unpack_tally(tallies.read((group, 0)), job.release.columns)
        there = table.kept if pieces is None else table.kept * (pieces.place[table.cell] != ELSEWHERE)
        for slot_s, number, at_place in zip(table.slot_s.tolist(), table.kept.tolist(), there.tolist(), strict=True):
            rows[slot_s] += number
            at_places[slot_s] += at_place
    return _Seen(rows, None if pieces is None else at_places)


def _of_period(period: str, slots: Sequence[Slot], seen: _Seen) -> PeriodInput:
    starts = [slot.start_s for slot in slots if slot.period == period]
    rows = [seen.rows[start_s] for start_s in starts]
    at_places = None if seen.at_places is None else sum(seen.at_places[start_s] for start_s in starts)
    return PeriodInput(period, len(rows), sum(n > 0 for n in rows), sum(rows), at_places)
