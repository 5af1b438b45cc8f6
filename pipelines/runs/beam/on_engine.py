"""A scheduled job from here: run in this process or handed to an engine, waited for, and what became of it."""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pipelines.engine import BoundedEngine, EngineError, Finished
from pipelines.job import Job
from pipelines.outcome import Outcome, count_in
from pipelines.progress import Report
from pipelines.runs.beam.bounded import Bounded, pane_length
from pipelines.runs.beam.judge import VERDICT, read_back
from pipelines.runs.input_size import rows_about
from pipelines.runs.period_demand import asked_of_the_account
from pipelines.runs.spool import Spool
from transforms import counters
from transforms.errors import StepError
from transforms.steps.metrics import Phase, heard_by

READ = "observations read"
PART_ROWS = 1_000_000
"""Events of a whole period that are counted at once: bounds memory."""
UNSIZED_SHARDS = 8
"""Parts of the vehicles of a period, where nobody knows how many rows it has."""


def run(
    job: Job, paths: Sequence[str], needed: Sequence[str] | None, engine: BoundedEngine, progress: Report
) -> Outcome:
    """Releases the slots. Of an outcome with refused periods, `periods_released` are those that were released anyway.

    needed: periods that must have rows. With `periods_empty` among them, or an outcome that is `unusable`, nothing was
    recorded or published. None where the input may not decide that.

    Raises StepError where a file cannot be read, EngineError, or what a step raised.
    """
    asked = asked_of_the_account(job)
    if asked.periods_refused:
        return asked
    before = _sealed(job)
    finished = finished_job(job, paths, needed, engine, progress)
    outcome = outcome_of(finished)
    outcome.debits |= asked.debits
    progress(READ, outcome.rows, outcome.rows)
    if outcome.units_changed == 0:  # what is new is what is there now: a step that was done again found it recorded
        outcome.new = dict(Counter(job.slots[slot_s].period for slot_s, _ in _sealed(job) - before))
    if outcome.units_lost_to_the_limit:  # another process spent the budget since the verdict
        in_order = job.release.in_order
        outcome.periods_refused = (
            asked_of_the_account(job).periods_refused if in_order else _missing(job, outcome.debits)
        )
    return outcome


def finished_job(
    job: Job, paths: Sequence[str], needed: Sequence[str] | None, engine: BoundedEngine, progress: Report
) -> Finished:
    name, about = f"hatstream-release-{job.account.spec_name}-{time.time_ns()}", rows_about(paths)
    if engine.is_here:
        with Spool() as kept, heard_in(job, about, progress):
            return engine.run(bounded_here(job, paths, needed, kept).build, name, lambda _: None)
    shards = 2 * engine.parallelism
    pane_s = pane_length(about, shards * len(job.slots), job.slot_s)
    made = Bounded(replace(job, vehicle_shards=shards), paths, needed, pane_s)
    return engine.run(made.build, name, lambda counts: progress(READ, counts.get(counters.ROWS, 0), about))


def bounded_here(job: Job, paths: Sequence[str], needed: Sequence[str] | None, kept: Spool) -> Bounded:
    """Makes the job of this process, where vehicles are parted only if a whole period is too large to count at once."""
    about = rows_about(paths)
    shards = 1
    if job.release.in_order:
        shards = UNSIZED_SHARDS if about is None else max(1, about // (PART_ROWS * max(1, len(job.periods))))
    return Bounded(
        replace(job, vehicle_shards=shards, transaction="range"),
        paths,
        needed,
        pane_length(about, shards * len(job.slots), job.slot_s),
        kept,
    )


@contextmanager
def heard_in(job: Job, about: int | None, progress: Report) -> Iterator[None]:
    """Reports how far the steps in this process are, within the block. about: rows of the input, if that is known."""
    whole_days = job.rules.need_whole_periods
    slots, periods = len(job.slots), len(job.periods)
    phases: Mapping[Phase, tuple[str, int]] = {
        "counted": ("days counted", periods) if whole_days else ("slots counted", slots),
        "drawn": ("slots released", slots),
        "recorded": ("periods recorded and published", periods),
    }
    rows, finished = 0, dict[str, set[int | str]]()

    def listen(phase: Phase, item: int | str) -> None:
        nonlocal rows
        if phase == "read":
            rows += int(item)
            progress(READ, rows, about)
            return
        title, whole = phases[phase]
        if not finished:
            progress(READ, rows, rows)
        if title not in finished and finished:  # slots without events have no step in the phase before
            previous = next(named for named in phases.values() if named[0] == next(reversed(finished)))
            progress(previous[0], previous[1], previous[1])
        finished.setdefault(title, set()).add(item)
        progress(title, len(finished[title]), whole)

    with heard_by(listen):
        yield


def outcome_of(finished: Finished) -> Outcome:
    """Adds what was counted after the verdict to its outcome."""
    verdicts = finished.told.get(VERDICT, frozenset())
    if not verdicts:
        raise EngineError("the job came to no verdict: do its workers run the same version?")
    verdict = read_back(next(iter(verdicts)))
    if verdict.unreadable:
        raise StepError(verdict.unreadable[0])
    outcome = verdict.outcome
    judged = {counters.ROWS, *(counters.REFUSED + reason for reason in outcome.refused)}
    count_in(outcome, {name: count for name, count in finished.counts.items() if name not in judged})
    return outcome


def _sealed(job: Job) -> set[tuple[int, int]]:
    account, starts = job.account, job.slots.keys()
    return account.open().sealed(account.name, job.release.spec_id, min(starts, default=0), max(starts, default=0) + 1)


def _missing(job: Job, periods: Collection[str]) -> list[str]:
    """Picks the periods with a slot that is not recorded."""
    sealed = {slot_s for slot_s, _ in _sealed(job)}
    return [
        period
        for period in periods
        if any(facts.period == period and slot_s not in sealed for slot_s, facts in job.slots.items())
    ]
