"""Guards messages a second through the Kafka source, on a real broker and a real Flink on this machine.

    python -m benchmarks.stream

Two runs, at parallelism 1 and 2: JSON messages of four partitions are polled, decoded and counted; nothing else.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from confluent_kafka import Producer

from hatstream_lab.servers.flink import JobServer, WorkerPool
from hatstream_lab.servers.kafka import Kafka
from pipelines.runs.flink.engine import Cluster, Flink
from transforms.layouts import layout, message_layout
from transforms.layouts.base import FIELDS, RawBatch
from transforms.sources.kafka import ReadKafka
from transforms.sources.kafka_partition import starts
from transforms.sources.topic import Topic
from transforms.time.watermark import Watermark

MESSAGES = 2_000_000
PARTITIONS = 4


class Note(beam.DoFn):
    """Appends when how many rows arrived: nothing that a group-by would hold back."""

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, batch: RawBatch) -> None:
        with open(self._path, "a") as file:
            file.write(f"{time.time()} {batch.rows}\n")


def fill(topic: Topic) -> None:
    settings = {"linger.ms": 50, "queue.buffering.max.messages": 500_000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": topic.brokers, **settings})
    place = {"lat": 30.25, "lon": -97.74}
    for i in range(MESSAGES):
        row = {"vehicle": f"bus{i % 500}", "time": 1_700_006_400 + i // 500, **place, "speed": i % 60}
        producer.produce(topic.name, json.dumps(row).encode(), partition=i % PARTITIONS)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def rate(topic: Topic, flink: JobServer, pool: WorkerPool, parallelism: int, folder: Path) -> float:
    """Messages a second from the end of the first batch to the end of the last."""
    path = folder / f"rows-{parallelism}-{time.time_ns()}"
    path.touch()
    engine = Flink(job_server=flink.address, worker_pool=pool.address, rest=flink.rest, parallelism=parallelism)
    p = beam.Pipeline(options=PipelineOptions(engine.options))
    columns = {name: name for name in FIELDS}
    decode = message_layout("jsonl", layout("jsonl", columns, "s", None))
    read = p | ReadKafka(topic, starts(topic), Watermark(120), decode)
    _ = read.batches | beam.ParDo(Note(str(path)))
    p.run()
    while sum(rows for _, rows in noted(path)) < MESSAGES:
        time.sleep(0.5)
    cluster = Cluster(flink.rest)
    for job in cluster.jobs():
        if job.state == "RUNNING":
            cluster.cancel(job.jid)
    notes = list(noted(path))
    return (MESSAGES - notes[0][1]) / (notes[-1][0] - notes[0][0])


def noted(path: Path) -> Iterator[tuple[float, int]]:
    for line in path.read_text().splitlines():
        time_s, rows = line.split()
        yield float(time_s), int(rows)


def main() -> None:
    logging.getLogger().setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="hatstream-"))
    with Kafka(folder / "kafka") as kafka, JobServer(folder / "flink") as flink, WorkerPool(folder / "pool") as pool:
        kafka.make_topic("positions", PARTITIONS)
        topic = Topic(brokers=kafka.brokers, name="positions")
        fill(topic)
        for parallelism in (1, 1, 2, 2):
            per_s = rate(topic, flink, pool, parallelism, folder)
            sys.stdout.write(f"parallelism {parallelism}: {per_s:,.0f} messages/s\n")
            sys.stdout.flush()
    shutil.rmtree(folder)
    os._exit(0)  # Beam keeps threads that wait for a job that was cancelled behind its back


if __name__ == "__main__":
    main()
