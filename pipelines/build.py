"""The road of an event, from what a source hands over to published files.

    read -> parse -> lateness -> assign -> by vehicle -> by hexagon -> record -> estimate -> publish

A stream joins the stretches end to end, and so does a scheduled job on a cluster (pipelines/runs/beam/bounded.py). One
on this machine is no pipeline: its crew (pipelines/runs/crew) calls the same functions.
"""

from typing import NamedTuple

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PBegin, PCollection

from pipelines.job import Job, Outputs
from transforms.records import (
    EXPOSURE,
    REFUSED,
    ExposureBytes,
    KeyedEvents,
    KeyedPartial,
    KeyedTally,
    KeyedUnit,
    PackedEvents,
    RecordedSlot,
    Refused,
    SlotEstimates,
)
from transforms.sinks.steps import PublishFiles, PublishToKafka
from transforms.sources.heartbeat import Heartbeat
from transforms.steps.count import ByVehicle, InPanes, LateForPanes
from transforms.steps.lateness import BEHIND, InTime, IntoPanes, IntoSlots, RefuseLate
from transforms.steps.observe import Assign, CountRefused, Parse
from transforms.steps.release import ByHexagon, Estimate, Record

PANE_S = 60
"""A stream counts its slots in panes of this length: two reports of a vehicle at one time are in the same one, so that
duplicates can be dropped and contributions added up before the slot ends. It divides every slot."""

Source = beam.PTransform[PBegin, DoOutputsTuple]
"""Hands over main: RawBatch; refused: Refused."""

Sink = beam.PTransform[PCollection[SlotEstimates], PCollection[None]]


class ObservedOutputs(NamedTuple):
    """events: by (slot, vehicle shard). refused: dead letters of all steps up to them."""

    events: PCollection[PackedEvents]
    refused: PCollection[Refused]


class HexagonOutputs(NamedTuple):
    """sealed: (what is recorded together, encoded Unit). exposure: (slot, packed Exposure)."""

    sealed: PCollection[KeyedUnit]
    exposure: PCollection[tuple[int, ExposureBytes]]


def stream(p: beam.Pipeline, source: Source, heartbeat: Heartbeat, job: Job, identity: str) -> None:
    """The whole road, end to end and without an end.

    A savepoint finds its steps by name. One has the `identity` of specification and key in its name: so Flink refuses a
    savepoint with slots, cells and speeds of another one, or with vehicles that would be counted twice under our key.
    """
    beats = p | f"heartbeat of {identity}" >> heartbeat
    publish(seal_in_panes(p | "read" >> source, beats, heartbeat.start_s, job), job)


def seal_in_panes(
    read: DoOutputsTuple, beats: PCollection[KeyedTally], start_s: int, job: Job, pane_s: int = PANE_S
) -> PCollection[KeyedUnit]:
    """What an unbounded source read -> sealed units. Exposures, which are added up over a period, are dropped.

    pane_s: length of the panes that a slot is counted in, in seconds. What comes when its pane is over waits beside
    them for the end of its slot.
    """
    events = observe(read, job, pane_s) | "in time" >> InTime(pane_s)  # PackedEvents
    panes = events.in_time | "into panes" >> IntoPanes(pane_s, start_s)
    partials = panes | "in panes" >> InPanes(job.release.cap, job.release.columns)  # (slot, vehicle shard), Partial
    late = events[BEHIND] | "late for panes" >> LateForPanes(job.release.cap, job.release.columns)  # the same
    into_slots = IntoSlots(job.slot_s, start_s)
    both = (partials | "into slots" >> into_slots, late | "late into slots" >> into_slots)
    return draw(count(both | "with late ones" >> beam.Flatten(), job, in_panes=True), beats, job).sealed


def observe(
    read: DoOutputsTuple, job: Job, pane_s: int | None = None, lateness: RefuseLate | None = None
) -> PCollection[PackedEvents]:
    """What a source read -> accepted observations, packed by (slot, vehicle shard). Refused rows are counted only.

    read: main: RawBatch; refused: Refused. No file is late: without a promise of its source, no event can be.
    pane_s: length of the panes that a slot is counted in, in seconds; None: the whole slot at once. lateness: which
    rows are late; None: those of slots that are over.
    """
    return observe_all(read, job, pane_s, lateness).events


def observe_all(
    read: DoOutputsTuple, job: Job, pane_s: int | None = None, lateness: RefuseLate | None = None
) -> ObservedOutputs:
    """As `observe`, with what was refused, for it is counted already."""
    parsed = read.batches | "parse" >> Parse(job.rules)  # Observations
    timely = parsed.observations | "lateness" >> (lateness or RefuseLate(job.slot_s))  # the same
    assigned = timely.observations | "assign" >> Assign(job.ground, job.vehicle_shards, pane_s)
    refused = (read[REFUSED], parsed[REFUSED], timely[REFUSED], assigned[REFUSED]) | "all refused" >> beam.Flatten()
    _ = refused | "count refused" >> CountRefused()
    return ObservedOutputs(assigned.events, refused)


def count(
    parts: PCollection[KeyedEvents | KeyedPartial], job: Job, *, in_panes: bool = False
) -> PCollection[KeyedTally]:
    """Events, or partial tallies of panes -> tallies by (plan, release shard): what each vehicle did in each cell."""
    return parts | "by vehicle" >> ByVehicle(job.release, in_panes)


def draw(tallies: PCollection[KeyedTally], heartbeat: PCollection[KeyedTally], job: Job) -> HexagonOutputs:
    """Tallies -> sealed units, and what each vehicle spends in them.

    heartbeat: one ((plan, release shard), b"") for every plan, so that a slot is sealed even if nothing happened.
    """
    both = (tallies, heartbeat) | "with heartbeat" >> beam.Flatten()
    done = both | "by hexagon" >> ByHexagon(job.release, job.transaction, job.account)  # key, Unit
    return HexagonOutputs(done.sealed, done[EXPOSURE])


def publish(sealed: PCollection[KeyedUnit], job: Job, *, needs_consent: bool = False) -> None:
    """Sealed units -> the ledger's answer -> estimates -> files, and messages of a topic.

    needs_consent: see `Record`.
    """
    recorded = sealed | "record" >> Record(job.account, needs_consent=needs_consent)
    publish_estimates(estimate(recorded, job), job)


def publish_estimates(estimates: PCollection[SlotEstimates], job: Job) -> None:
    for name, sink in sinks_of(job.outputs).items():
        _ = estimates | name >> sink


def estimate(recorded: PCollection[RecordedSlot], job: Job) -> PCollection[SlotEstimates]:
    """What the ledger returned -> values, intervals and status; where it is asked for, also what the past teaches."""
    name = "learn" if job.outputs.shape.model else "read integers"
    return recorded | "publish/estimate" >> Estimate(job.release, job.account, name)


def sinks_of(outputs: Outputs) -> dict[str, Sink]:
    """Where estimates go, by the names of the steps."""
    found: dict[str, Sink] = {"publish": PublishFiles(outputs.folder, outputs.formats, outputs.shape)}
    if outputs.topic is not None:
        found["publish to kafka"] = PublishToKafka(outputs.topic, outputs.shape)
    return found
