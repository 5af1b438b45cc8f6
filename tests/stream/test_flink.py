"""The Kafka source on a real Flink: every slot's total is exact, also when a stage fails on the way."""

import json
import os
import time
from collections import Counter
from contextlib import contextmanager

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from confluent_kafka import Producer

from pipelines.demo.servers.flink import JobServer, options
from pipelines.demo.servers.standalone import Standalone
from tests.stream.conftest import CONFIGURATION, QUICK, fetched
from tests.stream.test_kafka_source import ANY_TIME, YEAR_9999_MS
from tests.stream.tiny import ARM, LAYOUT, Tiny, database, totals
from transforms.sources.growing_folder import ReadGrowing
from transforms.sources.kafka import ReadKafka
from transforms.sources.kafka_partition import Topic, starts
from transforms.time.watermark import Watermark

DAYS = ("2023-11-15", "2023-11-16")
START_MS = 1_700_006_400_000  # 2023-11-15 UTC
HOUR_MS = 3_600_000
PARTITIONS = 3


@pytest.fixture
def standalone(tmp_path):
    """The job server of a cluster of its own: a cluster inside of a job server passes over savepoints."""
    fetched("flink")
    with (
        Standalone(tmp_path / "cluster", CONFIGURATION, QUICK) as cluster,
        JobServer(tmp_path / "job-server", cluster=cluster) as running,
    ):
        yield running


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

    def drive(self, hours, each=300):
        for hour in hours:
            slot_ms = START_MS + hour * HOUR_MS
            for i in range(each):
                at_ms = slot_ms + i * HOUR_MS // each
                self.send(position(at_ms, i), at_ms, i)
            self.sent[slot_ms // 1_000] += each
        assert self._producer.flush(30) == 0

    def source(self, poll_messages=20_000):
        """Few messages a poll make reading take several checkpoints."""
        return ReadKafka(self.topic, starts(self.topic), Watermark(0), LAYOUT, poll_messages)

    def send(self, payload, at_ms, i=0):
        self._producer.produce(self.topic.name, payload, partition=i % PARTITIONS, timestamp=at_ms)


def position(at_ms, i):
    row = {"vehicle": f"bus{i % 50}", "time": at_ms, "lat": 30.0, "lon": -97.5, "speed": i % 60}
    return json.dumps(row).encode()


@contextmanager
def running(tiny, flink, pool, savepoint=None, **more):
    chosen = options(flink.address, pool.address, checkpoint_s=1.0, **more)
    chosen += [f"--savepoint_path={savepoint}"] if savepoint else []
    p = beam.Pipeline(options=PipelineOptions(chosen))
    tiny.build(p)
    before = {job["jid"] for job in flink.jobs()}
    p.run()
    job = wait_for(lambda: next((job for job in flink.jobs() if job["jid"] not in before), None), 60)
    try:
        yield job["jid"]
    finally:
        if flink.is_running(job["jid"]):
            flink.cancel(job["jid"])


def wait_for(look, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"nothing after {seconds} s")


def test_totals_are_exact_after_a_stage_failed_and_poison_and_absurd_times_change_nothing(kafka, flink, pool, tmp_path):
    """30 s."""
    fleet = Fleet(kafka, "exact")
    fleet.drive(range(8))
    fleet.send(b"\xff is no UTF-8", START_MS + 8 * HOUR_MS)
    fleet.send(b"{}", YEAR_9999_MS)
    fleet.drive(range(8, 24))
    with running(Tiny(fleet.source(100), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 3, 60)
        (tmp_path / ARM).touch()
        wait_for(lambda: len(totals(tmp_path)) == 24, 60)
        assert flink.has_restarted(job)
    assert totals(tmp_path) == fleet.sent
    assert not (tmp_path / ARM).exists()
    with database(tmp_path) as db:
        reasons = {(stage, reason) for stage, reason, _ in db.execute("select * from refused")}
    assert reasons == {("read", "not-utf8"), ("parse", "missing-vehicle")}


@pytest.mark.slow
def test_an_event_whose_slot_its_partition_has_closed_is_a_late_dead_letter(kafka, flink, pool, tmp_path):
    """20 s."""
    fleet = Fleet(kafka, "late")
    fleet.drive(range(4))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool, parallelism=2):
        wait_for(lambda: len(totals(tmp_path)) == 4, 60)  # idle: the wall clock closed all slots of 2023
        fleet.drive(range(3, 5), each=90)

        def late():
            with database(tmp_path) as db:
                return db.execute("select sum(rows) from refused where reason = 'late'").fetchone()[0]

        wait_for(lambda: late() == 180, 30)
    assert totals(tmp_path) == totals(tmp_path, "attempts")  # one pane each
    assert set(totals(tmp_path).values()) == {300}


@pytest.mark.slow
def test_a_job_that_goes_on_from_a_savepoint_counts_every_message_once(kafka, standalone, pool, tmp_path):
    """60 s."""
    flink = standalone
    fleet = Fleet(kafka, "savepoint")
    fleet.drive(range(24))
    with running(Tiny(fleet.source(50), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 5, 60)
        place = flink.savepoint_and_cancel(job)
    before = len(totals(tmp_path))
    assert before < 24
    with running(Tiny(fleet.source(50), tmp_path, DAYS), flink, pool, savepoint=place) as job:
        wait_for(lambda: len(totals(tmp_path)) == 24, 60)
        assert flink.has_gone_on(job)
    assert totals(tmp_path) == fleet.sent


@pytest.mark.slow
def test_a_folder_that_grows_is_read_once_also_after_a_stage_failed(flink, pool, tmp_path):
    """30 s."""
    folder, sent = tmp_path / "in", {}
    folder.mkdir()

    def add(hour):
        times = [START_MS + hour * HOUR_MS + i * 1_000 for i in range(100)]
        part = folder / f".{hour:02d}.jsonl"
        part.write_bytes(b"\n".join(position(at_ms, i) for i, at_ms in enumerate(times)))
        os.utime(part, (times[-1] // 1_000, times[-1] // 1_000))
        part.rename(folder / f"{hour:02d}.jsonl")
        sent[times[0] // 1_000] = 100

    for hour in range(18):
        add(hour)
    with running(Tiny(ReadGrowing(folder, Watermark(0), LAYOUT), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 1, 60)
        (tmp_path / ARM).touch()
        wait_for(lambda: len(totals(tmp_path)) == 18, 60)
        assert (tmp_path / ARM).exists() or flink.has_restarted(job)
    assert totals(tmp_path) == sent


@pytest.mark.slow
def test_the_checkpoints_of_a_source_that_polls_on_stay_level(kafka, flink, pool, tmp_path):
    """30 s: about 15 polls of each partition, which would add 5 kB each."""
    fleet = Fleet(kafka, "level")
    fleet.drive(range(2))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) == 2, 60)
        time.sleep(3)
        before = wait_for(lambda: flink.checkpoint_bytes(job), 10)
        time.sleep(15)
        assert flink.checkpoint_bytes(job) < before + 20_000
