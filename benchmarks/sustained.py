"""Guards a steady stream and a burst: seconds from a slot's end to its rows in PostgreSQL, memory, losses.

    .venv/bin/python -m benchmarks.sustained --minutes 5      # 10 minutes in all; writes build/sustained
    .venv/bin/python -m benchmarks.sustained --minutes 45 --slot-minutes 15 --no-burst
    .venv/bin/python -m benchmarks.sustained --minutes 60 --slot-minutes 60 --no-burst --behind-minutes 58

Everything is on this machine: a feeder, Kafka with four partitions, Flink, the ledger on PostgreSQL.
When a row came is PostgreSQL's own commit timestamp. Nothing is lost if every slot has the input digest of a
scheduled job over the same messages.
"""

import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import psutil
import psycopg
from confluent_kafka import Producer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import transforms.silence_beam  # noqa: F401  # isort: skip

from hatstream_lab.demo.stream_demo import DELAY_S, PARTITIONS, SETTINGS, TOPIC, ZONE, replay, write_specification
from hatstream_lab.evaluation.experiment import save_picture
from hatstream_lab.made_up_fleet import MadeUpFleet
from hatstream_lab.servers.flink import local_servers
from hatstream_lab.servers.kafka import Kafka
from hatstream_lab.servers.postgres import postgres_server
from pipelines.account import location
from pipelines.cli import main
from pipelines.job import Outputs
from pipelines.runs.flink.engine import Cluster, Flink
from pipelines.runs.stream import stream as streaming
from pipelines.specification import Specification, load
from transforms.public import Summary
from transforms.sources.topic import Topic

CONSOLE = Console()
FOLDER = Path("build/sustained")
LOOP_S = 60
"""The feed is the same minute again and again: 200 minutes of a fleet, from an hour on when all are out."""
FIRST_HOUR = 8
STARTING_S = 60
CALM_SLOTS = 2
"""After the burst."""
BURST_AT_S, BURST_S, BURST_TIMES = 45, 10, 10
TICK_S = 0.02
SAMPLE_EVERY_S = 2
LIVE_EVERY_S = 120
CATCH_UP_S = 600
WARM_UP_S = 120
KINDS = {"Python worker": "forkserver", "Flink": "job-server.jar", "Kafka": "kafka.Kafka"}
"""What their command lines hold; the fork server itself is none."""


@dataclass(frozen=True)
class Feed:
    """Sends the loop until `until_s`, with a burst from `burst_s` on; the archive takes what was sent. Unix seconds."""

    topic: Topic
    vehicles: int
    start_s: int
    until_s: int
    burst_s: int
    archive: Path

    def run(self) -> None:
        sent_s, at_s, bodies = loop(self.vehicles)
        producer = Producer({**SETTINGS, "bootstrap.servers": self.topic.brokers})
        sent: dict[int, int] = defaultdict(int)
        time.sleep(max(0, self.start_s - time.time()))
        is_behind = True  # what should have been sent before has the timestamps of then
        with self.archive.open("wb", buffering=1 << 20) as archive:
            for base_s in range(self.start_s, self.until_s, LOOP_S):
                done = 0
                while done < len(bodies):
                    now_s = time.time()
                    until = int(np.searchsorted(sent_s, now_s - base_s))
                    is_burst = self.burst_s <= now_s < self.burst_s + BURST_S
                    for extra_ms in range(BURST_TIMES if is_burst else 1):
                        for i in range(done, until):
                            at_ms = 0 if at_s[i] != at_s[i] else round(1_000 * (base_s + at_s[i])) + extra_ms
                            payload = b'{"ts":%d,%b' % (at_ms, bodies[i])
                            due_ms = round(1_000 * (base_s + sent_s[i]))
                            produce(producer, self.topic.name, payload, due_ms if is_behind else 0)
                            archive.write(payload + b"\n")
                        sent[int(now_s)] += until - done
                    is_behind &= until == len(bodies) or time.time() > now_s + 1
                    done = until
                    producer.poll(0)
                    time.sleep(TICK_S)
            producer.flush()
        self.archive.with_suffix(".sent").write_text(json.dumps(sent))


def loop(vehicles: int) -> tuple[Any, list[float], list[bytes]]:
    """When each report of a loop is sent, of when it speaks (NaN: of no time), and the rest of it, in order."""
    replayed = replay(MadeUpFleet(vehicles=vehicles), LOOP_S + DELAY_S, FIRST_HOUR)
    chosen = np.flatnonzero(~(replayed.at_s >= LOOP_S))
    turns = replayed.sent_s[chosen] // LOOP_S  # sent in the next loop
    sent_s, at_s = replayed.sent_s[chosen] - LOOP_S * turns, replayed.at_s[chosen] - LOOP_S * turns
    order = np.argsort(sent_s, kind="stable")
    encode = msgspec.json.Encoder().encode
    bodies = [encode(replayed.reports[i])[1:] for i in chosen[order].tolist()]
    return sent_s[order], at_s[order].tolist(), bodies


def produce(producer: Producer, topic: str, payload: bytes, sent_ms: int = 0) -> None:
    """sent_ms: the message's own timestamp; 0: now."""
    while True:
        try:
            producer.produce(topic, payload, timestamp=sent_ms)
        except BufferError:
            producer.poll(0.01)
        else:
            return


class Memory(threading.Thread):
    """Resident MB of each server of this process every SAMPLE_EVERY_S seconds: name -> [(Unix seconds, MB)].

    live: of the servers that are Java's, MB of the objects that are still of use, every LIVE_EVERY_S seconds.
    state: MB of Flink's last checkpoint.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.live: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.state: list[tuple[float, float]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        next_live_s = time.time()
        while not self.ended.wait(SAMPLE_EVERY_S):
            is_live_due = time.time() >= next_live_s
            next_live_s += LIVE_EVERY_S * is_live_due
            with suppress(OSError, TypeError, IndexError):  # before the first checkpoint
                path = f"/jobs/{self.cluster.jobs()[-1].jid}/checkpoints"
                self.state.append((time.time(), self.cluster.ask(path)["latest"]["completed"]["state_size"] / 2**20))
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    command = process.cmdline()
                    name = kind_of(process, KINDS)
                    if name:
                        self.samples[name].append((time.time(), process.memory_info().rss / 2**20))
                    if name and is_live_due and "java" in command[0]:
                        self.live[f"{name}: live objects"].append((time.time(), _live_mb(process.pid)))

    def by_slot(self, slots: Sequence[int], slot_s: int) -> Table:
        """The most of each while a slot was open."""
        table = Table(title="MB at most", title_justify="left")
        for name in ("slot", *self.samples, "Flink: checkpoint"):
            table.add_column(name, justify="right")
        for begin_s in slots:
            most = [
                max((mb for time_s, mb in samples if begin_s <= time_s < begin_s + slot_s), default=0.0)
                for samples in (*self.samples.values(), self.state)
            ]
            table.add_row(time.strftime("%H:%M", time.gmtime(begin_s)), *(f"{mb:.1f}" for mb in most))
        return table

    def table(self, from_s: float, to_s: float) -> Table:
        """A straight line through the samples of each server."""
        title = f"resident MB in {(to_s - from_s) / 60:.0f} minutes at the steady rate, after {WARM_UP_S} s"
        table = Table(title=title, title_justify="left")
        for name in ("", "at first", "at last", "MB an hour"):
            table.add_column(name, justify="left" if not name else "right")
        for name, samples in [*self.samples.items(), *self.live.items(), ("Flink: checkpoint", self.state)]:
            chosen = np.array([sample for sample in samples if from_s <= sample[0] <= to_s])
            a_second, first = np.polyfit(chosen[:, 0] - from_s, chosen[:, 1], 1)
            last = first + a_second * (to_s - from_s)
            table.add_row(name, f"{first:.0f}", f"{last:.0f}", f"{3_600 * a_second:+.0f}")
        return table


def kind_of(process: psutil.Process, kinds: Mapping[str, str]) -> str | None:
    """Raises psutil.Error where the process is gone. A Python worker is what the pool's fork server forked."""
    command = " ".join(process.cmdline())
    is_worker = "forkserver" in command and "forkserver" in " ".join(process.parent().cmdline())
    return next((name for name, part in kinds.items() if part in command and (part != "forkserver" or is_worker)), None)


def _live_mb(pid: int) -> float:
    """After a full garbage collection, which asking for this makes."""
    said = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    return int(said.splitlines()[-1].split()[-1]) / 2**20


def recorded(url: str, spec: Specification) -> dict[int, tuple[float, int]]:
    """slot -> seconds from its end and lateness to the commit of its last shard, and its released rows."""
    query = (
        "SELECT slot_s, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8, "
        "json_array_length((body::json)->'released') FROM entry WHERE kind = 'release' ORDER BY slot_s"
    )
    by_slot: dict[int, tuple[float, int]] = {}
    with psycopg.connect(url) as db:
        for slot_s, at_s, rows in db.execute(query):
            after_s = at_s - slot_s - spec.timetable.slot_s - spec.input.allowed_lateness_s
            before = by_slot.get(slot_s, (after_s, 0))
            by_slot[slot_s] = max(before[0], after_s), before[1] + rows
    return by_slot


def digests_apart(
    spec: Specification, key: Path, archive: Path, edges: tuple[str, str], folder: Path
) -> dict[Any, str]:
    """(slot, shard) -> digest of the scheduled job over the same messages: the same key, a ledger of its own."""
    shutil.copy(key, folder / "apart.key")
    (folder / "apart.key.head").write_text("{}")
    place = location.find(f"sqlite:///{folder / 'apart.sqlite'}", folder / "apart.key")
    location.open_account(place, spec.account)
    code = main([
        "release", "--spec", str(folder / "stream-demo.toml"), "--ledger", place.url, "--key", str(place.key),
        "--input", str(archive), "--from", edges[0], "--to", edges[1], "--output", str(folder / "apart"), "--json",
    ])  # fmt: skip
    if code:
        raise click.ClickException("the scheduled job over the same messages failed")
    return digests(place, spec)


def digests(place: location.AccountLocation, spec: Specification) -> dict[Any, str]:
    periods = {spent.period for spent in place.ledger.spent(spec.account.name)}
    units = [unit for period in periods for unit in place.ledger.released(spec.spec_id, period)]
    return {unit.key: unit.digest for unit in units}


def set_up(
    stack: ExitStack, folder: Path, parallelism: int, slot_minutes: int, zone: str
) -> tuple[Specification, location.AccountLocation, Topic, Flink]:
    """Starts servers, an account on their ledger and a topic; says where the stream runs. All ends with the stack."""
    url = stack.enter_context(postgres_server()).new_database()
    kafka = stack.enter_context(Kafka(folder / "kafka"))
    kafka.make_topic(TOPIC, PARTITIONS)
    flink, pool = stack.enter_context(local_servers(folder, parallelism))
    addresses = {"job_server": flink.address, "worker_pool": pool.address, "rest": flink.rest}
    spec = load(write_specification(folder, slot_minutes, zone))
    place = location.find(url, folder / "stream-demo.key")
    location.open_account(place, spec.account)
    topic = Topic(brokers=kafka.brokers, name=TOPIC)
    return spec, place, topic, Flink(**addresses, parallelism=parallelism, checkpoint_s=5.0)


@click.command()
@click.option("--minutes", type=click.IntRange(min=4), default=5, show_default=True, help="At the steady rate.")
@click.option("--slot-minutes", type=click.IntRange(1, 60), default=1, show_default=True)
@click.option("--burst/--no-burst", default=True, show_default=True)
@click.option(
    "--behind-minutes", type=click.IntRange(0, 59), default=0, show_default=True, help="Sent at once when it starts."
)
@click.option("--zone", default=ZONE, show_default=True, help="In which slots begin.")
@click.option("--vehicles", type=click.IntRange(min=1), default=1_200, show_default=True)
@click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True)
def sustained(
    minutes: int, slot_minutes: int, burst: bool, behind_minutes: int, zone: str, vehicles: int, parallelism: int
) -> None:
    """Feed the stream for some minutes, then ten times as fast for ten seconds; print and draw what came of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        spec, place, topic, engine = set_up(stack, folder, parallelism, slot_minutes, zone)
        slot_s = spec.timetable.slot_s
        begun_s = time.time() + STARTING_S - 60 * behind_minutes
        start_s = streaming.first_slot(spec, None, datetime.fromtimestamp(begun_s, UTC))
        calm_s = start_s + minutes * 60 // slot_s * slot_s
        to_s = calm_s + (1 + CALM_SLOTS) * slot_s * burst
        burst_s = calm_s + BURST_AT_S if burst else to_s + 2 * LOOP_S
        feed = Feed(topic, vehicles, start_s - LOOP_S // 2, to_s + LOOP_S, burst_s, folder / "feed.jsonl")
        feeding = get_context("spawn").Process(target=feed.run)
        feeding.start()
        stack.callback(feeding.terminate)
        memory = Memory(Cluster(engine.rest))
        memory.start()
        stream(spec, start_s, to_s, topic, place, engine)
        memory.ended.set()
        CONSOLE.print("the scheduled job over the same messages ...")
        feeding.join()
        edges = spec.timetable.text(start_s), spec.timetable.text(to_s)
        apart = digests_apart(spec, place.key, feed.archive, edges, folder)
        streamed = {key: digest for key, digest in digests(place, spec).items() if start_s <= key[0] < to_s}
        by_slot = {begin_s: after for begin_s, after in recorded(place.url, spec).items() if start_s <= begin_s < to_s}
        sent = {int(second): rows for second, rows in json.loads(feed.archive.with_suffix(".sent").read_text()).items()}
    CONSOLE.print(lags(by_slot, calm_s), rates(sent, start_s, calm_s, burst), memory.table(start_s + WARM_UP_S, calm_s))
    CONSOLE.print(memory.by_slot(sorted(by_slot), slot_s))
    picture = draw(start_s, slot_s, by_slot, sent, memory)
    save_picture(picture, FOLDER / "sustained.png")
    agree = sum(apart.get(key) == digest for key, digest in streamed.items())
    for key in apart.keys() - {key for key, digest in streamed.items() if apart.get(key) == digest}:
        CONSOLE.print(
            f"{spec.timetable.text(key[0])}, shard {key[1]}: {'other reports' if key in streamed else 'not recorded'}"
        )
    CONSOLE.print(f"{agree} of {len(apart)} slots and shards have the input digest of the scheduled job")
    if streamed != apart:
        raise click.ClickException("the stream lost or changed something")


def stream(
    spec: Specification, start_s: int, to_s: int, topic: Topic, place: location.AccountLocation, engine: Flink
) -> None:
    """Runs the stream until the last slot before `to_s` is recorded, or CATCH_UP_S seconds too late."""
    source = streaming.kafka_source(spec, topic, start_s)
    made = streaming.prepare(spec, start_s, source, place, Outputs(FOLDER / "out", ("parquet",)))
    stop = threading.Event()
    last = spec.timetable.text(to_s - spec.timetable.slot_s)
    timer = threading.Timer(to_s + CATCH_UP_S - time.time(), stop.set)
    timer.daemon = True
    timer.start()

    def say(line: Summary) -> None:
        facts: Mapping[str, Any] = line.whole().opened()
        if "slot" not in facts:
            CONSOLE.print(dict(facts))
            return
        refused = {reason: rows for reason, rows in facts.get("refused", {}).items() if "late" in reason}
        CONSOLE.print(
            f"{facts['slot'][11:16]}  {facts.get('rows', 0):>9,} rows, {facts['lag_s']} s after its end", refused
        )
        if facts["slot"] == last:
            stop.set()

    streaming.run(spec, made, place, engine, stop, say)


def lags(by_slot: Mapping[int, tuple[float, int]], calm_s: int) -> Table:
    table = Table(title="s from slot end + lateness to the row", title_justify="left")
    for name in ("", "slots", "rows", "p50", "p99", "most"):
        table.add_column(name, justify="left" if not name else "right")
    for name, chosen in (
        ("at the steady rate", [lag for begin_s, lag in by_slot.items() if begin_s < calm_s]),
        ("burst and after", [lag for begin_s, lag in by_slot.items() if begin_s >= calm_s]),
    ):
        if not chosen:
            continue
        after_s = np.repeat([after for after, _ in chosen], [rows for _, rows in chosen])
        figures = [f"{np.percentile(after_s, q, method='higher'):.1f}" for q in (50, 99, 100)]
        table.add_row(name, str(len(chosen)), f"{after_s.size:,}", *figures)
    return table


def rates(sent: Mapping[int, int], start_s: int, calm_s: int, is_burst: bool) -> Table:
    """Of what the feeder sent."""
    calm = [sent.get(second, 0) for second in range(max(start_s, min(sent)), calm_s)]
    burst = [sent.get(second, 0) for second in range(calm_s + BURST_AT_S, calm_s + BURST_AT_S + BURST_S) if is_burst]
    table = Table(title="messages sent", title_justify="left")
    for name in ("", "s", "messages", "a second", "slowest 10 s"):
        table.add_column(name, justify="left" if not name else "right")
    for name, seconds in (("at the steady rate", calm), ("burst", burst)):
        if not sum(seconds):
            continue
        slowest = min(sum(seconds[i : i + 10]) / 10 for i in range(len(seconds) - 9))
        figures = [f"{figure:,.0f}" for figure in (sum(seconds), sum(seconds) / len(seconds), slowest)]
        table.add_row(name, str(len(seconds)), *figures)
    return table


def draw(
    start_s: int, slot_s: int, by_slot: Mapping[int, tuple[float, int]], sent: Mapping[int, int], memory: Memory
) -> Figure:
    figure = Figure(figsize=(8, 7), layout="constrained")
    rate, lag, mb = figure.subplots(3, sharex=True)
    seconds = sorted(sent)
    rate.plot([(second - start_s) / 60 for second in seconds], [sent[second] / 1_000 for second in seconds], lw=0.8)
    rate.set(ylabel="1,000 messages / s", ylim=0)
    ends = sorted(by_slot)
    lag.plot([(begin_s + slot_s - start_s) / 60 for begin_s in ends], [by_slot[begin_s][0] for begin_s in ends], "o-")
    lag.set(ylabel="s to the row in PostgreSQL", ylim=0)
    for name, samples in [*memory.samples.items(), *memory.live.items(), ("Flink: checkpoint", memory.state)]:
        at_s, used = zip(*samples, strict=True)
        mb.plot((np.array(at_s) - start_s) / 60, used, label=name)
    mb.set(ylabel="resident MB", xlabel="minutes of the stream", ylim=0)
    figure.legend(*mb.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    for axes in (rate, lag, mb):
        axes.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    sustained()
