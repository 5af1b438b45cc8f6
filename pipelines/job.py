"""Configuration of a release's job, after checking its account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.account.location import AccountLocation, account_of, read_key, signature_of
from pipelines.errors import UsageError, raise_as
from transforms.layouts import Layout
from transforms.ledger.ledger import Ledger
from transforms.ledger.recording import LedgerAccount
from transforms.ledger.spending import AccountRefusal
from transforms.observe.parse import Rules
from transforms.observe.vehicle_ids import Secret
from transforms.places.ground import Ground
from transforms.recorded.units import Transaction
from transforms.releases import KINDS, SlotFacts
from transforms.releases.base import ReleaseKind, Request
from transforms.sinks.rows import PLAIN, Shape
from transforms.sources.topic import Topic
from transforms.time.calendar import Calendar, CalendarError, Locator

if TYPE_CHECKING:
    from pipelines.specification import Specification

VEHICLE_SHARDS = 2


@dataclass(frozen=True)
class Outputs:
    """Destinations of released rows: files, and optionally a topic. shape: optional columns and layout."""

    folder: Path
    formats: tuple[str, ...] = ()
    topic: Topic | None = None
    shape: Shape = PLAIN


NOWHERE = Outputs(Path())  # of a pipeline that publishes nothing itself: its caller has the rows


@dataclass(frozen=True)
class Job:
    """Complete configuration of a pipeline, of values small enough to be pickled for workers.

    vehicle_shards: number of parallel parts of a stream's pane and slot, without effect on results. skips_unreadable:
    whether undecodable files become dead letters instead of ending the job.
    """

    layout: Layout
    slot_s: int
    rules: Rules
    ground: Ground
    release: ReleaseKind
    transaction: Transaction
    account: LedgerAccount
    outputs: Outputs
    vehicle_shards: int = VEHICLE_SHARDS
    skips_unreadable: bool = False

    @property
    def slots(self) -> Mapping[int, SlotFacts]:
        """Public facts of every slot, by its start in seconds since 1970."""
        return self.release.slots

    @property
    def periods(self) -> tuple[str, ...]:
        """Periods of a closed range."""
        return tuple(dict.fromkeys(facts.period for facts in self.slots.values()))


def admitted(spec: Specification, location: AccountLocation) -> Secret:
    """Reads the account's secret after checking key, ledger and head. Raises AccountRefusal, LedgerError."""
    secret = read_key(location.key)
    ledger = location.ledger
    if not ledger.exists():
        raise AccountRefusal(
            f"there is no ledger at {location.shown}: run `hatstream init` first, or name it with --ledger"
        )
    ledger.verify_chain()
    ledger.check_account(account_of(spec.account, secret))
    ledger.check_head()
    return secret


def ledger_account_of(spec: Specification, location: AccountLocation, *, signs: bool = True) -> LedgerAccount:
    """Returns an admitted account's ledger. signs: whether to sign; False if nothing is recorded."""
    account = spec.account
    signature = signature_of(read_key(location.key)) if signs else None
    return LedgerAccount(location.url, location.head, account.name, account.limit, spec.name, spec.text, signature)


def facts_of(
    spec: Specification, period: str, slot_s: int, joint_slots_s: tuple[int, ...], plan_count: int
) -> SlotFacts:
    """Returns a slot's public facts. joint_slots_s: slots planned together. plan_count: number in a period."""
    start, end = (spec.timetable.text(edge) for edge in (slot_s, slot_s + spec.timetable.slot_s))
    return SlotFacts(period, start, end, joint_slots_s, plan_count)


def with_digest_form(job: Job, ledger: Ledger) -> Job:
    """Returns the job that writes digests in its ledger's form, perhaps an older one."""
    return replace(job, release=job.release.with_digest_form(ledger.first_digest(job.release.spec_id)))


def assemble(
    spec: Specification,
    calendar: Locator,
    slots: Mapping[int, SlotFacts],
    transaction: Transaction,
    secret: Secret,
    account: LedgerAccount,
    outputs: Outputs,
    *,
    in_slots: bool = False,
) -> Job:
    """Builds a job from the specification. in_slots: a stream releases slots singly."""
    return Job(
        layout=spec.input.layout,
        slot_s=spec.timetable.slot_s,
        rules=spec.rules(calendar, secret.derive("vehicle")),
        ground=spec.ground,
        release=KINDS[spec.kind].of(request_of(spec, slots, secret, account), in_slots=in_slots),
        transaction=transaction,
        account=account,
        outputs=outputs,
    )


def request_of(spec: Specification, slots: Mapping[int, SlotFacts], secret: Secret, account: LedgerAccount) -> Request:
    """Collects the specification's request to its kind of release."""
    return Request(
        spec_id=spec.spec_id,
        value=spec.value,
        region=spec.cells.region,
        statistics=spec.statistics,
        allocation=spec.privacy.allocation,
        cap=spec.privacy.cap,
        shards=spec.privacy.release_shards,
        options=spec.levels,
        zone=spec.timetable.zone,
        slots=slots,
        account=account,
        digest_key=secret.derive("digest"),
    )


def job_of(spec: Specification, calendar: Calendar, secret: Secret, account: LedgerAccount, outputs: Outputs) -> Job:
    """Builds the job of a closed range, recorded by period. Raises UsageError, see `slot_facts`."""
    return assemble(spec, calendar, slot_facts(spec, calendar), "period", secret, account, outputs)


def slot_facts(spec: Specification, calendar: Calendar) -> dict[int, SlotFacts]:
    """Collects public facts by slot's start. Raises UsageError if the range divides a plan."""
    facts = {}
    for period, slots in groupby(calendar.slots, key=lambda slot: slot.period):
        starts = tuple(slot.start_s for slot in slots)
        with raise_as(UsageError, CalendarError):
            all_starts = spec.slots_of_period(starts[0])  # also those outside of the range
        allocation = spec.privacy.allocation
        if allocation.whole_periods and starts != all_starts:
            raise UsageError(
                f"privacy.scope = 'period' plans and seals a period as a whole: {period} has {len(all_starts)} slots, "
                f"the range holds {len(starts)} of them"
            )
        plan_count = allocation.plan_count(len(all_starts))
        for start_s in starts:
            facts[start_s] = facts_of(spec, period, start_s, allocation.planned_with(start_s, starts), plan_count)
    return facts
