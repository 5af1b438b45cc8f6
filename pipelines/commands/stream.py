"""`hatstream stream`: the same road without an end, on Apache Flink."""

import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pipelines.account import location
from pipelines.build import Source
from pipelines.commands.options import (
    by_date_option,
    columns_option,
    formats_option,
    kafka_output_option,
    key_option,
    ledger_option,
    output_folder_option,
    shape_of,
    spec_option,
)
from pipelines.commands.runner import address, job_server_option, rest_option, worker_pool_option
from pipelines.commands.terminal import note
from pipelines.demo.servers.worker_pool import local_servers
from pipelines.exit_codes import DONE
from pipelines.scheduled.release import UsageError
from pipelines.specification import Specification, load
from pipelines.streaming import stream as streaming
from pipelines.streaming.engine import Engine
from pipelines.streaming.flink.engine import Flink
from pipelines.streaming.health import Say
from pipelines.streaming.metrics import Metrics, served
from transforms.sources.kafka_partition import Topic

MOST_SHARDS = 1024


@click.command()
@spec_option
@click.option("--kafka", "brokers", metavar="HOST:PORT,..", help="Kafka's brokers; with --topic.")
@click.option("--topic", help="The topic of positions.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Instead: a folder that grows.")
@click.option("--from", "start", metavar="TIME", help="First slot, where it has begun already: an ISO time or date.")
@output_folder_option
@ledger_option
@key_option
@formats_option
@columns_option
@by_date_option
@kafka_output_option
@click.option("--local", is_flag=True, help="Start a job server and a worker pool on this machine, to try it.")
@job_server_option
@worker_pool_option
@rest_option
@click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--vehicle-shards",
    type=click.IntRange(1, MOST_SHARDS),
    help="Parts of a slot's vehicles that are worked on side by side; a savepoint fits its own number. "
    "[default: twice the parallelism]",
)
@click.option("--checkpoint-s", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--restarts", type=int, default=-1, show_default=True, help="Of a failed job; -1: as the cluster is set.")
@click.option("--savepoint", metavar="PATH", help="Go on from a savepoint of this specification's stream.")
@click.option("--health", "log", type=click.Path(path_type=Path, dir_okay=False), help="[default: standard error]")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=address,
    help="Serve health to Prometheus there, such as 127.0.0.1:9464; to whoever asks, so keep it on a private address.",
)
def stream(
    spec_path: Path,
    brokers: str | None,
    topic: str | None,
    folder: Path | None,
    start: str | None,
    output: Path,
    ledger: str | None,
    key_path: Path | None,
    formats: tuple[str, ...],
    columns: frozenset[str],
    by_date: bool,
    kafka_output: Topic | None,
    vehicle_shards: int | None,
    log: Path | None,
    metrics: str | None,
    **engine: Any,
) -> int:
    """Release slot after slot as they close, each exactly once, until SIGINT or SIGTERM.

    It begins with the first slot that has not begun, unless --from names an earlier one whose reports are all still
    there. Health: one line of JSON a slot; with --quiet only into the file of --health.

    \b
    Example:
      hatstream stream --spec austin.toml --kafka 10.0.0.7:9092 --topic positions --output out \\
          --ledger postgresql://hats@10.0.0.8/hats --key austin.key \\
          --job-server 127.0.0.1:8099 --worker-pool 127.0.0.1:50000 --rest 10.0.0.4:8081
    """
    spec = load(spec_path)
    shape = shape_of(spec, columns, formats, by_date=by_date)
    _check_options(brokers, topic, folder, kafka_output, engine)
    start_s = streaming.first_slot(spec, start, datetime.now(UTC))
    streaming.check(spec, start_s)
    place = location.find(ledger, key_path)
    source = _source(spec, brokers, topic, folder, start_s)
    shards = vehicle_shards or min(2 * engine["parallelism"], MOST_SHARDS)
    made = streaming.prepare(spec, start_s, source, place, output, formats, kafka_output, shape, shards)
    say: Say = _Sayer(log)
    with ExitStack() as stack:
        if metrics is not None:
            measured = Metrics(spec)
            stack.enter_context(served(measured, metrics))
            say = _both(say, measured)
        stop = stack.enter_context(asked_to_stop())
        streaming.run(spec, made, place, _engine(stack, **engine), stop, say)
    return DONE


def _check_options(
    brokers: str | None, topic: str | None, folder: Path | None, kafka_output: Topic | None, engine: dict[str, Any]
) -> None:
    if bool(brokers) == bool(folder) or bool(brokers) != bool(topic):
        raise UsageError("give either --kafka and --topic, or --folder")
    addresses = [engine[name] for name in ("job_server", "worker_pool", "rest")]
    if engine["local"] == any(addresses) or any(addresses) != all(addresses):
        raise UsageError("give either --local, or --job-server, --worker-pool and --rest")
    if (
        kafka_output
        and kafka_output.name == topic
        and {*kafka_output.brokers.split(",")} & {*(brokers or "").split(",")}
    ):
        raise UsageError("--kafka-output must be another topic than --topic: the stream would read what it writes")
    if engine["local"] and engine["savepoint"]:
        raise UsageError("--savepoint goes with a cluster of your own: the one of --local begins anew")


def _source(spec: Specification, brokers: str | None, topic: str | None, folder: Path | None, start_s: int) -> Source:
    if folder:
        return streaming.folder_source(spec, folder, start_s)
    return streaming.kafka_source(spec, Topic(brokers=brokers or "", name=topic or ""), start_s)


def _engine(
    stack: ExitStack, *, local: bool, job_server: str | None, worker_pool: str | None, rest: str | None, **rest_of: Any
) -> Engine:
    if local:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
        flink, pool = stack.enter_context(local_servers(state, rest_of["parallelism"]))
        job_server, worker_pool, rest = flink.address, pool.address, flink.rest
    return Flink(job_server=job_server or "", worker_pool=worker_pool or "", rest=rest or "", **rest_of)


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Set by SIGINT or SIGTERM."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _both(first: Say, second: Say) -> Say:
    def say(facts: Mapping[str, Any]) -> None:
        first(facts)
        second(facts)

    return say


class _Sayer:
    """Appends facts as lines of JSON to a file, or to standard error. Raises OSError where it cannot write the file."""

    def __init__(self, log: Path | None) -> None:
        self._log = log
        if log is not None:
            log.open("a").close()

    def __call__(self, facts: Mapping[str, Any]) -> None:
        line = msgspec.json.encode(facts).decode()
        if self._log is None:
            note(line)
        else:
            with self._log.open("a") as file:
                file.write(line + "\n")
