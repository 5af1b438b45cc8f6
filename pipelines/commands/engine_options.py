"""Command-line options of engines: Flink, or Beam's runners."""

import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.options import address, packed
from pipelines.companions import extension
from pipelines.errors import UsageError
from pipelines.option_types import FiniteRange

if TYPE_CHECKING:
    from pipelines.engine import BoundedEngine
    from pipelines.runs.beam.runners import ByName
    from pipelines.runs.flink.engine import Flink

LOCAL, FLINK = "local", "flink"  # values of --runner beside Beam's
RUNNERS = {
    **dict.fromkeys(("DirectRunner", "FnApiRunner"), "InProcess"),
    "PrismRunner": "Prism",
    **dict.fromkeys(("FlinkRunner", "SparkRunner", "DataflowRunner", "PortableRunner"), "ByName"),
}  # by Beam's name of a runner: our class in `pipelines.runs.beam.runners`, made of the name and Beam's options


@dataclass(frozen=True)
class FlinkStarter:
    """Options of a Flink cluster; `local` starts one for the command. Raises UsageError."""

    local: bool
    job_server: str | None
    worker_pool: str | None
    rest: str | None
    parallelism: int
    checkpoint_s: float
    restarts: int
    savepoint: str | None

    def __post_init__(self) -> None:
        addresses = self.job_server, self.worker_pool, self.rest
        if self.local == any(addresses) or any(addresses) != all(addresses):
            raise UsageError("give either --local, or --job-server, --worker-pool and --rest")
        if self.local and self.savepoint:
            raise UsageError("--savepoint needs a cluster of your own: --local starts a new one")

    def start(self, stack: ExitStack) -> "Flink":
        """Starts the engine; the stack closes its servers. Raises MissingTool or ServerError."""
        from pipelines.runs.flink.engine import Flink  # and Beam with it

        settings = asdict(self)  # Flink's own parameters, but for `local`
        if settings.pop("local"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
            flink, pool = stack.enter_context(extension("local-flink", "lab")(state, self.parallelism))
            settings |= {"job_server": flink.address, "worker_pool": pool.address, "rest": flink.rest}
        return Flink(**settings)


def _bounded(
    runner: str,
    beam_options: tuple[str, ...],
    job_server: str | None,
    worker_pool: str | None,
    rest: str | None,
    parallelism: int | None,
) -> "BoundedEngine | None":
    """Makes the engine of a closed range; None for this process. Raises UsageError."""
    if beam_options and not beam_options[0].startswith("--"):  # a stray word; our own options stand before --
        raise click.UsageError(f"Got unexpected extra argument ({beam_options[0]})")
    if beam_options and runner not in RUNNERS:
        raise UsageError(f"{beam_options[0]}: options after -- are for Beam's runners; --runner {runner} takes none")
    if runner == FLINK:
        if not (job_server and worker_pool and rest):
            raise UsageError("--runner flink needs --job-server, --worker-pool and --rest")
        from pipelines.runs.flink.engine import Flink

        return Flink(job_server=job_server, worker_pool=worker_pool, rest=rest, parallelism=parallelism or 1)
    if job_server or worker_pool or rest or parallelism:
        raise UsageError("--job-server, --worker-pool, --rest and --parallelism go with --runner flink")
    if runner == LOCAL:
        return None
    if runner == "DirectRunner":
        click.echo("DirectRunner is Beam's FnApiRunner here, in this process; nothing is downloaded", err=True)
    from pipelines.runs.beam import runners

    engine: ByName = getattr(runners, RUNNERS[runner])(runner, beam_options)
    for option in engine.handed_on:
        click.echo(f"{runner}: Beam's Python does not know {option}; it is handed on to the job server", err=True)
    return engine


_ADDRESS_OPTIONS = tuple(
    click.option(flag, metavar="HOST:PORT", callback=address, help=meaning)
    for flag, meaning in (
        ("--job-server", "Beam's Flink job server."),
        ("--worker-pool", "Address at which each task manager reaches its own worker pool."),
        ("--rest", "REST address of the Flink cluster, to watch and end the job."),
    )
)

engine_options = packed(  # give `engine`, the FlinkStarter of a stream
    "engine",
    FlinkStarter,
    click.option("--local", is_flag=True, help="Start Flink here, to try it; else give the next three options."),
    *_ADDRESS_OPTIONS,
    click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True, help="Parallel workers."),
    click.option(
        "--checkpoint-s", type=FiniteRange(min=0.1), default=10.0, show_default=True, help="Seconds per checkpoint."
    ),
    click.option(
        "--restarts", type=int, default=-1, show_default=True, help="Most restarts of a failed job; -1: the cluster's."
    ),
    click.option("--savepoint", metavar="PATH", help="Go on from a savepoint of this specification's stream."),
)

runner_options = packed(  # give `engine`, the BoundedEngine that --runner names; None for this process
    "engine",
    _bounded,
    click.option(
        "--runner",
        type=click.Choice([LOCAL, FLINK, *RUNNERS]),
        default=LOCAL,
        show_default=True,
        help="local: this process; flink: a cluster, by the options below; others: Beam's runners, with their options "
        "after --.",
    ),
    click.argument("beam_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- BEAM OPTIONS]"),
    *_ADDRESS_OPTIONS,
    click.option(
        "--parallelism", type=click.IntRange(min=1), help="Parallel workers of a job on a cluster. [default: 1]"
    ),
)
