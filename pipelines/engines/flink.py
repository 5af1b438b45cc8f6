"""Apache Flink: the operator's cluster, or a temporary local one to try streams."""

import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.companions import extension
from pipelines.engines import EngineOptions, address
from pipelines.errors import UsageError
from pipelines.option_types import FiniteRange

if TYPE_CHECKING:
    from pipelines.engine import BoundedEngine, Engine


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
            raise UsageError("--savepoint goes with a cluster of your own: the one of --local begins anew")

    def start(self, stack: ExitStack) -> "Engine":
        """Starts Flink, or a local one, until the stack closes."""
        from pipelines.runs.flink.engine import Flink

        settings = asdict(self)
        if settings.pop("local"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
            servers = extension("local-flink", "lab")
            flink, pool = stack.enter_context(servers(state, self.parallelism))
            settings |= {"job_server": flink.address, "worker_pool": pool.address, "rest": flink.rest}
        return Flink(**settings)


def bounded_flink(
    job_server: str | None, worker_pool: str | None, rest: str | None, parallelism: int | None
) -> "BoundedEngine":
    """Makes the engine of a closed range. Raises UsageError."""
    if not (job_server and worker_pool and rest):
        raise UsageError("--runner flink needs --job-server, --worker-pool and --rest")
    from pipelines.runs.flink.engine import BoundedFlink

    return BoundedFlink(job_server=job_server, worker_pool=worker_pool, rest=rest, parallelism=parallelism or 1)


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

STREAM = EngineOptions(
    FlinkStarter,
    (
        click.option("--local", is_flag=True, help="Start a job server and a worker pool on this machine, to try it."),
        *_ADDRESSES,
        click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True),
        click.option("--checkpoint-s", type=FiniteRange(min=0.1), default=10.0, show_default=True),
        click.option(
            "--restarts", type=int, default=-1, show_default=True, help="Of a failed job; -1: as the cluster is set."
        ),
        click.option("--savepoint", metavar="PATH", help="Go on from a savepoint of this specification's stream."),
    ),
)

BOUNDED = EngineOptions(
    bounded_flink,
    (
        *_ADDRESSES,
        click.option(
            "--parallelism",
            type=click.IntRange(min=1),
            help="Of a job on a cluster: how many read and count. [default: 1]",
        ),
    ),
)
