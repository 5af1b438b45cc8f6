"""The stream on one machine: Kafka, Flink, PostgreSQL, a feeder and the stream itself, for a few minutes.

python -m hatstream_lab.demo.stream_demo --minutes 3
"""

import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

import transforms.silence_beam  # noqa: F401  # isort: skip

from hatstream.api import Specification, load
from hatstream_lab.demo.feeder import SPEED_UP, Feeder, replay
from hatstream_lab.made_up_fleet import MadeUpFleet
from hatstream_lab.servers.kafka import Kafka
from hatstream_lab.servers.maven import MissingTool, missing_tools
from hatstream_lab.servers.postgres import missing_programs, postgres_server
from hatstream_lab.servers.process import ServerError
from hatstream_lab.servers.worker_pool import local_servers
from pipelines.account import location
from pipelines.commands.interrupt import asked_to_stop
from pipelines.commands.local_path import LocalPath
from pipelines.commands.terminal import duration, note, progress_bars, with_verbosity
from pipelines.engine import EngineError
from pipelines.exit_codes import DONE, FAILED
from pipelines.finite_range import FiniteRange
from pipelines.job import Outputs
from pipelines.outcome import reporting
from pipelines.runs.flink.engine import Flink
from pipelines.runs.stream import stream as streaming
from transforms.ledger.head import LedgerError
from transforms.public import Summary
from transforms.recorded.units import HatUnit, all_of
from transforms.releases.hats.estimates import estimates_of
from transforms.sinks.rows import rows_of
from transforms.sources.topic import Topic

PARTITIONS = 4
TOPIC = "positions"
ZONE = "America/Regina"
STARTING_S = 60
"""Fed longer by twice that, while the stream starts and its first slot has not begun."""
SHOWING_S = 60
"""The most that is waited after the last slot's end until its release is seen."""


@click.command()
@click.option("--minutes", type=FiniteRange(min=1), default=3.0, show_default=True, help="Slots to be shown.")
@click.option("--vehicles", type=click.IntRange(min=1), default=120, show_default=True)
@click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--output",
    type=LocalPath(path_type=Path, file_okay=False),
    default=Path("build/stream-demo"),
    show_default=True,
    help="Folder for the results.",
)
def demo(minutes: float, vehicles: int, parallelism: int, output: Path) -> int:
    """Start everything on this machine, replay a made-up day of buses at 200x, and show the releases as they come."""
    if missing := [*missing_tools(), *missing_programs()]:
        for tool in missing:
            click.echo(f"missing: {tool}", err=True)
        return FAILED
    feed = replay(MadeUpFleet(vehicles=vehicles), 60 * minutes + 2 * STARTING_S)
    rate = len(feed.reports) / max(feed.sent_s[-1], 1)
    click.echo(f"{len(feed.reports):,} reports of {vehicles} made-up buses, {rate:,.0f} a second at {SPEED_UP}x")
    with ExitStack() as stack:
        stop = stack.enter_context(asked_to_stop())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        note("starting PostgreSQL, Kafka, Flink and its workers (the first time Maven fetches 200 MB) ...")
        spec, place, topic, engine = set_up(stack, folder, parallelism)
        feeder = stack.enter_context(Feeder(topic, feed))
        report = stack.enter_context(progress_bars(quiet=False))
        stack.enter_context(reporting(lambda: report("reports sent", feeder.sent, len(feed.reports))))
        start_s = streaming.first_slot(spec, None, datetime.now(UTC))
        source = streaming.kafka_source(spec, topic, start_s)
        made = streaming.prepare(spec, start_s, source, place, Outputs(output, ("parquet", "csv")))
        stop_at(start_s + 60 * minutes + SHOWING_S, stop)
        begins, ends = (spec.timetable.text(at_s)[11:19] for at_s in (start_s, start_s + 60))
        note(f"{begins} the first slot begins; {ends} it ends, and its release follows")
        last_s = start_s + 60 * (math.ceil(minutes) - 1)
        streaming.run(spec, made, place, engine, stop, _Show(spec, place, spec.timetable.text(last_s), stop))
        note(f"the ledger is whole: {place.ledger.verify().entries:,} entries; stopping the servers ...")
    click.echo(f"stopped. The releases are in {output}")
    return DONE


def set_up(
    stack: ExitStack, folder: Path, parallelism: int, slot_minutes: int = 1, zone: str = ZONE
) -> tuple[Specification, location.AccountLocation, Topic, Flink]:
    """Starts servers, an account on their ledger and a topic; says where the stream runs. All ends with the stack."""
    with _timed("PostgreSQL"):
        url = stack.enter_context(postgres_server()).new_database()
    with _timed("Kafka"):
        kafka = stack.enter_context(Kafka(folder / "kafka"))
        kafka.make_topic(TOPIC, PARTITIONS)
    with _timed("Flink, with a pool of workers,"):
        flink, pool = stack.enter_context(local_servers(folder, parallelism))
    engine = Flink(
        job_server=flink.address,
        worker_pool=pool.address,
        rest=flink.rest,
        parallelism=parallelism,
        checkpoint_s=5.0,
    )
    spec = specification(folder, slot_minutes, zone)
    place = location.find(url, folder / "stream-demo.key")
    location.open_account(place, spec.account)
    return spec, place, Topic(brokers=kafka.brokers, name=TOPIC), engine


@contextmanager
def _timed(what: str) -> Iterator[None]:
    begun_s = time.monotonic()
    yield
    note(f"  {what} runs after {duration(time.monotonic() - begun_s)}")


def stop_at(at_s: float, stop: threading.Event) -> None:
    timer = threading.Timer(at_s - time.time(), stop.set)
    timer.daemon = True
    timer.start()


def specification(folder: Path, slot_minutes: int = 1, zone: str = ZONE) -> Specification:
    path = folder / "stream-demo.toml"
    text = files("hatstream_lab.demo").joinpath("stream-demo.toml").read_text()
    path.write_text(text.replace("\nminutes = 1\n", f"\nminutes = {slot_minutes}\n").replace(ZONE, zone))
    return load(path)


class _Show:
    """Writes health for people, with the HAT of each slot that is known best; asks for an end after the last slot."""

    def __init__(
        self, spec: Specification, place: location.AccountLocation, last_slot: str, stop: threading.Event
    ) -> None:
        self._spec, self._place, self._last_slot, self._stop = spec, place, last_slot, stop

    def __call__(self, line: Summary) -> None:
        facts: Mapping[str, Any] = line.whole().opened()
        if "job" in facts:
            note(f"the stream runs; its first slot begins at {facts['from']}")
        elif "state" in facts:
            note(f"Flink says {facts['state']}")
        elif "slot" in facts:
            click.echo(f"{facts['slot'][11:16]}  {self._released(facts['slot'])}{_counted(facts)}")
            if datetime.fromisoformat(facts["slot"]) >= datetime.fromisoformat(self._last_slot):
                self._stop.set()

    def _released(self, slot: str) -> str:
        start = datetime.fromisoformat(slot)
        ledger, period = self._place.ledger, self._spec.timetable.period_of(start.date())
        units = all_of(HatUnit, ledger.released(self._spec.spec_id, period))
        units = [unit for unit in units if unit.slot_start == slot]
        rows = [row for row in rows_of(estimates_of(units, ())) if row["status"] == "ok"] if units else []
        if not rows:
            return "no HATs"
        best = min(rows, key=lambda row: row["upper95"] - row["lower95"])
        interval = f"{best['lower95']:.1f} to {best['upper95']:.1f}"
        return f"{len(rows):,} HATs; {best['cell']}: {best['value']:.1f} km/h (95 %: {interval})"


def _counted(facts: Mapping[str, Any]) -> str:
    refused = sum(facts.get("refused", {}).values())
    rows = f"; {facts['rows']:,} rows in, {refused:,} refused" if "rows" in facts else ""
    return f"{rows}; recorded {facts['lag_s']:.1f} s after its end"


def main() -> int:
    try:
        return int(with_verbosity(demo).main(standalone_mode=False) or DONE)
    except click.ClickException as error:
        error.show()
    except (MissingTool, ServerError, EngineError, LedgerError, RuntimeError) as error:
        click.echo(f"stream-demo: {error}", err=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
