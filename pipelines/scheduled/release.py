"""From a specification and a range of time to a finished scheduled release: what `release` and `demo` both run.

What needs Beam is imported where it runs: wrong options and a bad specification are told before.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from dpops.accountant import Limit, PureLimit
from pipelines import output_folder
from pipelines.account.location import AccountLocation
from pipelines.account.spending import note_spending
from pipelines.assembly import admitted, assemble, continuing, facts_of, ledger_account_of, levels_policy
from pipelines.job import Job, Outputs
from pipelines.progress import Report
from pipelines.scheduled.outcome import Outcome
from pipelines.scheduled.remote import NoFileSystem, is_remote, matching
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.numbers import shortened
from transforms.ledger import AccountRefusal
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.vehicle_hash import Secret
from transforms.release.policy import SlotFacts
from transforms.sinks.files import HATS, file_of
from transforms.sources.kafka_partition import Topic
from transforms.time.calendar import Calendar, CalendarError, Slot, Timetable, calendar

if TYPE_CHECKING:
    from pipelines.streaming.engine import BoundedEngine
    from transforms.release.period import PeriodPolicy

SHOWN_PERIODS = 7
FIRST_YEAR, LAST_YEAR = 2000, 2099
"""Of a range; events of other years are refused as implausible anyway."""


class UsageError(Exception):
    """The command was called wrongly."""


class InputError(Exception):
    """The input is not there or cannot be used."""


@dataclass(frozen=True)
class Release:
    """A finished run. files: all paths that hold the range's rows, sorted. topic: has them too, where there is one."""

    outcome: Outcome
    calendar: Calendar
    files: tuple[Path, ...]
    topic: Topic | None


def range_of(timetable: Timetable, start: str, end: str) -> Calendar:
    """The calendar of --from and --to: local dates, both included, or ISO times on the edges of slots."""
    try:
        return calendar(timetable, instant_of(start, timetable, last=False), instant_of(end, timetable, last=True))
    except CalendarError as error:
        raise UsageError(str(error)) from None


def closed_range(timetable: Timetable, start: str, end: str, now: datetime) -> Calendar:
    """As `range_of`, but refused unless it is over: what a slot lacks when it is sealed is lost for ever."""
    found = range_of(timetable, start, end)
    if found.to_s > now.timestamp():
        raise UsageError(
            f"the range ends at {timetable.text(found.to_s)}, which is still to come (it is "
            f"{timetable.text(int(now.timestamp()))}): only what is over is released, for it is sealed for ever"
        )
    return found


def yesterday(timetable: Timetable, now: datetime) -> Calendar:
    """The calendar of the local day before the one that it is `now`."""
    day = (now.astimezone(ZoneInfo(timetable.zone)).date() - timedelta(days=1)).isoformat()
    return range_of(timetable, day, day)


def instant_of(text: str, timetable: Timetable, *, last: bool) -> datetime:
    """A local date's first instant (or with `last` the next one's), or an ISO time. Raises UsageError."""
    day = _parsed(date, text)
    at = day or _parsed(datetime, text)
    if at is None:
        raise UsageError(f"{text!r} is neither a date (2016-11-24) nor an ISO time (2016-11-24T10:00)")
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise UsageError(f"{text!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    if isinstance(at, datetime):
        return at if at.tzinfo else at.replace(tzinfo=ZoneInfo(timetable.zone))
    return timetable.midnight(at + timedelta(days=1) if last else at)


Parsed = TypeVar("Parsed", date, datetime)


def _parsed(kind: type[Parsed], text: str) -> Parsed | None:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def release(
    spec: Specification,
    when: Calendar,
    pattern: str,
    outputs: Outputs,
    location: AccountLocation,
    progress: Report,
    *,
    allow_empty: bool = False,
    workers: int | None = None,
    engine: "BoundedEngine | None" = None,
) -> Release:
    """Releases the slots of a range. Raises UsageError, InputError, AccountRefusal, LedgerError or StepError.

    allow_empty: seals a period of which the input holds no row. workers: processes that read and count; the cores there
    are, for a large input, if None. engine: does the work in their place.
    """
    _check_period(spec, when)
    if engine is not None:  # its workers stand in other folders
        outputs = replace(outputs, folder=outputs.folder.absolute())
        location = replace(location, key=location.key.absolute())
    secret = admitted(spec, location)
    paths = input_of(pattern)
    output_folder.prepare(outputs, spec, location)
    job = continuing(job_of(spec, when, secret, ledger_account_of(spec, location), outputs), location.ledger)
    needed = _needed(spec, when, location, allow_empty=allow_empty)
    levels = None if spec.levels is None else _levels(spec, spec.levels, job, secret)
    outcome = _run(job, levels, paths, when.slots, needed, workers, engine, progress)
    if needed is not None and (outcome.unusable or outcome.periods_empty):
        raise InputError(_no_rows(outcome))
    if outcome.periods_refused:
        raise AccountRefusal(_refusal(spec, location, outcome))
    note_spending(location.ledger, spec, outcome)
    return Release(outcome, when, tuple(_files(spec, job)), outputs.topic)


def _run(
    job: Job,
    levels: "PeriodPolicy | None",
    paths: Sequence[str],
    slots: Sequence[Slot],
    needed: Sequence[str] | None,
    workers: int | None,
    engine: "BoundedEngine | None",
    progress: Report,
) -> Outcome:
    """The job of HATs or of `levels`, on this machine or on an engine; what it needs is imported when it runs."""
    if engine is not None:
        from pipelines.scheduled import on_engine

        return on_engine.run(job, levels, paths, needed, engine, progress)
    if levels is None:
        from pipelines.scheduled import parts

        return parts.run(job, paths, slots, needed, workers, progress)
    from pipelines.scheduled import levels as by_levels

    return by_levels.run(job, levels, paths, slots, needed, workers, progress)


def _levels(spec: Specification, of: LevelsRelease, job: Job, secret: Secret) -> "PeriodPolicy":
    from transforms.release.learned import learned_centres, learned_estimates
    from transforms.release.period import PeriodPolicy

    policy = levels_policy(spec, of, secret, job.account.head)
    return PeriodPolicy(policy, job.slots, spec.timetable.zone, learned_centres, learned_estimates)


def _files(spec: Specification, job: Job) -> Iterator[Path]:
    """One of each format for each slot, then for each period and product."""
    products = spec.levels.products if spec.levels is not None else ()
    first = [facts.start for slot_s, facts in job.slots.items() if slot_s == facts.plan[0]]
    of = [(facts.start, HATS) for facts in job.slots.values()]
    of += [(start, product.name) for start in first for product in products]
    for start, name in of:
        for kind in job.outputs.formats:
            yield job.outputs.folder / file_of(spec.spec_id, start, kind, job.outputs.shape, name)


def job_of(spec: Specification, when: Calendar, secret: Secret, account: LedgerAccount, outputs: Outputs) -> Job:
    """The road of a closed range, a period recorded at a time. Raises UsageError, see `slot_facts`."""
    return assemble(spec, when, slot_facts(spec, when), "period", secret, account, outputs)


def slot_facts(spec: Specification, when: Calendar) -> dict[int, SlotFacts]:
    """What is known of each slot of a range beforehand.

    Raises UsageError for a range that cuts a period which is planned as a whole.
    """
    facts = {}
    for period, slots in groupby(when.slots, key=lambda slot: slot.period):
        starts = tuple(slot.start_s for slot in slots)
        try:
            whole = spec.slots_of_period(starts[0])
        except CalendarError as error:
            raise UsageError(str(error)) from None
        if spec.privacy.allocation.whole_periods and starts != whole:
            raise UsageError(
                f"privacy.scope = 'period' plans and seals a period as a whole: {period} has {len(whole or ())} slots, "
                f"the range holds {len(starts)} of them"
            )
        for at in starts:
            plan = spec.privacy.allocation.planned_with(at, starts)
            facts[at] = facts_of(spec, period, at, plan, spec.privacy.allocation.plans(len(whole)))
    return facts


def _check_period(spec: Specification, when: Calendar) -> None:
    """The account of unit vehicle-ever has a first and a last day."""
    since, until = spec.account.since, spec.account.until
    if until is not None and when.to_s > spec.timetable.midnight(until).timestamp():
        raise AccountRefusal(f"account {spec.account.name!r} ends at {until}: nothing is released from then on")
    if since is not None and when.from_s < spec.timetable.midnight(since).timestamp():
        raise AccountRefusal(f"account {spec.account.name!r} begins at {since}: nothing is released before")


def paths_of(pattern: str) -> list[str]:
    """The files of this machine that a pattern matches, sorted. Raises InputError if there is none."""
    matching = _matching(pattern)
    found = sorted({path for path in matching if Path(path).is_file()})
    if not found:
        others = f": what does ({shortened(min(matching))}) is no regular file" if matching else ""
        raise InputError(f"no input file matches {shortened(repr(pattern))}{others}")
    return found


def input_of(pattern: str) -> list[str]:
    """As `paths_of`; the pattern may be of an object store too."""
    if not is_remote(pattern):
        return paths_of(pattern)
    try:
        found = matching(pattern)
    except NoFileSystem as error:
        raise InputError(str(error)) from None
    if not found:
        raise InputError(f"no input file matches {shortened(repr(pattern))}")
    return found


def _matching(pattern: str) -> list[str]:
    """As `glob.glob(.., recursive=True)`, but `**` follows no links to folders, for these may lead in circles."""
    head, stars, tail = pattern.partition(f"**{os.sep}")
    if not stars:
        return glob.glob(pattern)
    tops = glob.glob(head) if head else [os.curdir]
    folders = (folder for top in tops for folder in _folders(top))
    return [path for folder in folders for path in _matching(os.path.join(glob.escape(folder), tail))]


def _folders(top: str) -> Iterator[str]:
    """It and all in it, hidden ones left out."""
    for folder, inner, _ in os.walk(top):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield folder


def _needed(spec: Specification, when: Calendar, location: AccountLocation, *, allow_empty: bool) -> list[str] | None:
    """The periods of which the input must hold rows: a day that is sealed empty by a wrong file is lost for ever.

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
    """What was released nevertheless; for periods over the limit, what was spent, when, by which specification."""
    limit = location.ledger.limit(spec.account.name, spec.account.limit)
    released = ", ".join(outcome.periods_released)
    lines = [
        f"account {spec.account.name!r} allows a vehicle {limit.said()} in a period; "
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
    return "\n".join([*lines, *_ways_out(limit, outcome)])


def _ways_out(limit: Limit, outcome: Outcome) -> Iterator[str]:
    if isinstance(limit, PureLimit) and any(debit.rho or debit.delta for debit in outcome.debits.values()):
        yield (
            "The account's limit has no delta, so it allows no Gaussian noise, however little is asked for: leave out "
            "privacy.delta, or open another account with limit = { epsilon = .., delta = .. }."
        )
    yield (
        "To ask for less: a smaller privacy.epsilon; per = 'period' with what is left; composition = 'cap' with fewer "
        "cells; longer slots or larger cells. `hatstream plan` says beforehand what a specification asks for."
    )
