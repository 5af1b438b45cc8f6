"""A tiny road for tests on Flink: a source -> parse -> late ones out -> cells -> slots -> events counted -> SQLite.

Every attempt to write is kept, and the first that wrote a slot wins, as in the ledger.
"""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam

from tests.transforms.inputs import mapped, rules, slots
from transforms.layouts import Units
from transforms.places.ground import Hexagons
from transforms.records import REFUSED
from transforms.steps.observe import Assign, IntoPanes, Parse, RefuseLate

LAYOUT = mapped("jsonl", time_unit="ms")
SHARDS = 2
ARM = "ARM"  # A file of this name in the folder makes the counting stage raise once


@dataclass
class Tiny:
    """source: batches and refused rows. days: the first ISO day and the one after the last. The folder takes out.db."""

    source: beam.PTransform
    folder: Path
    days: tuple[str, str]

    def build(self, p):
        calendar = slots(*self.days)
        units = Units("ms", LAYOUT.units.value_per_unit)
        read = p | "read" >> self.source
        parsed = read.batches | "parse" >> Parse(rules(units, start=self.days[0], end=self.days[1]))
        timely = parsed.observations | "lateness" >> RefuseLate(calendar.slot_s)
        assigned = timely.observations | "assign" >> Assign(Hexagons(7, None), SHARDS, None)
        refused = (read[REFUSED], parsed[REFUSED], timely[REFUSED], assigned[REFUSED]) | "all refused" >> beam.Flatten()
        _ = refused | "note refused" >> beam.Map(note_refused, str(self.folder))
        slotted = assigned.events | "slots" >> IntoPanes(calendar.slot_s, calendar.slots[0].start_s)
        count = beam.ParDo(Count(str(self.folder))).with_output_types(tuple[int, int])
        counted = slotted | "by vehicle" >> beam.GroupByKey() | "count" >> count
        _ = counted | "by slot" >> beam.GroupByKey() | "write" >> beam.Map(write, str(self.folder))


class Count(beam.DoFn):
    def __init__(self, folder):
        self.folder = folder

    def process(self, group) -> Iterable[tuple[int, int]]:
        from transforms.wire import unpack_events

        armed = Path(self.folder, ARM)
        if armed.exists():
            armed.unlink()
            raise RuntimeError("as planned")
        ((slot_s, _), _), parts = group
        yield slot_s, len(unpack_events(parts).vehicle)


def note_refused(refused, folder):
    with database(folder) as db:
        db.execute("insert into refused values (?, ?, ?)", tuple(refused))


def write(group, folder):
    slot_s, counts = group
    total = sum(counts)
    with database(folder) as db:
        db.execute("insert into attempts values (?, ?)", (slot_s, total))
        db.execute("insert or ignore into slots values (?, ?)", (slot_s, total))


def database(folder):
    db = sqlite3.connect(os.path.join(folder, "out.db"), timeout=300)
    db.execute("create table if not exists slots (slot integer primary key, total integer)")
    db.execute("create table if not exists attempts (slot integer, total integer)")
    db.execute("create table if not exists refused (stage text, reason text, rows integer)")
    return db


def totals(folder, table="slots"):
    with database(folder) as db:
        return dict(db.execute(f"select slot, total from {table}"))
