"""Where a release runs, as options: on this machine, or on a cluster."""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pipelines.scheduled.release import UsageError

if TYPE_CHECKING:
    from pipelines.streaming.engine import BoundedEngine

FLINK = "flink"


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"[^\s/@]+:\d{1,5}", value) is None:
        raise click.BadParameter(f"{value!r} is not like host:8081")
    return value


job_server_option = click.option("--job-server", metavar="HOST:PORT", callback=address, help="Beam's Flink job server.")
worker_pool_option = click.option(
    "--worker-pool",
    metavar="HOST:PORT",
    callback=address,
    help="The worker pool, as every task manager reaches its own.",
)
rest_option = click.option(
    "--rest", metavar="HOST:PORT", callback=address, help="The REST of the Flink cluster, to watch and to end the job."
)


def runner_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives the command an `engine`; None is this machine."""

    @click.option(
        "--runner",
        type=click.Choice(["FnApiRunner", "DirectRunner", FLINK]),
        default="FnApiRunner",
        show_default=True,
        help="DirectRunner is another name for FnApiRunner here; flink is a cluster.",
    )
    @job_server_option
    @worker_pool_option
    @rest_option
    @click.option(
        "--parallelism", type=click.IntRange(min=1), help="Of a job on a cluster: how many read and count. [default: 1]"
    )
    @functools.wraps(command)
    def with_engine(
        runner: str,
        job_server: str | None,
        worker_pool: str | None,
        rest: str | None,
        parallelism: int | None,
        **others: Any,
    ) -> int:
        engine = _flink(job_server, worker_pool, rest, parallelism) if runner == FLINK else None
        if engine is None and (job_server or worker_pool or rest or parallelism):
            raise UsageError("--job-server, --worker-pool, --rest and --parallelism go with --runner flink")
        return command(engine=engine, **others)

    return with_engine


def _flink(
    job_server: str | None, worker_pool: str | None, rest: str | None, parallelism: int | None
) -> "BoundedEngine":
    if not (job_server and worker_pool and rest):
        raise UsageError("--runner flink needs --job-server, --worker-pool and --rest")
    from pipelines.streaming.flink.bounded import BoundedFlink

    return BoundedFlink(job_server=job_server, worker_pool=worker_pool, rest=rest, parallelism=parallelism or 1)
