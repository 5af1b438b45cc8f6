"""The options that say on which engine a pipeline runs. An engine, and Beam with it, is imported when it starts."""

import importlib
import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.options import packed
from pipelines.errors import UsageError
from pipelines.runs.beam.runners import RUNNERS, SAID

if TYPE_CHECKING:
    from pipelines.engine import BoundedEngine, Engine

LOCAL, FLINK = "local", "flink"


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"[^\s/@]+:\d{1,5}", value) is None:
        raise click.BadParameter(f"{value!r} is not like host:8081")
    return value


@dataclass(frozen=True)
class AskedEngine:
    """A Flink cluster of the operator's, or with `local` one that is started for as long as the command runs.

    Raises UsageError for options that do not go together.
    """

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
            raise UsageError("--savepoint goes with a cluster of your own: the one of --local begins anew")

    def start(self, stack: ExitStack) -> "Engine":
        """Servers that this starts end with the stack. Raises MissingTool or ServerError."""
        from pipelines.runs.flink.engine import Flink
        from pipelines.servers.worker_pool import local_servers

        job_server, worker_pool, rest = self.job_server or "", self.worker_pool or "", self.rest or ""
        if self.local:
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
            flink, pool = stack.enter_context(local_servers(state, self.parallelism))
            job_server, worker_pool, rest = flink.address, pool.address, flink.rest
        return Flink(
            job_server=job_server,
            worker_pool=worker_pool,
            rest=rest,
            parallelism=self.parallelism,
            checkpoint_s=self.checkpoint_s,
            restarts=self.restarts,
            savepoint=self.savepoint,
        )


def bounded_engine(
    runner: str,
    job_server: str | None,
    worker_pool: str | None,
    rest: str | None,
    parallelism: int | None,
    beam_options: tuple[str, ...] = (),
) -> "BoundedEngine | None":
    """Who releases a closed range: a cluster, a runner of Beam's, or, None, processes of this machine.

    Raises UsageError.
    """
    if beam_options and (runner not in RUNNERS or not beam_options[0].startswith("--")):
        raise click.UsageError(f"Got unexpected extra argument ({beam_options[0]})")
    if runner != FLINK:
        if job_server or worker_pool or rest or parallelism:
            raise UsageError("--job-server, --worker-pool, --rest and --parallelism go with --runner flink")
        return _of_beam(runner, beam_options) if runner in RUNNERS else None
    if not (job_server and worker_pool and rest):
        raise UsageError("--runner flink needs --job-server, --worker-pool and --rest")
    from pipelines.runs.flink.bounded import BoundedFlink

    return BoundedFlink(job_server=job_server, worker_pool=worker_pool, rest=rest, parallelism=parallelism or 1)


def _of_beam(runner: str, options: tuple[str, ...]) -> "BoundedEngine":
    if runner in SAID:
        click.echo(SAID[runner], err=True)
    module, _, name = RUNNERS[runner].partition(":")
    made = getattr(importlib.import_module(module), name)(runner, options)
    for option in made.handed_on:
        click.echo(f"{runner}: Beam's Python does not know {option}; it is handed on to the job server", err=True)
    engine: BoundedEngine = made
    return engine


_ADDRESSES = (
    click.option("--job-server", metavar="HOST:PORT", callback=address, help="Beam's Flink job server."),
    click.option(
        "--worker-pool",
        metavar="HOST:PORT",
        callback=address,
        help="The worker pool, as every task manager reaches its own.",
    ),
    click.option(
        "--rest",
        metavar="HOST:PORT",
        callback=address,
        help="The REST of the Flink cluster, to watch and to end the job.",
    ),
)

engine_options = packed(
    "engine",
    AskedEngine,
    click.option("--local", is_flag=True, help="Start a job server and a worker pool on this machine, to try it."),
    *_ADDRESSES,
    click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True),
    click.option("--checkpoint-s", type=click.FloatRange(min=0.1), default=10.0, show_default=True),
    click.option(
        "--restarts", type=int, default=-1, show_default=True, help="Of a failed job; -1: as the cluster is set."
    ),
    click.option("--savepoint", metavar="PATH", help="Go on from a savepoint of this specification's stream."),
)

runner_options = packed(
    "engine",
    bounded_engine,
    click.option(
        "--runner",
        type=click.Choice([LOCAL, FLINK, *RUNNERS]),
        default=LOCAL,
        show_default=True,
        help="local: the same tasks in processes of this machine, without Beam. flink: a cluster, by the options "
        "below. The others are Beam's own runners, with Beam's own options behind --.",
    ),
    click.argument("beam_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- BEAM OPTIONS]"),
    *_ADDRESSES,
    click.option(
        "--parallelism", type=click.IntRange(min=1), help="Of a job on a cluster: how many read and count. [default: 1]"
    ),
)
