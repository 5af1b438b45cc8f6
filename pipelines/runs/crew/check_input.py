"""What an input holds of a range, for the operator alone: nothing is released, recorded or spent."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pipelines.assembly import job_of
from pipelines.input_files import InputFiles, input_of
from pipelines.job import NOWHERE
from pipelines.outcome import Outcome
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.specification import Specification
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.vehicle_hash import Secret
from transforms.time.calendar import Calendar, Slot


class PeriodInput(NamedTuple):
    """slots_with_rows: of so many slots how many have an observation. rows: observations, duplicates among them."""

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
        return InputCheck(outcome, [_of_period(period, when.slots, events) for period in when.periods])


def _of_period(period: str, slots: Sequence[Slot], events: Spool) -> PeriodInput:
    rows = [counting.rows_in(slot, events) for slot in slots if slot.period == period]
    return PeriodInput(period, len(rows), sum(n > 0 for n in rows), sum(rows))
