"""Topics of positions: partitions that are read by hand, and hours of them for a tiny pipeline on Flink."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from confluent_kafka import Producer

from pipelines.runs.flink.engine import Flink, FlinkJob
from tests.stream.by_hand import ByHand
from tests.stream.cluster import has_ended, wait_for
from tests.transforms.inputs import mapped, rules, slots
from transforms.layouts import Units
from transforms.places.ground import Hexagons
from transforms.records import REFUSED
from transforms.sources.kafka import ReadKafka, _Offsets, _ReadPartition
from transforms.sources.kafka_partition import starts
from transforms.sources.topic import Topic
from transforms.steps.observe import Assign, IntoPanes, Parse, RefuseLate
from transforms.time.watermark import Watermark

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


LAG_S = 5
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
YEAR_9999_MS = 253_402_300_799_000
_NUMBERS = count()


def producer_of(kafka):
    """Idempotent, for a retry would put a batch behind the next one, and the order of the topic decides lateness."""
    return Producer({"bootstrap.servers": kafka.brokers, "linger.ms": 5, "log_level": 2, "enable.idempotence": True})


class Feed:
    """A new topic, its producer, and its partitions' readers."""

    def __init__(self, kafka, partitions=1, settings=None):
        self.kafka, self.name = kafka, f"positions-{next(_NUMBERS)}"
        kafka.make_topic(self.name, partitions, {**ANY_TIME, **(settings or {})})
        self.topic = Topic(brokers=kafka.brokers, name=self.name)
        self.producer = producer_of(kafka)
        self.readers = []

    def send(self, payloads, partition=0, at_ms=None):
        for payload in payloads:
            times = {} if at_ms is None else {"timestamp": at_ms}
            self.producer.produce(self.name, payload, partition=partition, **times)
        assert self.producer.flush(300) == 0

    def reader(self, partition=0, most=1_000, *, by_own_times=False):
        fn = _ReadPartition(self.topic, Watermark(LAG_S, by_own_times=by_own_times), most)
        self.readers.append(ByHand(fn, _Offsets(), starts(self.topic)[partition]))
        return self.readers[-1]


DAYS = ("2023-11-15", "2023-11-16")
START_MS = 1_700_006_400_000  # 2023-11-15 UTC
HOUR_MS = 3_600_000
PARTITIONS = 3


class Fleet:
    """Sends positions of an hour after the other, as a replay of a day, and counts what it sent by slot."""

    def __init__(self, kafka, name):
        kafka.make_topic(name, PARTITIONS, ANY_TIME)
        self.topic = Topic(brokers=kafka.brokers, name=name)
        self._producer = producer_of(kafka)
        self.sent = Counter()

    def drive(self, hours, events=300):
        for hour in hours:
            slot_ms = START_MS + hour * HOUR_MS
            for i in range(events):
                at_ms = slot_ms + i * HOUR_MS // events
                self.send(position(at_ms, i), at_ms, i)
            self.sent[slot_ms // 1_000] += events
        assert self._producer.flush(300) == 0

    def source(self, poll_messages=20_000):
        """Few messages a poll make reading take several checkpoints."""
        return ReadKafka(self.topic, starts(self.topic), Watermark(0), LAYOUT, poll_messages)

    def send(self, payload, at_ms, i=0):
        self._producer.produce(self.topic.name, payload, partition=i % PARTITIONS, timestamp=at_ms)


def position(at_ms, i):
    row = {"vehicle": f"bus{i % 50}", "time": at_ms, "lat": 30.0, "lon": -97.5, "speed": i % 60}
    return json.dumps(row).encode()


@contextmanager
def running(tiny, flink, pool, **more):
    """Flink's id of the pipeline's job."""
    engine = Flink(job_server=flink.address, worker_pool=pool.address, rest=flink.rest, checkpoint_s=1.0, **more)
    p = beam.Pipeline(options=PipelineOptions(engine.options))
    tiny.build(p)
    before = {job.jid for job in flink.jobs()}
    p.run()
    job = wait_for(lambda: next((job for job in flink.jobs() if job.jid not in before), None), 60)
    try:
        yield job.jid
    finally:
        if not has_ended(flink, job.jid):
            FlinkJob(flink, job.jid).cancel()
