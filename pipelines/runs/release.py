"""From a specification and a range of time to a finished scheduled release: what `release` and `demo` both run.

What needs Beam is imported where it runs: wrong options and a bad specification are told before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpops.accountant import Limit
from pipelines import output_folder
from pipelines.account.location import AccountLocation
from pipelines.account.spending import note_spending
from pipelines.assembly import admitted, continuing, job_of, ledger_account_of
from pipelines.errors import InputError
from pipelines.input_files import InputFiles, input_of
from pipelines.job import Job, Outputs
from pipelines.outcome import Outcome
from pipelines.progress import Report
from pipelines.specification import Specification
from pipelines.specification.limits import not_added_up
from transforms.ledger import AccountRefusal
from transforms.public import Operator
from transforms.sinks.files import HATS, file_of
from transforms.sources.topic import Topic
from transforms.time.calendar import Calendar

if TYPE_CHECKING:
    from pipelines.engine import BoundedEngine

SHOWN_PERIODS = SHOWN_FILES = 7
_NONE_READABLE = (
    "no file of the input can be decoded; nothing was recorded and nothing was spent. Does [input] fit them?"
)


@dataclass(frozen=True)
class FinishedRun:
    """A finished run. files: all paths that hold the range's rows, sorted. topic: has them too, where there is one.

    outcome: the operator's, unless the account's counts are public. new: units that this run recorded, which follow
    from the ledger.
    """

    outcome: Operator[Outcome]
    new: int
    calendar: Calendar
    files: tuple[Path, ...]
    topic: Topic | None


def release(
    spec: Specification,
    when: Calendar,
    files: InputFiles,
    outputs: Outputs,
    location: AccountLocation,
    progress: Report,
    *,
    engine: "BoundedEngine | None" = None,
) -> FinishedRun:
    """Releases the slots of a range. Raises UsageError, InputError, AccountRefusal, LedgerError, StepError or,
    for a file that cannot be decoded, UnreadableFile.

    engine: does the work; this process if None.
    """
    _check_period(spec, when)
    if engine is not None:  # its workers stand in other folders
        outputs = replace(outputs, folder=outputs.folder.absolute())
        location = replace(location, key=location.key.absolute())
    secret = admitted(spec, location)
    paths = input_of(files.pattern, or_none=files.allow_empty and not spec.counts_are_public)
    output_folder.prepare(outputs, spec, location)
    account = replace(ledger_account_of(spec, location), unattended=files.unattended)
    job = continuing(job_of(spec, when, secret, account, outputs), location.ledger)
    job = replace(job, skips_unreadable=files.skip_unreadable)
    needed = _needed(spec, when, location, allow_empty=files.allow_empty)
    outcome = _run(job, paths, needed, engine, progress)
    _raise_refusals(spec, location, needed, outcome)
    note_spending(location.ledger, spec, outcome)
    return FinishedRun(Operator(outcome), sum(outcome.new.values()), when, tuple(_files(spec, job)), outputs.topic)


def _raise_refusals(
    spec: Specification, location: AccountLocation, needed: Sequence[str] | None, outcome: Outcome
) -> None:
    """Raises InputError or AccountRefusal where the run recorded nothing, or not all."""
    if outcome.is_unreadable:
        raise InputError("\n".join([_NONE_READABLE, *(f"  {file}" for file in outcome.left_out[:SHOWN_FILES])]))
    if needed is not None and (outcome.unusable or outcome.periods_empty):
        raise InputError(_no_rows(outcome))
    if outcome.periods_refused:
        raise AccountRefusal(_refusal(spec, location, outcome))
    if outcome.periods_stopped:
        raise InputError("\n".join(stopped_sentence(spec, location, period) for period in outcome.periods_stopped))


def _run(
    job: Job, paths: Sequence[str], needed: Sequence[str] | None, engine: "BoundedEngine | None", progress: Report
) -> Outcome:
    """Runs the job as Beam's pipeline, which is imported when it runs: in this process where no engine is named."""
    if engine is None:
        import transforms.lean_beam  # noqa: F401  # isort: skip

        from pipelines.runs.beam.runners.in_process import InProcess

        engine = InProcess("local")
    from pipelines.runs.beam import on_engine

    return on_engine.run(job, paths, needed, engine, progress)


def _files(spec: Specification, job: Job) -> Iterator[Path]:
    """Names a file of each format for each slot, then for each period and product."""
    first = [facts.start for slot_s, facts in job.slots.items() if slot_s == facts.plan[0]]
    of = [(facts.start, HATS) for facts in job.slots.values()]
    of += [(start, product.name) for start in first for product in spec.products]
    for start, name in of:
        for kind in job.outputs.formats:
            yield job.outputs.folder / file_of(spec.spec_id, start, kind, job.outputs.shape, name)


def _check_period(spec: Specification, when: Calendar) -> None:
    """Refuses days outside of the account's, which has a first and a last one if its unit is vehicle-ever."""
    since, until = spec.account.since, spec.account.until
    if until is not None and when.to_s > spec.timetable.midnight(until).timestamp():
        raise AccountRefusal(f"account {spec.account.name!r} ends at {until}: nothing is released from then on")
    if since is not None and when.from_s < spec.timetable.midnight(since).timestamp():
        raise AccountRefusal(f"account {spec.account.name!r} begins at {since}: nothing is released before")


def stopped_sentence(spec: Specification, location: AccountLocation, period: str) -> str:
    """Tells of a period whose noisy number of vehicles is far too small. Public: it follows from the ledger."""
    from transforms.releases.periods.stages import vehicles_of

    entries = location.ledger.stages(spec.account.name, spec.spec_id)
    unit = next(entry.unit for entry in entries if entry.unit.period == period)
    vehicles, sd = vehicles_of(unit, spec.cells.region or ())
    declared = spec.fleet.vehicles if spec.fleet is not None else 0
    return (
        f"period {period}: about {max(vehicles, 0):,.0f} vehicles reported (a released number, give or take "
        f"{2 * sd:,.0f}), of {declared:,} that the specification declares. Is this the input of that period, and does "
        "[input] fit it (hatstream release --check-input)? Nothing else of it was released, and it has its debit. The "
        "next run without --unattended releases it with what is left of the total, whatever its input holds"
    )


def _needed(spec: Specification, when: Calendar, location: AccountLocation, *, allow_empty: bool) -> list[str] | None:
    """Lists the periods of which the input must hold rows: a day that is sealed empty by a wrong file is lost for ever.

    Those with a slot that is not sealed yet, unless the operator says that nothing happened. None where counts are
    secret: there the input decides nothing.
    """
    if not spec.counts_are_public:
        return None
    if allow_empty:
        return []
    sealed = location.ledger.sealed(spec.account.name, spec.spec_id, when.from_s, when.to_s)
    shards = range(spec.privacy.release_shards)
    open_slots = (slot for slot in when.slots for shard in shards if (slot.start_s, shard) not in sealed)
    return list(dict.fromkeys(slot.period for slot in open_slots))


def _no_rows(outcome: Outcome) -> str:
    what = (
        f"none of the {outcome.rows:,} rows is usable"
        if outcome.unusable
        else f"of the {outcome.rows:,} rows none is of {_listed(outcome.periods_empty)}"
    )
    lines = [f"{what}; nothing was recorded and nothing was spent."]
    lines += [f"  {rows:,} refused: {reason}" for reason, rows in sorted(outcome.refused.items())]
    if outcome.refused.get("parse/no-offset"):
        lines.append(
            "Times have no offset: set input.time_zone to the zone of their clock, America/Chicago for instance."
        )
    return "\n".join(
        [
            *lines,
            "Are these the files of these days, and does [input] fit them? Where truly nothing happened, --allow-empty "
            "seals the slots without rows, for ever" + (": give no unusable rows then." if outcome.unusable else "."),
        ]
    )


def _listed(periods: Sequence[str]) -> str:
    more = len(periods) - SHOWN_PERIODS
    return ", ".join(periods[:SHOWN_PERIODS]) + (f" and {more} more periods" if more > 0 else "")


def _refusal(spec: Specification, location: AccountLocation, outcome: Outcome) -> str:
    """Tells what was released nevertheless; of periods over the limit, what was spent, when, by which specification."""
    limit = location.ledger.limit(spec.account.name, spec.account.limit)
    released = ", ".join(outcome.periods_released)
    in_period = " in a period" if len(limit.spans) == 1 else ""
    lines = [
        f"account {spec.account.name!r} allows a vehicle {limit.said()}{in_period}; "
        + (
            f"what was left changed meanwhile. Only this was released: {released}"
            if released
            else "nothing was released."
        )
    ]
    for period in outcome.periods_refused:
        lines.append(
            f"period {period}: this release ({spec.name}, {spec.spec_id}) asks for {limit.told(outcome.debits[period])}"
        )
        for spent in location.ledger.spent(spec.account.name, period):
            lines.append(
                f"  {limit.told(spent.debited)} spent by {spent.spec_name} ({spent.spec_id}) in {spent.slots} slots, "
                f"{spent.first_at} to {spent.last_at}"
            )
        lines += _full_spans(spec, location, limit, period)
    return "\n".join([*lines, *_ways_out(limit, outcome)])


def _full_spans(spec: Specification, location: AccountLocation, limit: Limit, period: str) -> list[str]:
    """Tells what the fullest spans of several days around a period have spent."""
    spans = (
        location.ledger.spent_in_spans(spec.account.name, spec.account.limit, period) if len(limit.spans) > 1 else []
    )
    return [
        f"  the {fullest.span.days} days {fullest.first} to {fullest.last} have spent "
        f"{fullest.span.limit.told(fullest.spent)} of {fullest.span.limit.said()}"
        for fullest in spans
        if fullest.span.days > 1
    ]


def _ways_out(limit: Limit, outcome: Outcome) -> Iterator[str]:
    if why := next(filter(None, (not_added_up(limit, debit) for debit in outcome.debits.values())), ""):
        yield f"{why[0].upper()}{why[1:]}."
        return
    if all(limit.fits(debit) for debit in outcome.debits.values()):
        yield (
            "Less than that is left of these periods: it can be used with privacy.per = 'period' and a smaller "
            "privacy.epsilon, once. What was released gives its own figures again, as often as you like; where nothing "
            "is left there will be no other figures of these days. Plan for days to come: `hatstream plan`."
        )
        return
    yield (
        "The account allows no period so much. To ask for less: a smaller privacy.epsilon as the total of a period "
        "(privacy.per = 'period'), longer slots or larger cells, or composition = 'cap' with fewer cells. "
        "`hatstream plan` says beforehand what a specification asks for."
    )
