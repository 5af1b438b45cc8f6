"""Positions of one hour after the other in Kafka, and a small pipeline over them on Flink."""

import json
from collections import Counter
from contextlib import contextmanager

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from confluent_kafka import Producer

from pipelines.runs.flink.engine import Flink, FlinkJob
from tests.stream.cluster import has_ended, wait_for
from tests.stream.feed import ANY_TIME
from tests.stream.tiny import LAYOUT
from transforms.sources.kafka import ReadKafka
from transforms.sources.kafka_partition import starts
from transforms.sources.topic import Topic
from transforms.time.watermark import Watermark

DAYS = ("2023-11-15", "2023-11-16")
START_MS = 1_700_006_400_000  # 2023-11-15 UTC
HOUR_MS = 3_600_000
PARTITIONS = 3


class Fleet:
    """Sends positions of an hour after the other, as a replay of a day, and counts what it sent by slot."""

    def __init__(self, kafka, name):
        kafka.make_topic(name, PARTITIONS, ANY_TIME)
        self.topic = Topic(brokers=kafka.brokers, name=name)
        # Idempotent, for a retry would put a batch behind the next one, and the order of the topic decides lateness.
        self._producer = Producer(
            {"bootstrap.servers": kafka.brokers, "linger.ms": 5, "log_level": 2, "enable.idempotence": True}
        )
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
