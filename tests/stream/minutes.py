"""A tiny feed of the last minutes, in Kafka and in a file, and `hatstream stream` over it: slots of a minute or so."""

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer

from pipelines.account import location
from pipelines.cli import main
from pipelines.job import Outputs
from pipelines.runs.flink.engine import Flink, FlinkJob
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from tests import city
from tests.stream.cluster import has_ended, wait_for
from tests.stream.feed import ANY_TIME
from transforms.failpoints import failpoint
from transforms.ledger.recording import LedgerAccount
from transforms.ledger.releases import Recorded
from transforms.sinks.rows import file_stem
from transforms.sources.topic import Topic

PARTITIONS = 4
SLOTS = 10
EMPTY = 4  # the number of a slot in which nothing happens
SPEC = city.changed(
    city.SPEC,
    ("small-city", "minutes"),
    ('"small"', '"minutes"'),
    ("limit = 50", "limit = 5000"),
    ('minutes = 60\nservice = "08:00-12:00"', "minutes = 1\nallowed_lateness_s = 5"),
    ('"csv"', '"jsonl"'),
    ("bus", "vehicle"),
    ('"ts"', '"time"'),
    ('speed = "v" }', 'speed = "speed" }\ntime_unit = "ms"'),
)
POLL_MESSAGES = 250  # of the 100,000 events of a large town, so few make a hundred polls of each partition
_NUMBERS = count()


class Event(NamedTuple):
    """A message. is_late: whether the stream must refuse it, and so a bounded run must not see it."""

    partition: int
    at_ms: int
    payload: bytes
    is_late: bool = False


class Town:
    """An account on a ledger, and the same events in a topic and in `feed.jsonl`, late ones apart.

    rows: of input, refused ones too. events: from the start's second since 1970 UTC; else many, `a_second`.
    start_s: of the first slot, in seconds since 1970 UTC; else all of them are over by now.
    """

    def __init__(
        self, folder: Path, ledger_url: str, kafka=None, a_second: int = 1, events=None, spec=SPEC, start_s=None
    ):
        self.folder, self.url, self.kafka = folder, ledger_url, kafka
        (folder / "spec.toml").write_text(spec)
        self.spec = load(folder / "spec.toml")
        self.place = location.find(ledger_url, folder / "key")
        location.open_account(self.place, self.spec.account)
        self.slot_s = self.spec.timetable.slot_s
        self.start_s = start_s or (int(time.time()) // self.slot_s - SLOTS - 2) * self.slot_s
        self.slots = [self.start_s + self.slot_s * i for i in range(SLOTS)]
        self.topic = f"minutes-{next(_NUMBERS)}"
        if kafka:
            self.kafka.make_topic(self.topic, PARTITIONS, ANY_TIME)
        self.feed(events(self.start_s) if events else positions(self.start_s, a_second))

    def feed(self, events):
        """Sends events as they come, and writes those that are not late to the file."""
        sent = []
        if self.kafka:
            settings = {"linger.ms": 5, "log_level": 2, "enable.idempotence": True}
            settings |= {"queue.buffering.max.messages": 10**6}
            producer = Producer({"bootstrap.servers": self.kafka.brokers, **settings})
        for event in events:
            sent.append(event)
            if self.kafka:
                producer.produce(self.topic, event.payload, partition=event.partition, timestamp=event.at_ms)
        if self.kafka:
            assert producer.flush(300) == 0
        self.rows = len(sent)
        (self.folder / "feed.jsonl").write_bytes(b"\n".join(event.payload for event in sent if not event.is_late))

    @property
    def options(self):
        """Of `stream` and `release` alike."""
        return ["--spec", self.folder / "spec.toml", "--ledger", self.url, "--key", self.folder / "key"]

    @property
    def edges(self):
        text = self.spec.timetable.text
        return text(self.slots[0]), text(self.slots[-1] + self.slot_s)

    def released(self, place=None):
        """slot -> its one sealed unit, of the feed's slots."""
        ledger = (place or self.place).ledger
        periods = {spent.period for spent in ledger.spent("minutes")}
        units = [unit for period in periods for unit in ledger.released(self.spec.spec_id, period)]
        unit_of = {unit.slot_s: unit for unit in units if unit.slot_s in self.slots}
        assert len(unit_of) == sum(unit.slot_s in self.slots for unit in units)
        return unit_of

    def is_whole(self):
        """Whether all slots went all the way."""
        return len(self.released()) == len(self.slots) and self.has_published("out")

    def has_published(self, output):
        """Whether the feed's last slot, and so all before it, went all the way."""
        stem = file_stem(self.spec.spec_id, self.spec.timetable.text(self.slots[-1]))
        return (self.folder / output / f"{stem}.jsonl").exists()

    def release(self, ledger=None, key=None, output="scheduled"):
        """The scheduled job over the same events; its exit code."""
        start, end = self.edges
        return main([
            "release", "--spec", str(self.folder / "spec.toml"), "--ledger", ledger or self.url,
            "--key", str(key or self.folder / "key"), "--input", str(self.folder / "feed.jsonl"), "--from", start,
            "--to", end, "--output", str(self.folder / output), "--formats", "jsonl", "--json",
        ])  # fmt: skip

    def apart(self):
        """The scheduled job with the same key on a new ledger: what a bounded run says of the same events."""
        folder = self.folder / "apart"
        folder.mkdir()
        shutil.copy(self.folder / "key", folder / "key")
        url = f"sqlite:///{folder / 'ledger.sqlite'}"
        place = location.find(url, folder / "key")
        place.witness.write({})
        location.open_account(place, self.spec.account)
        assert self.release(url, folder / "key", "apart/out") == 0
        return self.released(place)

    def check(self):
        """The scheduled job makes the same of these events: apart, and here without spending; the ledger is whole."""
        streamed, apart = self.released(), self.apart()
        assert {slot: unit.digest for slot, unit in streamed.items()} == {
            slot: unit.digest for slot, unit in apart.items()
        }
        spent = self.place.ledger.spent("minutes")
        assert self.release() == 0
        assert self.place.ledger.spent("minutes") == spent
        self.place.ledger.verify()


def positions(start_s, a_second):
    """Out of order by up to two seconds, some twice, one unreadable, one slot without any."""
    random_, partitions = random.Random(3), cycle(range(PARTITIONS))
    for i in range(60 * SLOTS * a_second):
        at_ms = start_s * 1_000 + i * 1_000 // a_second
        if (at_ms // 1_000 - start_s) // 60 == EMPTY:
            continue
        event_ms = max(start_s * 1_000, at_ms - random_.randrange(2_000))
        if (event_ms // 1_000 - start_s) // 60 == EMPTY:
            continue
        payload = position(f"bus{i % (7 * a_second)}", event_ms, i)
        for _ in range(2 if i % 50 == 0 else 1):
            yield Event(next(partitions), at_ms, payload)
    yield Event(next(partitions), at_ms, b"{}")


def position(vehicle, event_ms, i):
    row = {"vehicle": vehicle, "time": event_ms, "lat": 30.0 + 0.05 * (i % 3), "lon": -97.5, "speed": i * 7 % 60}
    return json.dumps(row).encode()


def engine(flink, pool):
    return ["--job-server", flink.address, "--worker-pool", pool.address, "--rest", flink.rest, "--checkpoint-s", "1"]


def chosen(flink, pool, **more):
    return Flink(job_server=flink.address, worker_pool=pool.address, rest=flink.rest, **{"checkpoint_s": 1.0, **more})


class Running:
    """`with Running(options) as stream:` a `hatstream stream` in a process of its own, ended by SIGINT."""

    def __init__(self, town, *options, source=None):
        source = source or ["--kafka", town.kafka.brokers, "--topic", town.topic]
        self._health = town.folder / "health.jsonl"
        self._command = [sys.executable, "-m", "pipelines.cli", "stream", *town.options, *source, "--output",
                         town.folder / "out", "--formats", "jsonl", "--health", self._health,
                         "--from", town.edges[0], *options]  # fmt: skip

    def __enter__(self):
        self._process = subprocess.Popen(
            [str(part) for part in self._command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def stop(self, number=signal.SIGINT):
        """The exit code and all that it printed."""
        self._process.send_signal(number)
        said, _ = self._process.communicate(timeout=600)
        return self._process.returncode, said

    def wait_for(self, look, seconds):
        """Until `look` sees something; the command may not end before."""

        def looked():
            assert not self.has_ended(), self.stop()
            return look()

        wait_for(looked, seconds)

    def has_ended(self):
        return self._process.poll() is not None

    def health(self):
        return [json.loads(line) for line in self._health.read_text().splitlines()] if self._health.exists() else []

    def __exit__(self, *_):
        if not self.has_ended():
            self.stop(signal.SIGTERM)


@dataclass(frozen=True)
class ForgetfulAccount(LedgerAccount):
    """A double of the ledger in which the first writer does not win: it keeps every value. url: of its SQLite file."""

    def open(self):
        return Forgetful(self.url)


class Forgetful:
    def __init__(self, path):
        self._path = path

    def record(self, _account, _limit, _name, _text, units):
        failpoint("before-record")
        with self._database() as db:
            rows = [(unit.slot_s, msgspec.json.encode(unit.released).decode()) for unit in units]
            db.executemany("insert into attempts values (?, ?)", rows)
        failpoint("after-commit")
        return Recorded(units, len(units), 0, 0, list(range(len(units))))

    def values(self):
        """slot -> its different values; a slot without HATs has the one that is empty."""
        texts = {}
        with self._database() as db:
            for slot_s, text in db.execute("select slot, text from attempts"):
                texts.setdefault(slot_s, set()).add(text)
        return texts

    def _database(self):
        db = sqlite3.connect(self._path, timeout=300)
        db.execute("create table if not exists attempts (slot integer, text text)")
        return db


def prepared(town, output="out", poll_messages=POLL_MESSAGES):
    """The stream of `hatstream stream`, with few messages a poll."""
    source = streaming.kafka_source(town.spec, Topic(brokers=town.kafka.brokers, name=town.topic), town.start_s)
    source.poll_messages = poll_messages
    return streaming.prepare(town.spec, town.start_s, source, town.place, Outputs(town.folder / output, ("jsonl",)))


@contextmanager
def submitted(town, flink, pool, checkpoint_s=1.0, savepoint=None, forgetful=None, output="out"):
    """Flink's job id of a stream that takes many polls, so that faults find it on its way."""
    made = prepared(town, output)
    if forgetful:
        values = {field.name: getattr(made.job.account, field.name) for field in fields(LedgerAccount)}
        made = replace(made, job=replace(made.job, account=ForgetfulAccount(**values | {"url": str(forgetful)})))
    job_id = (
        chosen(flink, pool, checkpoint_s=checkpoint_s, savepoint=savepoint)
        .submit(made.build, f"minutes-{time.time_ns()}", threading.Event())
        .id
    )
    try:
        yield job_id
    except AssertionError as error:
        error.add_note(f"Flink says of the job's faults: {reasons(flink, job_id)}")
        raise
    finally:
        if not has_ended(flink, job_id):
            FlinkJob(flink, job_id).cancel()


def reasons(flink, job_id):
    """The Python errors that made Flink start a job again, newest first, each once."""
    try:
        faults = flink.faults(job_id)
    except OSError as error:
        return [f"nothing, for it does not answer ({error})"]
    errors = [re.findall(r"^\w+(?:\.\w+)*(?:Error|Exception): .*$", fault, re.MULTILINE) for fault in faults]
    return list(dict.fromkeys(lines[-1] for lines in errors if lines))


class Attended:
    """`with Attended(..) as stream:` what `hatstream stream` does, in a thread; `health` takes its lines.

    poll_messages: 1 makes every message meet the promise that the one before it made.
    """

    def __init__(self, town, engine, poll_messages):
        self.health, self._stop = [], threading.Event()
        made = prepared(town, poll_messages=poll_messages)
        run = (town.spec, made, town.place, engine, self._stop, self._hear)
        self._thread = threading.Thread(target=streaming.run, args=run)

    def _hear(self, line):
        self.health.append(line.whole().opened())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def refused(health, reason):
    """How many rows all health lines together say were refused for a reason."""
    return sum(line["refused"].get(reason, 0) for line in health if "refused" in line)
