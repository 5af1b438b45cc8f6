"""A scheduled job on an engine, from here: handed over, waited for, and what became of it."""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pipelines.engine import BoundedEngine, EngineError, Finished
from pipelines.job import Job
from pipelines.outcome import Outcome, count_in
from pipelines.progress import Report
from pipelines.runs.beam.bounded import Bounded, pane_length
from pipelines.runs.beam.judge import VERDICT, read_back
from pipelines.runs.crew.spool import Spool
from pipelines.runs.input_size import rows_about
from pipelines.runs.period_demand import asked_of_the_account
from transforms import counters
from transforms.errors import StepError

PHASE = "observations read"


def run(
    job: Job,
    paths: Sequence[str],
    needed: Sequence[str] | None,
    engine: BoundedEngine,
    progress: Report,
) -> Outcome:
    """Runs a job as `pipelines.runs.crew.closed.run` does, with the same promises.

    Raises StepError where a file cannot be read, EngineError, or what a step raised.
    """
    asked = asked_of_the_account(job)
    if asked.periods_refused:
        return asked
    about, before, shards = rows_about(paths), _sealed(job), 2 * engine.parallelism
    pane_s = pane_length(about, shards * len(job.slots), job.slot_s)

    def watch(counts: Mapping[str, int]) -> None:
        progress(PHASE, counts.get(counters.ROWS, 0), about)

    with Spool() as kept:
        made = Bounded(replace(job, vehicle_shards=shards), paths, needed, pane_s, kept if engine.is_here else None)
        finished = engine.run(made.build, f"hatstream-release-{job.account.spec_name}-{time.time_ns()}", watch)
    outcome = _outcome(finished)
    outcome.debits |= asked.debits
    progress(PHASE, outcome.rows, outcome.rows)
    if outcome.units_changed == 0:  # what is new is what is there now: a step that was done again found it recorded
        outcome.new = dict(Counter(job.slots[slot_s].period for slot_s, _ in _sealed(job) - before))
    if outcome.units_lost_to_the_limit:  # another process spent the budget since the verdict
        outcome.periods_refused = _missing(job, outcome.debits)
    return outcome


def _outcome(finished: Finished) -> Outcome:
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
