"""What an input holds of a range, for the operator alone: nothing is released, recorded or spent."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pipelines.assembly import job_of
from pipelines.input_files import InputFiles, input_of
from pipelines.job import NOWHERE, Job
from pipelines.outcome import Outcome
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import Crew, crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.specification import Specification
from transforms import wire
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.vehicle_hash import Secret
from transforms.time.calendar import Calendar, Slot


class PeriodInput(NamedTuple):
    """slots_with_rows: of so many slots how many have an observation.

    rows: observations, duplicates among them; where speeds or headings are derived, those that have one.
    """

    period: str
    slots: int
    slots_with_rows: int
    rows: int


class InputCheck(NamedTuple):
    outcome: Outcome
    periods: list[PeriodInput]

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
    road = counting.road_of(job, job.release)
    with crew_of(road, paths, workers) as crew:
        events = counting.observe_files(crew, road, paths, outcome, progress)
        if job.rules.need_whole_periods:
            counts = _derived(crew, job, when.slots, events, outcome, progress)
        else:
            counts = Counter({slot.start_s: counting.rows_in(slot, events) for slot in when.slots})
        return InputCheck(outcome, [_of_period(period, when.slots, counts) for period in when.periods])


def _derived(
    crew: Crew, job: Job, slots: Sequence[Slot], events: Spool, outcome: Outcome, progress: Report
) -> Counter[int]:
    """Counts observations by slot with what is derived; the others are refused."""
    periods = {slot.period: job.slots[slot.start_s].plan for slot in slots}
    tallies = counting.count_derived(crew, periods, events, outcome, progress, shards=1)
    counts = Counter[int]()
    for group in dict.fromkeys(job.release.group(slot.start_s) for slot in slots):
        table = wire.unpack_tally(tallies.read((group, 0)), job.release.columns)
        for slot_s, number in zip(table.slot_s.tolist(), table.kept.tolist(), strict=True):
            counts[slot_s] += number
    return counts


def _of_period(period: str, slots: Sequence[Slot], counts: Counter[int]) -> PeriodInput:
    rows = [counts[slot.start_s] for slot in slots if slot.period == period]
    return PeriodInput(period, len(rows), sum(n > 0 for n in rows), sum(rows))
