"""Path of an event, from source to published files.

    read -> parse -> lateness -> assign -> by vehicle -> by hexagon -> record -> estimate -> publish

Pipelines count slots, then share `road`, the steps from tallies to estimates, each with its own `Runner`: streams
(runs/stream/stream.py), scheduled jobs (runs/beam/bounded.py), callers' pipelines (runs/library.py).
"""

from typing import NamedTuple, Protocol

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PBegin, PCollection

from pipelines.job import Job, Outputs
from transforms.records import REFUSED, KeyedTally, PackedEvents, RecordedSlot, Refused, SlotEstimates, TallyBytes
from transforms.sinks.steps import PublishFiles, PublishToKafka
from transforms.steps.metrics import Store
from transforms.steps.observe import Assign, CountRefused, Parse, RefuseLate
from transforms.steps.release import ByHexagon, Estimate

PANE_S = 60
"""A stream counts its slots in panes of this length: two reports of a vehicle at one time are in the same one, so that
duplicates can be dropped and contributions added up before the slot ends. It divides every slot."""

Source = beam.PTransform[PBegin, DoOutputsTuple]  # outputs: batches (RawBatch) and refused (Refused)


class ObservedOutputs(NamedTuple):
    """Events by (slot, vehicle shard), and dead letters of the steps up to them."""

    events: PCollection[PackedEvents]
    refused: PCollection[Refused]


class Runner(Protocol):
    """Part of a pipeline between counting and recording."""

    def recorded(self, drawn: DoOutputsTuple, job: Job) -> PCollection[RecordedSlot]:
        """Records drawn units in the ledger; returns recorded slots."""

    def in_order(self, tallies: PCollection[KeyedTally], job: Job) -> PCollection[SlotEstimates]:
        """Draws, records and estimates a release's groups in order."""


def road(
    tallies: PCollection[KeyedTally], job: Job, runner: Runner, drawing: str = "by hexagon", store: Store | None = None
) -> PCollection[SlotEstimates]:
    """Draws, records and estimates units of a job's tallies.

    tallies: by (first slot planned together, release shard); b"" under each key seals slots without reports. runner:
    records what is drawn. drawing: label of the drawing step. store: holds drawn units where all steps share a process.
    """
    if job.release.draws_in_order:  # each group's noise rests on the units recorded before
        return runner.in_order(tallies, job)
    drawn = tallies | drawing >> ByHexagon(job.release, job.transaction, job.account, store)  # key, Unit
    label = "learn" if job.release.learns else "read integers"  # into values, intervals and status
    return runner.recorded(drawn, job) | "publish/estimate" >> Estimate(job.release, job.account, label)


def observe(
    read: DoOutputsTuple, job: Job, pane_s: int | None = None, lateness: RefuseLate | None = None
) -> ObservedOutputs:
    """Turns batches into observations, and counts refused rows.

    pane_s: length of a slot's panes; None for whole slots. lateness: step that refuses late rows; None: for bounded
    input, whose batches have the earliest of all timestamps, so that no row is late.
    """
    parsed = read.batches | "parse" >> Parse(job.rules)  # Observations
    timely = parsed.observations | "lateness" >> (lateness or RefuseLate(job.slot_s))  # Observations, on time
    assigned = timely.observations | "assign" >> Assign(job.ground, job.vehicle_shards, pane_s)
    refused = (read[REFUSED], parsed[REFUSED], timely[REFUSED], assigned[REFUSED]) | "all refused" >> beam.Flatten()
    _ = refused | "count refused" >> CountRefused()
    return ObservedOutputs(assigned.events, refused)


def beats_of(job: Job) -> list[KeyedTally]:
    """Lists an empty tally by plan and shard, which seals slots without reports."""
    first_slots = dict.fromkeys(map(job.release.group, job.slots))  # of each group that is planned together, once
    return [((slot_s, shard), TallyBytes(b"")) for slot_s in first_slots for shard in range(job.release.shards)]


def publish(estimates: PCollection[SlotEstimates], outputs: Outputs, prefix: str = "") -> None:
    """Writes estimates to files, and to a topic if any. prefix: of steps' labels."""
    _ = estimates | f"{prefix}publish" >> PublishFiles(outputs.folder, outputs.formats, outputs.shape)
    if outputs.topic is not None:
        _ = estimates | f"{prefix}publish to kafka" >> PublishToKafka(outputs.topic, outputs.shape)
