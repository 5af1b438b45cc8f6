"""What a message costs from Kafka to the rows of its slot, in µs of CPU: step by step, and beside it the local job.

    .venv/bin/python -m benchmarks.stream_cost                 # steps by hand, on a broker alone: two minutes
    .venv/bin/python -m benchmarks.stream_cost --live 10       # and the whole stream on Flink for so many minutes
    .venv/bin/python -m benchmarks.stream_cost --live 15 --live-slots   # that of live slots, which are of 15 minutes

By hand every step of the pipeline is called as an engine calls it, on what a partition of four brings in a second at
about 10,000 messages a second, for a slot of a minute, once for HATs and once for live slots. What the stream takes
more than that is the engine's: Beam's harness in the Python worker, and Java.
"""

import io
import json
import os
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import h3
import psutil
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import transforms.silence_beam  # noqa: F401  # isort: skip

from benchmarks.processes import cpu_s
from benchmarks.sustained import Feed, kind_of, loop, produce, stream
from hatstream_lab.demo.feeder import SETTINGS
from hatstream_lab.demo.stream_demo import PARTITIONS, TOPIC, set_up, specification
from hatstream_lab.made_up_fleet import MadeUpFleet
from hatstream_lab.servers.kafka import Kafka
from pipelines.account import location
from pipelines.build import PANE_S
from pipelines.cli import main
from pipelines.job import NOWHERE
from pipelines.runs.flink.rest import Cluster
from pipelines.runs.stream import stream as streaming
from pipelines.specification import Specification, load
from transforms.layouts.base import RawBatch
from transforms.records import KeyedTally, Messages, TallyBytes
from transforms.releases.base import ReleaseKind
from transforms.sources.kafka import decode
from transforms.sources.kafka_partition import Partition, starts
from transforms.sources.topic import Topic
from transforms.steps.count import ByVehicle, InPanes
from transforms.steps.lateness import InTime, RefuseLate
from transforms.steps.observe import Assign, Parse
from transforms.steps.release import ByHexagon, Estimate, Record, _Estimate

CONSOLE = Console(width=110)
KINDS = {"Python worker": "forkserver", "Flink": "job-server.jar", "Kafka": "kafka.Kafka", "PostgreSQL": "postgres"}
THREADS = {
    "compiler": ("C1 Comp", "C2 Comp"),
    "garbage collector": ("VM Thread", "GC "),
    "data and control of workers": ("grpc-",),
    "metrics, heartbeats, clocks": ("flink-", "VM Periodic", "New I/O", "Hashed wheel", "pekko"),
}
"""What names of Java's threads begin with; all others are sources, steps, group-bys and checkpoints."""
WARM_UP_S = 180


class Steps:
    """CPU seconds by step. `poll` has what Kafka's own threads take meanwhile."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._began = time.process_time()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.spent[name] += time.thread_time() - began

    def end(self) -> None:
        self.spent["poll"] = time.process_time() - self._began - sum(self.spent.values()) + self.spent["poll"]


def live_of(folder: Path) -> Specification:
    """The same city under secret counts: live slots, and whole days."""
    centre = h3.latlng_to_cell(*MadeUpFleet().centre, 7)
    text = (
        (folder / "stream-demo.toml")
        .read_text()
        .replace('"counts-public"', '"add-remove"')
        .replace("limit = 100000.0", "limit = 2.64")
        .replace('region = "occupied"', f"region = {json.dumps(sorted(h3.grid_disk(centre, 5)))}")
        .replace("epsilon = 1.0", "epsilon = 2.64")
        .replace('per = "hat"', 'per = "period"\nscope = "period"')
        .replace('"array-average"', '"levels"')
        .replace("minutes = 1\n", "minutes = 15\n")
    )
    path = folder / "live.toml"
    path.write_text(f"{text}\n[live]\nshare = 0.5\nday_lateness_s = 600\n")
    return load(path)


def main_output(outputs: Iterable[Any] | None) -> list[Any]:
    return [output for output in outputs or () if not isinstance(output, TaggedOutput)]


def by_hand(spec: Specification, place: location.AccountLocation, topic: Topic, start_s: int, rate: int) -> Steps:
    """Takes all messages of the topic to the rows of their slot. rate: so many come in a second."""
    source = streaming.kafka_source(spec, topic, start_s)
    made = streaming.prepare(spec, start_s, source, place, replace(NOWHERE, formats=()))
    job, later = made.job, made.later
    length_s = job.slot_s if job.release.keeps_late else PANE_S
    parse, late = Parse(job.rules), RefuseLate(length_s, later.more_s if later else 0)
    assign, in_time = Assign(job.ground, job.vehicle_shards, PANE_S), InTime(PANE_S)
    promised, steps, panes = Timestamp(start_s), Steps(), defaultdict(list)

    def taken(batch: RawBatch) -> None:
        with steps.of("parse"):
            observations = main_output(parse.check(batch))
        with steps.of("lateness"):
            timely = [output for element in observations for output in main_output(late.compare(element, promised))]
        with steps.of("cells, packed"):
            packed = [output for element in timely for output in main_output(assign.pack(element))]
        with steps.of("lateness"):
            for element in packed:
                for output in main_output(in_time.compare(element, promised)):
                    panes[output.key, output.pane_s].append(output.data)

    for start in starts(topic):
        partition, position, ended = Partition(topic, start.partition, start.partitions), start.offset, 0
        while ended < 20:
            with steps.of("poll"):
                poll = partition.poll(position, rate // PARTITIONS)
            ended = 0 if poll.payloads else ended + 1
            position = poll.position
            with steps.of("decode"):
                batches = main_output(decode(Messages(poll.payloads, poll.timestamps_ms), source.layout))
            for batch in batches:
                taken(batch)
        partition.close()
    for release in [job.release, *([later.release] if later else [])]:
        tallies = _tallied(steps, release, panes)
        if not release.in_order:
            _released(steps, release, job, tallies)
    steps.end()
    return steps


def _tallied(steps: Steps, release: ReleaseKind, panes: dict[Any, list[bytes]]) -> list[KeyedTally]:
    slots: dict[Any, list[bytes]] = defaultdict(list)
    in_panes = InPanes(release)
    with steps.of("panes"):
        for key, parts in panes.items():
            slot, partial = in_panes.tally((key, parts))
            slots[slot].append(partial)
    merge = ByVehicle(release, in_panes=True)
    with steps.of("slots"):
        return [tally for group in slots.items() for tally in merge.tally(group)]


def _released(steps: Steps, release: ReleaseKind, job: Any, tallies: list[KeyedTally]) -> None:
    groups: dict[Any, list[bytes]] = defaultdict(lambda: [TallyBytes(b"")])
    for key, data in tallies:
        groups[key].append(data)
    draw, record = ByHexagon(release, job.transaction, job.account), Record(job.account)
    estimate = _Estimate(Estimate(release, job.account))
    estimate.setup()
    with steps.of("drawn, recorded, estimated"):
        units: dict[str, list[bytes]] = defaultdict(list)
        for group in groups.items():
            for key, unit in main_output(draw.seal(group)):
                units[key].append(unit)
        for group in units.items():
            for slot in record.record(group):
                for _ in estimate.process(slot):
                    pass


def fill(topic: Topic, archive: Path, start_s: int, vehicles: int, seconds: int) -> int:
    """The messages of some seconds of a minute in the topic and in a file; how many."""
    sent_s, at_s, bodies = loop(vehicles)
    at_s, bodies = at_s[: (rows := int((sent_s < seconds).sum()))], bodies[:rows]
    producer = Producer({**SETTINGS, "bootstrap.servers": topic.brokers})
    with archive.open("wb") as file:
        for event_s, body in zip(at_s, bodies, strict=True):
            payload = b'{"ts":%d,%b' % (0 if event_s != event_s else round(1_000 * (start_s + event_s)), body)
            produce(producer, topic.name, payload, 1_000 * start_s)
            file.write(payload + b"\n")
            producer.poll(0)
    producer.flush()
    return len(bodies)


def stamped_by_broker(beside: Topic) -> Topic:
    """Makes another topic at the same brokers, such as secret counts need."""
    made = NewTopic("live", PARTITIONS, 1, config={"message.timestamp.type": "LogAppendTime"})
    client = AdminClient({"bootstrap.servers": beside.brokers})
    for done in client.create_topics([made]).values():
        done.result(60)
    return replace(beside, name=made.topic)


def opened(spec: Specification, folder: Path, name: str) -> location.AccountLocation:
    place = location.find(f"sqlite:///{folder / name}.sqlite", folder / f"{name}.key")
    location.open_account(place, spec.account)
    return place


def here(spec: Specification, path: Path, place: location.AccountLocation, archive: Path, start_s: int) -> float:
    """CPU seconds of the local job over the same messages."""
    day = datetime.fromtimestamp(start_s, UTC).date().isoformat()
    edges = spec.timetable.text(start_s), spec.timetable.text(start_s + spec.timetable.slot_s)
    if spec.has_live:
        edges = day, day
    before = cpu_s(os.getpid())
    with redirect_stdout(io.StringIO()):
        code = main([
            "release", "--spec", str(path), "--ledger", place.url, "--key", str(place.key), "--input", str(archive),
            "--from", edges[0], "--to", edges[1], "--output", str(archive.with_name("out")), "--formats", "parquet",
            "--json",
        ])  # fmt: skip
    assert code in (0, 4)
    return cpu_s(os.getpid()) - before


@click.command()
@click.option("--vehicles", type=click.IntRange(min=1), default=1_200, show_default=True)
@click.option("--seconds", type=click.IntRange(1, 60), default=60, show_default=True, help="Of the minute, by hand.")
@click.option("--live", "minutes", type=int, default=0, show_default=True, help="Minutes of the whole stream on Flink.")
@click.option("--live-slots", is_flag=True, help="With --live: of live slots.")
def cost(vehicles: int, seconds: int, minutes: int, *, live_slots: bool) -> None:
    """Prints what a message costs, by step and by process."""
    start_s = int(time.time()) // 86_400 * 86_400 - 86_400 + 12 * 3_600
    table = Table(title="µs of CPU a message, step by step", title_justify="left")
    for name in ("", "HATs", "live slots and days"):
        table.add_column(name, justify="left" if not name else "right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        kafka = stack.enter_context(Kafka(folder / "kafka"))
        kafka.make_topic(TOPIC, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        topic = Topic(brokers=kafka.brokers, name=TOPIC)
        rows = fill(topic, folder / "feed.jsonl", start_s, vehicles, seconds)
        CONSOLE.print(f"{rows:,} messages of {seconds} s")
        hats = specification(folder)
        costs = []
        for spec, path in ((hats, "stream-demo.toml"), (live_of(folder), "live.toml")):
            at_s = start_s // spec.timetable.slot_s * spec.timetable.slot_s
            steps = by_hand(spec, opened(spec, folder, f"{spec.spec_id}-stream"), topic, at_s, rows // seconds)
            local = here(spec, folder / path, opened(spec, folder, spec.spec_id), folder / "feed.jsonl", at_s)
            costs.append((steps.spent, local))
    for name in dict.fromkeys(name for spent, _ in costs for name in ("poll", *spent)):
        table.add_row(name, *(f"{spent.get(name, 0) / rows * 1e6:.2f}" for spent, _ in costs))
    table.add_row("in sum", *(f"{sum(spent.values()) / rows * 1e6:.2f}" for spent, _ in costs))
    table.add_row("the local job, of the same messages", *(f"{local / rows * 1e6:.2f}" for _, local in costs))
    CONSOLE.print(table)
    if minutes:
        whole(vehicles, minutes, live_slots=live_slots)


class Spent:
    """CPU seconds by the kind of process, and Java's by the kind of thread, of all that this process started."""

    def __init__(self) -> None:
        self.kinds, self.threads = Counter[str](), Counter[str]()
        for process in psutil.Process().children(recursive=True):
            try:
                name, times = kind_of(process, KINDS), process.cpu_times()
                if name == "Flink":
                    self._count_threads(process.pid)
            except (psutil.Error, OSError):
                continue
            if name:
                self.kinds[name] += times.user + times.system

    def _count_threads(self, pid: int) -> None:
        ticks = os.sysconf("SC_CLK_TCK")
        for path in Path(f"/proc/{pid}/task").glob("*/stat"):
            head, _, rest = path.read_text().rpartition(")")
            thread = head.partition("(")[2]
            kind = next((kind for kind, begins in THREADS.items() if thread.startswith(begins)), "sources and steps")
            self.threads[kind] += sum(map(int, rest.split()[11:13])) / ticks


def whole(vehicles: int, minutes: int, *, live_slots: bool) -> None:
    """The whole stream at its rate; what each process takes a message after the first minutes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        spec, place, topic, engine = set_up(stack, folder, 1)
        if live_slots:
            spec = live_of(folder)
            place = opened(spec, folder, "live")
            topic = stamped_by_broker(topic)
        start_s = streaming.first_slot(spec, None, datetime.fromtimestamp(time.time() + 60, UTC))
        to_s = start_s + 60 * minutes
        feed = Feed(topic, vehicles, start_s - 30, to_s + 60, to_s + 600, folder / "feed.jsonl")
        feeding = get_context("spawn").Process(target=feed.run)
        feeding.start()
        stack.callback(feeding.terminate)
        seen: list[tuple[int, Spent]] = []

        def look() -> None:
            cluster = Cluster(engine.rest)
            rows = sum(cluster.counters(job.jid).get("rows", 0) for job in cluster.jobs()[-1:])
            seen.append((rows, Spent()))

        first = threading.Timer(start_s + WARM_UP_S - time.time(), look)
        last = threading.Timer(to_s - 5 - time.time(), look)
        for timer in (first, last):
            timer.daemon = True
            timer.start()
        stream(spec, start_s, to_s, topic, place, engine)
        for timer in (first, last):
            timer.join()
    (before, early), (after, late) = seen
    if after == before:
        CONSOLE.print("no message came through meanwhile: this machine has no time for a stream now")
        return
    table = Table(title=f"{after - before:,} messages through the whole stream", title_justify="left")
    table.add_column("process")
    table.add_column("µs of CPU a message", justify="right")
    for counts, more in ((late.kinds - early.kinds, ""), (late.threads - early.threads, "Flink: ")):
        for name, spent in counts.most_common():
            table.add_row(f"{more}{name}", f"{spent / (after - before) * 1e6:.1f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    cost()
