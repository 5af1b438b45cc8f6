"""Scheduled release from a specification to files."""

from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.account.guarantee import gaps, note_spending
from pipelines.account.location import AccountLocation
from pipelines.engine import BoundedEngine
from pipelines.errors import InputError, Report
from pipelines.inputs import input_of
from pipelines.job import Outputs, admitted, job_of, ledger_account_of, prepare_outputs, with_digest_form
from pipelines.option_types import InputFiles
from pipelines.outcome import Outcome
from pipelines.specification import Specification
from pipelines.specification.tables import not_added_up
from transforms.ledger.spending import AccountRefusal
from transforms.public import Operator
from transforms.sinks.published import HATS
from transforms.sinks.rows import file_of
from transforms.sources.topic import Topic
from transforms.time.calendar import Calendar

SHOWN_PERIODS = SHOWN_FILES = 7  # most that a message names


@dataclass(frozen=True)
class FinishedRun:
    """Finished run. files: all rows of the range. new: recorded units by the ledger."""

    outcome: Operator[Outcome]
    new: int
    calendar: Calendar
    files: tuple[Path, ...]
    topic: Topic | None


def release(
    spec: Specification,
    calendar: Calendar,
    files: InputFiles,
    outputs: Outputs,
    location: AccountLocation,
    progress: Report,
    *,
    engine: BoundedEngine | None = None,
) -> FinishedRun:
    """Releases the slots of a range, in this process without an engine.

    Raises UsageError, InputError, AccountRefusal, LedgerError, StepError, or UnreadableFile for an undecodable file.
    """
    name, since, until = spec.account.name, spec.account.since, spec.account.until
    if until is not None and calendar.to_s > spec.timetable.midnight(until).timestamp():
        raise AccountRefusal(f"account {name!r} ends at {until}: nothing is released from then on")
    if since is not None and calendar.from_s < spec.timetable.midnight(since).timestamp():
        raise AccountRefusal(f"account {name!r} begins at {since}: nothing is released before")
    if engine is not None:  # its workers stand in other folders
        outputs, location = replace(outputs, folder=outputs.folder.absolute()), location.absolute()
    secret = admitted(spec, location)
    paths = input_of(files.pattern, or_none=files.allow_empty and not spec.counts_are_public)
    prepare_outputs(outputs, spec, location)
    account = replace(ledger_account_of(spec, location), unattended=files.unattended)
    job = with_digest_form(job_of(spec, calendar, secret, account, outputs), location.ledger)  # digests as recorded
    job = replace(job, skips_unreadable=files.skip_unreadable)
    needed = _needed(spec, calendar, location, allow_empty=files.allow_empty)
    if engine is None:  # here Beam is imported without its connectors, three times as fast
        import transforms.lean_beam  # noqa: F401  # isort: skip

        from pipelines.runs.beam.runners import InProcess

        engine = InProcess("local")
    from pipelines.runs.beam import bounded

    outcome = bounded.run(job, paths, needed, engine, progress)
    if outcome.is_unreadable:
        text = "no file of the input can be decoded; nothing was recorded or spent. Does [input] fit them?"
        raise InputError("\n".join([text, *(f"  {file}" for file in outcome.left_out[:SHOWN_FILES])]))
    if needed is not None and (outcome.unusable or outcome.periods_empty):  # rows were needed
        raise InputError(_no_rows(outcome))
    if outcome.periods_refused:
        raise AccountRefusal(_refusal(spec, location, outcome))
    if outcome.periods_stopped:
        raise InputError("\n".join(stopped_sentence(spec, location, period) for period in outcome.periods_stopped))
    note_spending(location.ledger, spec, outcome)
    # The files that this run wrote: HATs of each slot; products of each period, named by the start of its first slot.
    tables = [(facts.start, HATS) for facts in job.slots.values()]
    starts = [facts.start for slot_s, facts in job.slots.items() if slot_s == facts.joint_slots_s[0]]  # of periods
    tables += [(start, product.name) for start in starts for product in spec.products]
    file_keys = ((start, kind, outputs.shape, name) for start, name in tables for kind in outputs.formats)
    written = tuple(outputs.folder / file_of(spec.spec_id, *file_key) for file_key in file_keys)
    return FinishedRun(Operator(outcome), sum(outcome.new.values()), calendar, written, outputs.topic)


def stopped_sentence(spec: Specification, location: AccountLocation, period: str) -> str:
    """Describes a period stopped for too few vehicles, all from the public ledger."""
    from transforms.releases.periods.stages import read_unit

    entries = location.ledger.stages(spec.account.name, spec.spec_id)
    unit = next(entry.unit for entry in entries if entry.unit.period == period)  # the first stage, a count
    (city,) = read_unit(unit, spec.cells.region or ()).levels  # of a count: its weight is the number of vehicles
    vehicles, sd = float(city.weights[0]), city.weight_sd
    declared = spec.fleet.vehicles if spec.fleet is not None else 0
    return (
        f"period {period}: about {max(vehicles, 0):,.0f} vehicles reported (a released number, give or take "
        f"{2 * sd:,.0f}), of {declared:,} that the specification declares. Is this the input of that period, and does "
        "[input] fit it (hatstream release --check-input)? Nothing else of it was released, and it has its debit. The "
        "next run without --unattended releases it with what is left of the total, whatever its input holds"
    )


def _needed(spec: Specification, range_: Calendar, location: AccountLocation, *, allow_empty: bool) -> list[str] | None:
    """Lists unrecorded periods that must have rows, lest wrong files seal them empty."""
    if not spec.counts_are_public:
        return None  # secret counts must decide nothing
    if allow_empty:
        return []
    all_due_s = range_.to_s + spec.input.allowed_lateness_s  # by then all slots of the range are due
    return list(dict.fromkeys(gap.period for gap in gaps(spec, range_, location.ledger, all_due_s)))


def _no_rows(outcome: Outcome) -> str:
    """Describes why nothing was released: no usable row, or periods without any."""
    rows, empty = f"{outcome.rows:,} rows", outcome.periods_empty
    others = f" and {len(empty) - SHOWN_PERIODS} more periods" if len(empty) > SHOWN_PERIODS else ""
    lines = [
        f"none of the {rows} is usable; nothing was recorded or spent."
        if outcome.unusable
        else f"of the {rows} none is of {', '.join(empty[:SHOWN_PERIODS])}{others}; nothing was recorded or spent.",
        *(f"  {number:,} refused: {reason}" for reason, number in sorted(outcome.refused.items())),
    ]
    if outcome.refused.get("parse/no-offset"):
        lines.append(
            "Times have no offset: set input.time_zone to the zone of their clock, America/Chicago for instance."
        )
    lines.append(
        "Are these the files of these days, and does [input] fit them? Where truly nothing happened, --allow-empty "
        "seals the slots without rows, for ever" + (": give no unusable rows then." if outcome.unusable else ".")
    )
    return "\n".join(lines)


def _refusal(spec: Specification, location: AccountLocation, outcome: Outcome) -> str:
    """Describes a refused run, the spending over limits, and what to do."""
    account, ledger = spec.account, location.ledger
    limit = ledger.limit(account.name, account.limit)
    in_period = " in a period" if len(limit.spans) == 1 else ""
    released = "nothing was released."
    fitting = [period for period in outcome.debits if period not in outcome.periods_refused]
    if outcome.units_lost_to_the_limit and fitting:  # another process spent the budget of the others meanwhile
        released = f"what was left changed meanwhile. Only this was released: {', '.join(fitting)}"
    lines = [f"account {account.name!r} allows a vehicle {limit.describe()}{in_period}; {released}"]
    for period in outcome.periods_refused:
        asks_for = limit.text(outcome.debits[period])
        lines.append(f"period {period}: this release ({spec.name}, {spec.spec_id}) asks for {asks_for}")
        for spent in ledger.spent(account.name, period):
            lines.append(
                f"  {limit.text(spent.debited)} spent by {spent.spec_name} ({spent.spec_id}) in {spent.slots} slots, "
                f"{spent.first_at} to {spent.last_at}"
            )
        for full in ledger.spent_in_spans(account.name, account.limit, period) if len(limit.spans) > 1 else []:
            if full.span.days > 1:  # a single period's spending is above
                lines.append(
                    f"  the {full.span.days} days {full.first} to {full.last} have spent "
                    f"{full.span.limit.text(full.spent)} of {full.span.limit.describe()}"
                )
    debits = outcome.debits.values()
    if why := next(filter(None, (not_added_up(limit, debit) for debit in debits)), ""):
        lines.append(f"{why[0].upper()}{why[1:]}.")
    elif all(limit.fits(debit) for debit in debits):
        lines.append(
            "Less than that is left of these periods: it can be used with privacy.per = 'period' and a smaller "
            "privacy.epsilon, once. What was released gives its own figures again, as often as you like; where nothing "
            "is left there will be no other figures of these days. Plan for days to come: `hatstream plan`."
        )
    else:
        lines.append(
            "The account allows no period so much. To ask for less: a smaller privacy.epsilon as the total of a period "
            "(privacy.per = 'period'), longer slots or larger cells, or composition = 'cap' with fewer cells. "
            "`hatstream plan` says beforehand what a specification asks for."
        )
    return "\n".join(lines)
