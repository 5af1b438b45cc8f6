"""Composite PTransform from vehicle positions to result rows.

A caller's users, keys and windows are vehicles, cells and slots. `admitted` checks an account's key and ledger, and
returns the key. `road` draws, records and estimates tallies.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from pipelines.account import location
from pipelines.build import PANE_S, beats_of, observe, road
from pipelines.errors import UsageError
from pipelines.inputs import closed_range
from pipelines.job import NOWHERE, Job, Outputs, admitted, job_of, ledger_account_of, shape_with, with_digest_form
from pipelines.runs.beam.bounded import debits_of_job
from pipelines.runs.beam.runners import refuse_type_checks
from pipelines.runs.stream import stream as streaming
from pipelines.specification import Source, Specification, SpecificationError, load
from transforms.layouts.base import FIELDS
from transforms.ledger.spending import AccountRefusal
from transforms.records import KeyedEvents, KeyedTally, KeyedUnit, PackedEvents, RecordedSlot, Refused, SlotEstimates
from transforms.releases.periods.products import DISTRIBUTION
from transforms.sinks.published import OPTIONAL
from transforms.sinks.rows import schema_of, shown_names
from transforms.sinks.steps import ToRows
from transforms.sources.elements import ReadElements, why_no_reports
from transforms.sources.unbounded import Heartbeat, ScriptedHeartbeat, script_of
from transforms.steps.observe import ByVehicle, windows
from transforms.steps.release import ByHexagon, Record, ReleasePeriod
from transforms.time.calendar import Calendar

_FIRE_AT_THE_END = {"SwitchingDirectRunner", "BundleBasedDirectRunner", "FnApiRunner"}  # Beam's, in this process


@dataclass
class Release(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """PTransform from reports to result rows, exactly once.

    spec: a path, a dict of a specification's tables, or the result of `hatstream.load`.

    An element is one report. Its names are those of the specification's `input.columns`, or else vehicle, time, lat,
    lon and speed; units are those of `[input]`. A time is a text, a number in `time_unit`, a datetime with a zone or a
    Beam Timestamp. Refused elements are counted (`refused/<stage>/<reason>`), never shown.

    Bounded input: releases the slots from `start` to `end`, which must be over: local dates, both included, or ISO
    times on slot edges. Beam timestamps and windows of elements are ignored.

    Unbounded input: releases each slot from `start` (default: the next one) when the watermark reaches its end, up to
    `end`, if set; a date is included. Lateness follows from an element's Beam timestamp, which must be the time at
    which its transport took it: a row whose slot had ended by then is refused as late. Timestamps equal to the rows'
    own times are refused, as an engine's late drops would be unknown, and so is the end of time. The source's watermark
    decides how long a slot waits: `slot.allowed_lateness_s` must be 0.

    Under secret counts (`add-remove`) only a row's own two times decide its lateness, and one whose Beam timestamp is
    its own time is refused (`lateness/own-time`). This holds if the source's watermark never passes the timestamp of a
    coming element. With `levels` rows are of live slots, and of whole periods with `day_lateness_s`.

    Every slot is recorded in the ledger once, before its rows are output: a retry, a restart or a second pipeline gives
    the same rows. ledger, key: as in `hatstream release`; `hatstream init` makes them. allow_empty: seals a period
    without rows; an error by default, since a wrong input must not seal a day. unattended: for schedulers with retries:
    a bounded period stopped for too few vehicles (under secret counts) stays stopped; by default the next pipeline
    releases it.

    columns: optional ones, as in `hatstream release --columns`: "times", "counts", and with `levels` "traffic".

    A row's event time is the last instant of its slot, so that it can be windowed again: by the slot, an hour, a day.
    typed: outputs NamedTuples with a Beam schema, for `SqlTransform`, `to_dataframe` and files with columns.

    Raises at construction: UsageError, SpecificationError, AccountRefusal or LedgerError.
    """

    spec: Source
    start: str | None = None
    end: str | None = None
    ledger: str | None = field(default=None, repr=False)  # may hold a password
    key: str | Path | None = None
    allow_empty: bool = False
    unattended: bool = False
    columns: Collection[str] = ()
    typed: bool = False

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        spec = load(self.spec)
        shape = shape_with([self.columns] if isinstance(self.columns, str) else self.columns, spec)
        released = replace(self, spec=spec).released(elements, outputs=replace(NOWHERE, shape=shape))  # no files
        # Learned rows have optional columns, but those of distributions only where a part releases them.
        unused = () if any(part.statistics for part in spec.parts) else DISTRIBUTION
        optional = [name for name in shown_names(OPTIONAL, shape) if spec.is_learned and name not in unused]
        schema = schema_of([stat.name for stat in spec.statistics], shape, optional) if self.typed else None
        # In unbounded pipelines, where engines drop late rows, a row's time must not be before its element's.
        return released.estimates | "rows" >> ToRows(shape, schema, may_be_late=elements.is_bounded)

    def released(self, elements: PCollection[Any], outputs: Outputs = NOWHERE) -> "ReleasedEstimates":
        """Returns recorded estimates, and dead letters; `outputs` also writes files.

        Refuses elements that cannot be reports: a day without one would be sealed for ever, silently under secret
        counts.
        """
        spec = load(self.spec)
        if not isinstance(elements, PCollection):
            raise UsageError("hatstream.Release takes one PCollection of reports: beam.Flatten makes one of several")
        refuse_type_checks(elements.pipeline.options)
        names = spec.input.names[: len(FIELDS)]  # without optional ones behind them, such as a heading
        if why := why_no_reports(elements.element_type, names):
            raise UsageError(
                f"the elements {why}: a report is a dict, a Beam Row or a NamedTuple that has {', '.join(names)}"
            )
        if not elements.is_bounded:
            return self._open(elements, spec, outputs)
        if self.start is None or self.end is None:
            raise UsageError("a bounded PCollection needs start and end: the days that it holds, both included")
        ledger_and_key = self.ledger, self.key
        hats = ClosedHats.of(spec, self.start, self.end, *ledger_and_key, outputs=outputs, unattended=self.unattended)
        assigned = elements | "hats" >> AssignHats(hats)
        tallies = assigned | "users" >> ContributionsPerUser(hats)
        runner = _BoundedRunner(spec, hats.calendar, needs_rows=spec.counts_are_public and not self.allow_empty)
        return ReleasedEstimates(road(tallies, hats.job, runner), assigned.refused)

    def _open(self, elements: PCollection[Any], spec: Specification, outputs: Outputs) -> "ReleasedEstimates":
        """Releases an unbounded PCollection slot by slot. Raises SpecificationError or UsageError."""
        account_location = location.find(self.ledger, self.key).absolute()
        secret = admitted(spec, account_location)
        if lateness_s := spec.input.allowed_lateness_s:
            raise SpecificationError(
                f"slot.allowed_lateness_s must be 0 for an unbounded PCollection; it is {lateness_s}: how long a slot "
                "waits for reports is decided by the watermark of its source"
            )
        runner, script = type(elements.pipeline.runner).__name__, script_of(elements)  # script: a TestStream, or None
        if runner in _FIRE_AT_THE_END and self.end is None and script is None:
            raise UsageError(
                f"{runner} fires nothing before all sources end, and slots go on for ever: no row would come. "
                "Name `end`, or use Flink, Dataflow or a TestStream"
            )
        start_s = streaming.first_slot(spec, self.start, datetime.now(UTC))
        streaming.check_endless(spec, start_s)
        _, account_end_s = streaming.life_of(spec)
        to_s = account_end_s if self.end is None else streaming.end_of(spec, start_s, self.end)
        raises, source = spec.counts_are_public, spec.input  # an error for a bad time would show secret counts
        reading = ReadElements(source.layout.units, source.names, start_s, raises=raises, fields=source.fields)
        stream = streaming.stream_of(spec, (start_s, to_s), reading, account_location, secret, outputs)
        job, beats_at = stream.job, (spec.timetable, start_s, to_s, spec.privacy.release_shards)
        # A TestStream brings its own clock, by which slots end.
        heartbeat = Heartbeat(*beats_at) if script is None else ScriptedHeartbeat(script, *beats_at, int(time.time()))
        pane_s = job.slot_s if job.release.keeps_late else PANE_S  # late reports need their slot as one pane
        refused, branches = replace(stream, heartbeat=heartbeat, pane_s=pane_s).released(elements, elements.pipeline)
        # Estimates of slots, then of periods if these are released later as a whole.
        slots, *periods = [estimates for _sink_prefix, estimates in branches]
        if periods:
            whole = periods[0] | "in windows of slots" >> beam.WindowInto(windows(job.slot_s, start_s))
            slots = (slots, whole) | "live and whole" >> beam.Flatten()
        return ReleasedEstimates(slots, refused)


class ReleasedEstimates(NamedTuple):
    """Recorded estimates and dead letters. refused: for the operator only under secret counts."""

    estimates: PCollection[SlotEstimates]
    refused: PCollection[Refused]


@dataclass(frozen=True)
class _BoundedRunner:
    """Runner of a caller's bounded pipeline. needs_rows: whether an empty period raises an error."""

    spec: Specification
    calendar: Calendar
    needs_rows: bool

    def recorded(self, drawn: DoOutputsTuple, job: Job) -> PCollection[RecordedSlot]:
        return drawn.units | "record" >> Record(job.account, self.needs_rows, may_lose=False)

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        """Releases a single period after those recorded earlier."""
        spec, periods = self.spec, self.calendar.periods
        if option := spec.input.needs_whole_periods:
            raise SpecificationError(f"{option} is for `hatstream release` only: give rows with what it would derive")
        if len(periods) > 1:
            raise UsageError(
                f"the range holds {len(periods)} periods, and by {spec.kind!r} each rests on what was recorded "
                "before: run one pipeline a period, the oldest first"
            )
        if debits_of_job(job).periods_refused:
            raise AccountRefusal(f"account {spec.account.name!r} refuses {periods[0]}: its limit would be exceeded")
        return tallies | "period" >> ReleasePeriod(job.account, job.release)


class ClosedHats(NamedTuple):
    """Public facts, mechanism and account of a closed range.

    >>> import hatstream
    >>> from hatstream.testing import account
    >>> mean = hatstream.MeanPerKey(
    ...     user="bus", key="route", keys=["A"], value="late", bounds=(-5, 10), total=50,
    ...     account=account(50, hides="values"),
    ... )
    >>> hats = ClosedHats.of(mean.tables(86_400), "2026-05-14", "2026-05-14", mean.account.ledger)
    >>> rows = [{"bus": f"bus {i}", "time": "2026-05-14T08:00:00Z", "route": "A", "late": 3} for i in range(50)]
    >>> with beam.Pipeline(runner="FnApiRunner") as p:
    ...     units = p | beam.Create(rows) | AssignHats(hats) | ContributionsPerUser(hats) | ReleaseMeans(hats)
    ...     means = units | hatstream.Record(hats.job.account) | hatstream.Estimate(hats.job.release, hats.job.account)
    ...     _ = means | beam.Map(lambda slot: print(slot.hats.cell, slot.hats.estimates.number(0)[0].round()))
    ['A'] [3.]
    """

    spec: Specification
    calendar: Calendar
    job: Job

    @classmethod
    def of(
        cls,
        spec: Source,
        start: str,
        end: str,
        ledger: str | None = None,
        key: str | Path | None = None,
        *,
        outputs: Outputs = NOWHERE,
        unattended: bool = False,
    ) -> "ClosedHats":
        """Opens a specification's account for a closed range. unattended: as in `Release`."""
        spec, files = load(spec), location.find(ledger, key).absolute()
        calendar = closed_range(spec.timetable, start, end, datetime.now(UTC))
        secret, account = admitted(spec, files), replace(ledger_account_of(spec, files), unattended=unattended)
        job = job_of(spec, calendar, secret, account, outputs)
        return cls(spec, calendar, with_digest_form(job, files.ledger))  # digests in the form of the ledger's first one


@dataclass
class AssignHats(beam.PTransform[PCollection[Any], Any]):
    """Transform of reports into packed ones by window, user shard and key; refusals aside."""

    hats: ClosedHats

    def expand(self, reports: PCollection[Any]) -> Any:  # of two outputs Beam takes no type hint
        source = self.hats.spec.input
        read = reports | "read" >> ReadElements(source.layout.units, source.names, start_s=None, fields=source.fields)
        return observe(read, self.hats.job)


@dataclass
class ContributionsPerUser(beam.PTransform[Any, PCollection[KeyedTally]]):
    """Transform of packed reports into deduplicated counts and bounded sums per user and key."""

    hats: ClosedHats

    def expand(self, assigned: Any) -> PCollection[KeyedTally]:
        def keyed(packed: PackedEvents) -> KeyedEvents:
            return packed.key, packed.data

        events = assigned.events | "by shard" >> beam.Map(keyed).with_output_types(KeyedEvents)
        tallies = events | "by vehicle" >> ByVehicle(self.hats.job.release)
        create = beam.Create(beats_of(self.hats.job), reshuffle=False).with_output_types(KeyedTally)  # as they are few
        return (tallies, tallies.pipeline | "heartbeat" >> create) | "with heartbeat" >> beam.Flatten()


@dataclass
class ReleaseMeans(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedUnit]]):
    """Transform of contributions into noisy integers with public plans: `Record` them before any use."""

    hats: ClosedHats

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedUnit]:
        job = self.hats.job
        return (tallies | "by hexagon" >> ByHexagon(job.release, job.transaction, job.account)).units
