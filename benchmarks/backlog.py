"""Messages a second that the stream works off, with one task manager and with two: a backlog of some minutes.

    .venv/bin/python -m benchmarks.backlog              # some minutes where two cores do nothing else

Everything is on this machine: Kafka with four partitions, a job manager, task managers of one slot each, a worker pool
that starts a Python worker for each of them, the ledger on PostgreSQL. The rate is taken from where Flink says that the
job runs to the commit of the last slot's entry, as PostgreSQL dates it; CPU seconds are of the same time.
"""

import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import psutil
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import transforms.silence_beam  # noqa: F401  # isort: skip

from benchmarks.cluster import SETTINGS as CLUSTER
from benchmarks.sustained import digests, kind_of, loop, produce, recorded
from hatstream_lab.demo.feeder import SETTINGS
from hatstream_lab.demo.stream_demo import PARTITIONS, TOPIC, specification
from hatstream_lab.servers.flink import JobServer
from hatstream_lab.servers.kafka import Kafka
from hatstream_lab.servers.postgres import postgres_server
from hatstream_lab.servers.worker_pool import WorkerPool
from pipelines.account import location
from pipelines.job import Outputs
from pipelines.runs.flink.engine import Flink
from pipelines.runs.flink.rest import Cluster
from pipelines.runs.stream import stream as streaming
from pipelines.specification import Specification
from tests.stream.conftest import CONFIGURATION
from tests.stream.standalone import Standalone
from transforms.public import Summary
from transforms.sources.topic import Topic

CONSOLE = Console(width=120)
MOST_S = 900
KINDS = {
    "Python workers": "forkserver",
    "task managers": "TaskManagerRunner",
    "job manager": "StandaloneSession",
    "Kafka": "kafka.Kafka",
    "PostgreSQL": "postgres",
}
WATCH_S = 0.2


def fill(topic: Topic, start_s: int, slots: int, vehicles: int) -> int:
    """Sends a minute for each slot, one before and one after, with a live feed's timestamps; how many a slot has."""
    sent_s, at_s, bodies = loop(vehicles)
    producer = Producer({**SETTINGS, "bootstrap.servers": topic.brokers})
    for base_s in range(start_s - 60, start_s + 60 * (slots + 1), 60):
        for sent, event_s, body in zip(sent_s.tolist(), at_s, bodies, strict=True):
            at_ms = 0 if event_s != event_s else round(1_000 * (base_s + event_s))
            produce(producer, topic.name, b'{"ts":%d,%b' % (at_ms, body), round(1_000 * (base_s + sent)))
        producer.poll(0)
    producer.flush()
    return len(bodies)


def spent() -> dict[str, float]:
    """CPU seconds by the kind of process, of all that this one started."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for process in psutil.Process().children(recursive=True):
        try:
            name, times = kind_of(process, KINDS), process.cpu_times()
        except psutil.Error:
            continue
        if name:
            seconds[name] += times.user + times.system
    return seconds


class Watch(threading.Thread):
    """What was spent, every WATCH_S seconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, dict[str, float]]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(WATCH_S):
            self.seen.append((time.time(), spent()))

    def between(self, from_s: float, to_s: float) -> dict[str, float]:
        first, last = (min(self.seen, key=lambda seen: abs(seen[0] - time_s))[1] for time_s in (from_s, to_s))
        return {name: last[name] - first[name] for name in KINDS}


def work_off(
    spec: Specification, place: location.AccountLocation, topic: Topic, engine: Flink, start_s: int, slots: int
) -> tuple[float, dict[str, float]]:
    """Seconds from the job's start to the last slot's commit, and what was spent meanwhile."""
    source = streaming.kafka_source(spec, topic, start_s)
    folder = Path("build/backlog") / f"{engine.parallelism}-{time.time_ns()}"
    made = streaming.prepare(spec, start_s, source, place, Outputs(folder, ("parquet",)))
    stop = threading.Event()
    last = spec.timetable.text(start_s + 60 * (slots - 1))

    def say(line: Summary) -> None:
        if line.public.get("slot") == last:
            stop.set()

    too_late = threading.Timer(MOST_S, stop.set)
    too_late.start()
    watch = Watch()
    watch.start()
    streaming.run(spec, made, place, engine, stop, say)
    watch.ended.set()
    too_late.cancel()
    last_slot_s = start_s + 60 * (slots - 1)
    last_s = recorded(place.url, spec)[last_slot_s][0] + last_slot_s + 60 + spec.input.allowed_lateness_s
    cluster = Cluster(engine.rest)
    running_s = cluster.ask(f"/jobs/{cluster.jobs()[-1].jid}")["timestamps"]["RUNNING"] / 1_000
    return last_s - running_s, watch.between(running_s, last_s)


@click.command()
@click.option("--slots", type=click.IntRange(min=2), default=12, show_default=True, help="Of a minute each.")
@click.option("--vehicles", type=click.IntRange(min=1), default=1_200, show_default=True)
@click.option("--task-managers", default="1,2,1,2", show_default=True, help="One run for each number.")
def backlog(slots: int, vehicles: int, task_managers: str) -> None:
    """Send some minutes of messages, then let the stream work them off, again and again."""
    table = Table(title=f"{slots} slots of a minute from Kafka to PostgreSQL", title_justify="left")
    for name in ("task managers", "messages", "s", "messages/s", *(f"CPU s: {kind}" for kind in KINDS), "digests"):
        table.add_column(name, justify="right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        postgres = stack.enter_context(postgres_server())
        kafka = stack.enter_context(Kafka(folder / "kafka"))
        kafka.make_topic(TOPIC, PARTITIONS)
        topic = Topic(brokers=kafka.brokers, name=TOPIC)
        spec = specification(folder)
        start_s = int(time.time()) // 60 * 60 - 60 * (slots + 3)
        a_slot = fill(topic, start_s, slots, vehicles)
        CONSOLE.print(f"{a_slot * (slots + 2):,} messages are sent")
        first: dict[Any, str] = {}
        for run, number in enumerate(map(int, task_managers.split(","))):
            place = location.find(postgres.new_database(), folder / f"run-{run}.key")
            if run:
                shutil.copy(folder / "run-0.key", place.key)
                place.key.with_name(f"{place.key.name}.head").write_text("{}")
            location.open_account(place, spec.account)
            with ExitStack() as servers:
                run_folder = folder / f"run-{run}"
                cluster = servers.enter_context(
                    Standalone(run_folder / "flink", CONFIGURATION, CLUSTER, task_managers=number)
                )
                flink = servers.enter_context(JobServer(run_folder / "job-server", cluster=cluster))
                pool = servers.enter_context(WorkerPool(run_folder / "pool"))
                engine = Flink(
                    job_server=flink.address, worker_pool=pool.address, rest=cluster.rest, parallelism=number
                )
                took_s, cpu_s = work_off(spec, place, topic, engine, start_s, slots)
            record = {key: digest for key, digest in digests(place, spec).items() if key[0] < start_s + 60 * slots}
            first = first or record
            messages = a_slot * (slots + 2)
            figures = (f"{cpu_s[kind]:.1f}" for kind in KINDS)
            agree = "equal" if record == first and len(record) >= slots else "DIFFER"
            table.add_row(str(number), f"{messages:,}", f"{took_s:.1f}", f"{messages / took_s:,.0f}", *figures, agree)
            CONSOLE.print(table)
    if "DIFFER" in str(list(table.columns[-1].cells)):
        raise click.ClickException("the digests differ")


if __name__ == "__main__":
    backlog()
