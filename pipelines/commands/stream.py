"""`hatstream stream`: endless release of slots, on Apache Flink."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pipelines.commands import options
from pipelines.commands.terminal import asked_to_stop, note
from pipelines.errors import DONE, UsageError

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from pipelines.build import Source
    from pipelines.runs.stream.health import Say
    from pipelines.specification import Specification
    from transforms.public import Summary
    from transforms.sources.topic import Topic

MOST_SHARDS = 1024  # of vehicles in a stream


@dataclass(frozen=True)
class FeedOptions:
    """Source of reports: a topic, or a growing folder."""

    brokers: str | None
    topic: str | None
    folder: Path | None

    def check(self, kafka_output: Topic | None) -> None:
        """Refuses conflicting options, and the input's topic as output, by UsageError."""
        if bool(self.brokers) == bool(self.folder) or bool(self.brokers) != bool(self.topic):
            raise UsageError("give either --kafka and --topic, or --folder")
        if kafka_output is None or kafka_output.name != self.topic:
            return
        if {*kafka_output.brokers.split(",")} & {*(self.brokers or "").split(",")}:  # one in common: the same cluster
            raise UsageError("--kafka-output must be a topic other than --topic: the stream would read what it writes")

    def source(self, spec: Specification, start_s: int) -> Source:
        """Creates the source that the options name."""
        from pipelines.runs.stream import stream as streaming  # and Beam with it
        from transforms.sources.topic import Topic

        if self.folder:
            return streaming.folder_source(spec, self.folder, start_s)
        return streaming.kafka_source(spec, Topic(brokers=self.brokers or "", name=self.topic or ""), start_s)


feed_options = options.packed(
    "feed",
    FeedOptions,
    click.option("--kafka", "brokers", metavar="HOST:PORT,..", help="Kafka's brokers; needs --topic."),
    click.option("--topic", help="The topic of positions."),
    click.option(
        "--folder", type=click.Path(path_type=Path, file_okay=False), help="Finished files, renamed into it; not Kafka."
    ),
)


@dataclass(frozen=True)
class HealthOptions:
    """Sinks of the stream's health: a file, standard output or error; `metrics`: served address."""

    log: Path | None
    metrics: str | None
    as_json: bool

    def say(self, stack: ExitStack, spec: Specification) -> Say:
        """Returns a writer of health lines; the stack closes its server. Raises OSError, MetricsError."""
        if self.log is not None:
            self.log.open("a").close()  # fails now if it cannot be written
        metrics = None
        if self.metrics is not None:
            from pipelines.runs.stream.metrics import Metrics, served  # and Prometheus' client with it

            metrics = Metrics(spec)
            stack.enter_context(served(metrics, self.metrics))

        def say(line: Summary) -> None:
            text = msgspec.json.encode(line.whole().opened()).decode()  # with the operator's part
            if self.log is None:
                (click.echo if self.as_json else note)(text)
            else:
                with self.log.open("a") as file:
                    file.write(f"{text}\n")
            if metrics is not None:
                metrics(line)

        return say


health_options = options.packed(
    "health",
    HealthOptions,
    click.option("--health", "log", type=options.FILE, help="File for health lines. [default: standard error]"),
    click.option(
        "--metrics",
        metavar="HOST:PORT",
        callback=options.address,
        help="Serve health to Prometheus at this address, such as 127.0.0.1:9464; without access control, so "
        "keep it private.",
    ),
    options.json_option,
)


@click.command()
@options.spec_option
@feed_options
@click.option("--from", "start", metavar="TIME", help="First slot, if it has begun already: an ISO time or date.")
@options.outputs_options
@options.account_options
@options.engine_options
@click.option(
    "--vehicle-shards",
    type=click.IntRange(1, MOST_SHARDS),
    help="Parallel parts of a slot's vehicles; a savepoint needs the same number. [default: twice the parallelism]",
)
@options.site_option
@health_options
def stream(
    spec_path: Path,
    feed: FeedOptions,
    start: str | None,
    outputs_for: options.OutputsFor,
    location: AccountLocation,
    engine: options.FlinkStarter,
    vehicle_shards: int | None,
    site: Path | None,
    health: HealthOptions,
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
    from pipelines.specification import load

    spec = load(spec_path)
    outputs = outputs_for(spec)
    if spec.trips_sentence:
        note(spec.trips_sentence)
    feed.check(outputs.topic)
    from pipelines.runs.stream import stream as streaming  # and Beam with it, once the options are right

    start_s = streaming.first_slot(spec, start, datetime.now(UTC))
    streaming.check_endless(spec, start_s)
    shards = vehicle_shards or min(2 * engine.parallelism, MOST_SHARDS)
    pipeline = streaming.prepare(spec, start_s, feed.source(spec, start_s), location, outputs, shards)
    with ExitStack() as stack:
        say = health.say(stack, spec)
        stop = stack.enter_context(asked_to_stop())
        stack.enter_context(options.keep_current(site, spec, spec_path, location, outputs))
        streaming.run(spec, pipeline, location, engine.start(stack), stop, say)
    return DONE
