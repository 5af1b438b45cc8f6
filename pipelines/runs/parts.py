"""The parts of a bounded road of HATs, for those who build their own: `hatstream.Release` is built of the same."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import PCollection

from pipelines.account import location
from pipelines.assembly import admitted, continuing, job_of, ledger_account_of
from pipelines.build import observe, with_beats
from pipelines.job import NOWHERE, Job, Outputs
from pipelines.ranges import closed_range
from pipelines.specification import Specification, load
from pipelines.specification.load import Source
from transforms.records import KeyedEvents, KeyedTally, KeyedUnit, PackedEvents
from transforms.sources.elements import ReadElements
from transforms.steps.count import ByVehicle
from transforms.steps.release import ByHexagon
from transforms.time.calendar import Calendar


class ClosedHats(NamedTuple):
    """Public keys and windows of a closed range, its bounds, mechanism and account: what the parts of a road share.

    >>> import hatstream
    >>> from hatstream.testing import account
    >>> mean = hatstream.MeanPerKey(
    ...     user="bus", key="route", keys=["A"], value="late", bounds=(-5, 10), total=50,
    ...     account=account(50, hides="values"),
    ... )
    >>> hats = ClosedHats.of(mean.tables(86_400), "2026-05-14", "2026-05-14", mean.account.ledger)
    >>> rows = [{"user": f"bus {i}", "time": "2026-05-14T08:00:00Z", "key": "A", "reading": 3} for i in range(50)]
    >>> with beam.Pipeline(runner="FnApiRunner") as p:
    ...     units = p | beam.Create(rows) | AssignHats(hats) | ContributionsPerUser(hats) | ReleaseMeans(hats)
    ...     means = units | hatstream.Record(hats.job.account) | hatstream.Estimate(hats.job.release, hats.job.account)
    ...     _ = means | beam.Map(lambda slot: print(slot.hats.cell, slot.hats.estimates.number(0)[0].round()))
    ['A'] [3.]
    """

    spec: Specification
    when: Calendar
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
        """Opens a specification's account for a closed range, as `hatstream.Release` does."""
        spec = load(spec)
        place = location.find(ledger, None if key is None else Path(key))
        place = replace(place, key=place.key.absolute())  # workers may stand in another folder
        when = closed_range(spec.timetable, start, end, datetime.now(UTC))
        secret, account = admitted(spec, place), replace(ledger_account_of(spec, place), unattended=unattended)
        return cls(spec, when, continuing(job_of(spec, when, secret, account, outputs), place.ledger))


@dataclass
class AssignHats(beam.PTransform[PCollection[Any], Any]):
    """Reports -> packed reports by window and a shard of users, each under its key; and what was refused, by reason."""

    hats: ClosedHats

    def expand(self, reports: PCollection[Any]) -> Any:  # of two outputs Beam takes no type hint
        source = self.hats.spec.input
        read = reports | "read" >> ReadElements(source.layout.units, source.names, None, fields=source.fields)
        return observe(read, self.hats.job)


@dataclass
class ContributionsPerUser(beam.PTransform[Any, PCollection[KeyedTally]]):
    """What `AssignHats` gives -> counts and bounded sums by user and key, packed; copies are left out."""

    hats: ClosedHats

    def expand(self, assigned: Any) -> PCollection[KeyedTally]:
        keyed = assigned.events | "by shard" >> beam.Map(_of_slot).with_output_types(KeyedEvents)
        return with_beats(keyed | "by vehicle" >> ByVehicle(self.hats.job.release), self.hats.job)


@dataclass
class ReleaseMeans(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedUnit]]):
    """Contributions -> noisy integers by the mechanism, with their public plans: `Record` them before all else."""

    hats: ClosedHats

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedUnit]:
        job = self.hats.job
        return (tallies | "by hexagon" >> ByHexagon(job.release, job.transaction, job.account)).sealed


def _of_slot(packed: PackedEvents) -> KeyedEvents:
    return packed.key, packed.data
