"""Runs the stream and its servers on one machine.

`hatstream stream` prints JSON lines: on its job as it starts, on changes of its state, and on each recorded slot.
python -m hatstream_lab.demo.stream_demo --minutes 3
"""

import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from datetime import time as clock
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import click
import msgspec
import numpy as np
import pyarrow.compute as pc
from confluent_kafka import Producer
from numpy.typing import NDArray

from hatstream.api import InputError, asked_to_stop, note, option, progress_bars, read_results
from hatstream_lab.demo.steps import command_line, run
from hatstream_lab.made_up_fleet import MadeUpFleet, simulate
from hatstream_lab.servers.kafka import Kafka
from hatstream_lab.servers.postgres import missing_programs, postgres_server
from hatstream_lab.servers.process import MissingTool, ServerError, missing_tools

SPEED_UP, FIRST_HOUR = 200, 6  # times real time, from this local hour on
DELAY_S = 1.5  # the longest that a report is on its way: so they come out of order
SETTINGS = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "log_level": 2, "enable.idempotence": True}


class Replay(NamedTuple):
    """Reports in sending order; times in seconds of the replay, NaN for unset clocks."""

    sent_s: NDArray[np.float64]
    at_s: NDArray[np.float64]
    reports: list[dict[str, object]]


def replay(fleet: MadeUpFleet, seconds: float, first_hour: int = FIRST_HOUR) -> Replay:
    """Prepares `seconds` of replay: the fleet's day from `first_hour` on, accelerated by SPEED_UP."""
    day = simulate(fleet)
    start_s = datetime.combine(fleet.day, clock(first_hour), ZoneInfo(fleet.zone)).timestamp()
    stamp_s = day["ts"].cast("int64").to_numpy() / 1e6
    at_s = np.where(stamp_s > 0, (stamp_s - start_s) / SPEED_UP, np.nan)  # an unset clock stands at 1970
    rng = np.random.default_rng(fleet.seed)
    is_unset = np.isnan(at_s)  # such a report is sent at any time
    sent_s = np.where(is_unset, rng.uniform(0, seconds, at_s.size), at_s) + rng.uniform(0, DELAY_S, at_s.size)
    rows = np.flatnonzero((is_unset | (at_s >= 0)) & (sent_s < seconds))
    rows = rows[np.argsort(sent_s[rows], kind="stable")]
    return Replay(sent_s[rows], at_s[rows], day.drop_columns(["ts"]).take(rows).to_pylist())


class Feeder:
    """`with Feeder(brokers, topic, replay):` sends reports, their times rebased onto now, in a thread."""

    def __init__(self, brokers: str, topic: str, replay: Replay) -> None:
        self._brokers, self._topic, self._replay, self._stop = brokers, topic, replay, threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self.sent = 0

    def __enter__(self) -> "Feeder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        """Sends each report at its second of the replay, until its end or `_stop`."""
        producer = Producer({**SETTINGS, "bootstrap.servers": self._brokers})
        start_s, encode = time.time(), msgspec.json.Encoder().encode
        send_times, report_times, reports = self._replay
        for sent_s, at_s, report in zip(send_times.tolist(), report_times.tolist(), reports, strict=True):
            while time.time() - start_s < sent_s and not self._stop.is_set():
                producer.poll(0)
                time.sleep(0.02)
            if self._stop.is_set():
                break
            # The producer's clock, in milliseconds; 0 where the report's is unset.
            stamp = 0 if math.isnan(at_s) else round(1_000 * (start_s + at_s))
            producer.produce(self._topic, encode({**report, "ts": stamp}))
            self.sent += 1
        producer.flush(10)  # seconds at most


FAILED = 4  # the exit code
PARTITIONS, TOPIC, ZONE = 4, "positions", "America/Regina"
STARTING_S = 240  # fed longer by that, while Flink and the stream start and the first slot has not begun
SHOWING_S = 90
"""The most that is waited after the last slot's end, or the stream's beginning, until its release is seen."""


@click.command()
@click.option("--minutes", type=click.IntRange(1, 1_440), default=3, show_default=True, help="Slots to be shown.")
@click.option("--vehicles", type=click.IntRange(min=1), default=120, show_default=True)
@click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True)
@option("folder", required=False, default=Path("build/stream-demo"), show_default=True, help="Folder for the results.")
def demo(minutes: int, vehicles: int, parallelism: int, output: Path) -> int:
    """Start a local stream, replay a made-up day of buses at 200x, show releases."""
    if missing := [*missing_tools(), *missing_programs()]:
        for tool in missing:
            click.echo(f"missing: {tool}", err=True)
        return FAILED
    feed = replay(MadeUpFleet(vehicles=vehicles), 60 * minutes + STARTING_S)
    rate = len(feed.reports) / max(feed.sent_s[-1], 1)
    click.echo(f"{len(feed.reports):,} reports of {vehicles} made-up buses, {rate:,.0f} a second at {SPEED_UP}x")
    with ExitStack() as stack:
        stop = stack.enter_context(asked_to_stop())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        note("starting PostgreSQL, Kafka, Flink and its workers (the first time Maven fetches 200 MB) ...")
        spec = write_specification(folder)
        with _timed("PostgreSQL"):
            url = stack.enter_context(postgres_server()).new_database()
        with _timed("Kafka"):
            kafka = stack.enter_context(Kafka(folder / "kafka"))
            kafka.make_topic(TOPIC, PARTITIONS)
        ledger = ("--ledger", url, "--key", str(folder / "stream-demo.key"))
        run("init", "--spec", str(spec), *ledger)
        feeder = stack.enter_context(Feeder(kafka.brokers, TOPIC, feed))
        source = ("--kafka", kafka.brokers, "--topic", TOPIC, "--output", str(output), "--formats", "parquet,csv")
        engine = ("--local", "--checkpoint-s", "5", "--parallelism", str(parallelism), "--json")
        stream = stack.enter_context(_started("stream", "--spec", str(spec), *ledger, *source, *engine))
        threading.Thread(target=_stop, args=(stop, stream), daemon=True).start()  # ends the stream at `stop`
        report = stack.enter_context(progress_bars(quiet=False))
        show = _Show(minutes, output, stop)
        for line in stream.stdout or ():
            report("reports sent", feeder.sent, len(feed.reports))
            show.line(json.loads(line))
        if stream.wait():
            raise RuntimeError(f"the stream failed with exit code {stream.returncode}")
        entries = run("ledger", "verify", *ledger)["entries"]
        note(f"the ledger is whole: {entries:,} entries; stopping the servers ...")
    click.echo(f"stopped. The releases are in {output}")
    return 0


@contextmanager
def _started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Starts a command that prints JSON, and stops it."""
    # In a session of its own: a terminal's Ctrl-C is for us, who end it when we are done.
    process = subprocess.Popen(command_line(*arguments), stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(SHOWING_S)  # for its clean-up
        process.kill()


def _stop(stop: threading.Event, process: "subprocess.Popen[str]") -> None:
    """Ends the stream on a stop; in a thread, as reading its output blocks."""
    stop.wait()
    process.terminate()


@contextmanager
def _timed(label: str) -> Iterator[None]:
    """Notes how long a block took."""
    begun_s = time.monotonic()
    yield
    note(f"  {label} runs after {time.monotonic() - begun_s:.0f} s")


def write_specification(folder: Path, slot_minutes: int = 1, zone: str = ZONE) -> Path:
    """Writes the demonstration's specification and returns its path."""
    path = folder / "stream-demo.toml"
    text = files("hatstream_lab.demo").joinpath("stream-demo.toml").read_text()
    path.write_text(text.replace("\nminutes = 1\n", f"\nminutes = {slot_minutes}\n").replace(ZONE, zone))
    return path


class _Show:
    """Writes health and each slot's best HAT for people; sets `_stop` after `_slots` slots."""

    def __init__(self, slots: int, output: Path, stop: threading.Event) -> None:
        self._slots, self._output, self._stop, self._last = slots, output, stop, ""

    def line(self, facts: Mapping[str, Any]) -> None:
        """Shows one health line; ends the demonstration after its last slot.

        facts: of the job when it starts, of its state when that changes, or of a recorded slot.
        """
        if "job" in facts:
            first = datetime.fromisoformat(facts["from"])
            self._last = (first + timedelta(minutes=self._slots - 1)).isoformat()  # start of the last slot
            note(f"the stream runs; its first slot begins at {facts['from']}, and its release follows its end")
            left_s = (first - datetime.now(first.tzinfo)).total_seconds() + 60 * self._slots
            timer = threading.Timer(max(0, left_s) + SHOWING_S, self._stop.set)
            timer.daemon = True
            timer.start()
        elif "state" in facts:
            note(f"Flink says {facts['state']}")
        elif "slot" in facts:
            refused = sum(facts.get("refused", {}).values())
            rows = f"; {facts['rows']:,} rows in, {refused:,} refused" if "rows" in facts else ""
            recorded = f"; recorded {facts['lag_s']:.1f} s after its end"
            click.echo(f"{facts['slot'][11:16]}  {self._released(facts['slot'])}{rows}{recorded}")
            if self._last and datetime.fromisoformat(facts["slot"]) >= datetime.fromisoformat(self._last):
                self._stop.set()

    def _released(self, slot: str) -> str:
        """Describes a slot's file, once it appears."""
        stamp = f"{datetime.fromisoformat(slot):%Y%m%dT%H%M%S}"
        for _ in range(20):  # files follow their line within five seconds
            with suppress(InputError):
                rows = read_results(str(self._output / f"hats-*-{stamp}*.parquet"))["hats"]
                break
            time.sleep(0.25)
        else:
            return "not written yet"
        rows = rows.filter(pc.equal(rows["status"], "ok"))
        if not rows.num_rows:
            return "no HATs"
        widths = pc.subtract(rows["upper95"], rows["lower95"])  # the narrowest interval is the best
        best = rows.slice(pc.index(widths, pc.min(widths)).as_py(), 1).to_pylist()[0]
        interval = f"{best['lower95']:.1f} to {best['upper95']:.1f}"
        return f"{rows.num_rows:,} HATs; {best['cell']}: {best['value']:.1f} km/h (95 %: {interval})"


def main() -> int:
    """Runs the demonstration; returns the exit code."""
    try:
        return int(demo.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
    except (MissingTool, ServerError, RuntimeError) as error:
        click.echo(f"stream-demo: {error}", err=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
