"""Configuration of a release's job, and checks of its account and output folder.

A transaction is what the ledger records at once: "slot" in streams, else "period" or "range". Slots have public facts,
by start: period, times, and which slots are planned together.
"""

import os
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from pipelines.account.location import AccountLocation, account_of, read_key, signature_of
from pipelines.errors import UsageError, raise_as
from pipelines.option_types import FURTHER
from pipelines.specification import Specification
from transforms.atomic_files import locked
from transforms.errors import reason_of
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
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.published import DATES, HATS, LIVE, published_slots
from transforms.sinks.rows import PLAIN, Shape
from transforms.sources.topic import Topic
from transforms.time.calendar import Calendar, CalendarError, Locator
from transforms.value import SPEED

VEHICLE_SHARDS = 2
OLD_S = 86_400  # age from which a leftover belongs to no run that still works


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


def facts_of(spec: Specification, period: str, slot_s: int, slots_s: tuple[int, ...]) -> SlotFacts:
    """Returns a slot's public facts. slots_s: starts in its period, if plans need them."""
    start, end = (spec.timetable.text(edge) for edge in (slot_s, slot_s + spec.timetable.slot_s))
    allocation = spec.privacy.allocation
    return SlotFacts(period, start, end, allocation.planned_with(slot_s, slots_s), allocation.plan_count(len(slots_s)))


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
) -> Job:
    """Builds a job. calendar: places events in slots. slots: facts by start."""
    return Job(
        layout=spec.input.layout,
        slot_s=spec.timetable.slot_s,
        rules=spec.rules(calendar, secret.derive("vehicle")),
        ground=spec.ground,
        release=KINDS[spec.kind].of(request_of(spec, slots, secret, account), in_slots=transaction == "slot"),
        transaction=transaction,
        account=account,
        outputs=outputs,
    )


def request_of(spec: Specification, slots: Mapping[int, SlotFacts], secret: Secret, account: LedgerAccount) -> Request:
    """Collects what its kind of release needs of a specification, slots, key and ledger."""
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
    facts = dict[int, SlotFacts]()
    for period, slots in groupby(calendar.slots, key=lambda slot: slot.period):
        starts = tuple(slot.start_s for slot in slots)
        with raise_as(UsageError, CalendarError):
            all_starts = spec.slots_of_period(starts[0])  # also those outside of the range
        if spec.privacy.allocation.whole_periods and starts != all_starts:
            raise UsageError(
                f"privacy.scope = 'period' plans and seals a period as a whole: {period} has {len(all_starts)} slots, "
                f"the range holds {len(starts)} of them"
            )
        facts |= {start_s: facts_of(spec, period, start_s, all_starts) for start_s in starts}
    return facts


class OutputError(Exception):
    """The output folder cannot be used."""


def prepare_outputs(outputs: Outputs, spec: Specification, location: AccountLocation) -> None:
    """Checks folder and topic before a release. Raises OutputError or StepError.

    A published slot missing from the ledger implies another or a restored ledger: fresh noise would be a second look at
    the same data.
    """
    make_writable(outputs.folder)
    for is_live in (False, True):
        published = published_slots(outputs.folder, spec.spec_id, is_live=is_live)
        if not published:
            continue
        in_periods = spec.is_learned and not is_live  # then the ledger's entry is of a period's first slot
        entry_of = {slot_s: spec.slots_of_period(slot_s)[0] if in_periods else slot_s for slot_s in published}
        first_s, end_s = min(entry_of.values()), max(entry_of.values()) + 1
        shards = location.ledger.recorded_slots(spec.account.name, spec.spec_id, first_s, end_s, is_live=is_live)
        recorded = {slot_s for slot_s, _ in shards}
        unknown = sorted(slot_s for slot_s in published if entry_of[slot_s] not in recorded)
        if unknown:
            raise OutputError(
                f"{published[unknown[0]]} was published, but the ledger {location.shown} has no record of its slot "
                f"({len(unknown)} such slots): it was released with another ledger, or with this one before an older "
                "copy was restored. New noise for one slot would reveal more, so nothing was recorded. Name the ledger "
                "and key that it was released with (--ledger, --key); if they are lost, the account has ended: open "
                "another one, by another name and with another key"
            )
    if outputs.topic is not None:
        from transforms.sinks import kafka  # its client is imported where there is a topic

        kafka.check(outputs.topic)


def make_writable(folder: Path) -> None:
    """Creates the folder, removes leftovers of killed runs, and tests writing. Raises OutputError."""
    for leftover in Path(tempfile.gettempdir()).glob("beam-pipeline-temp*"):  # Beam's: empty, and of runs of ours
        with suppress(OSError):  # it is not empty, or gone
            status = leftover.stat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > OLD_S:
                leftover.rmdir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for directory in (*filter(Path.is_dir, folder.glob(DATES)), folder):  # DATES: folders of a dataset by date
            with locked(directory):  # no other process writes in it now, so that all partial files are leftovers
                for pattern in (*(f".{product}-*.part" for product in (HATS, LIVE, *PRODUCTS)), ".hatstream-*"):
                    for partial_file in directory.glob(pattern):
                        partial_file.unlink()
                if directory == folder:
                    probe = folder / ".hatstream-probe"
                    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
                    probe.unlink()
    except OSError as error:
        raise OutputError(f"the output folder {folder} cannot be written: {reason_of(error)}") from None


def shape_with(columns: Collection[str], spec: Specification, *, by_date: bool = False) -> Shape:
    """Returns the rows' optional columns and layout. Raises UsageError for impossible columns."""
    if unknown := sorted(set(columns) - set(FURTHER)):
        raise UsageError(f"--columns: {unknown[0][:40]!r} is not one of {', '.join(FURTHER)}")
    if "counts" in columns and not (spec.counts_are_public or spec.is_learned):
        raise UsageError("--columns counts goes with adjacency 'counts-public', or with 'levels', which estimates them")
    if "traffic" in columns and not spec.is_learned:
        raise UsageError("--columns traffic goes with 'levels', which alone estimates how vehicles differ")
    return Shape(
        zone=spec.timetable.zone if "times" in columns else None,
        counts="counts" in columns and not spec.is_learned,
        by_date=by_date,
        traffic="traffic" in columns,
        about="counts" in columns and spec.is_learned,  # columns of estimated vehicles and reports
        unknown="counts" in columns and spec.is_learned,  # also rows with estimated counts but without a value
        value_means=value_meaning(spec),
        trips=spec.trips,
    )


def value_meaning(spec: Specification) -> str:
    """Describes the mean or number in the column `value`, with its weighting of vehicles."""
    value = spec.value.name
    slow = ", slow vehicles more often" if value == SPEED else ""
    if not spec.is_learned:
        names = {stat.name for stat in spec.statistics}
        if names == {"mean-of-vehicles"}:
            return f"Mean over vehicles of each vehicle's own mean {value}: every vehicle counts once"
        if names & {"mean", "mean-of-vehicles"}:
            return f"Of the statistic mean: the mean {value} of all reports, each counting once{slow}"
        return "Value of the statistic"
    levels = spec.by_levels
    if levels.counted is not None:
        return f"Number of {levels.counted.of}, with the noise of the whole period's total"
    if levels.target == "reports":
        slow += " (the space-mean speed, that running times need)" if slow else ""
        return f"Mean {value} of all reports, each counting once{slow}, estimated from noisy sums of the whole area"
    if levels.target == "vehicles":
        return (
            f"Mean over vehicles of each vehicle's own mean {value} in the place and slot: every vehicle counts once; "
            "estimated from noisy sums of the whole area"
        )
    higher = "where that differs from the mean of all reports (slow vehicles report more often), it is usually higher"
    return (
        f"Mean {value}, estimated from noisy sums of the whole area. It is near the mean in which a vehicle with n "
        f"reports in the place and slot counts n^{float(levels.exponent):g}"
        + (f"; {higher}, by up to 2 km/h" if value == SPEED else "")
    )
