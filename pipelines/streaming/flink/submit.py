"""A pipeline on Flink: submitted, found among the cluster's jobs, and ended by the cluster's own word."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.demo.servers.flink import JobServer, options
from pipelines.demo.servers.process import ServerError
from pipelines.streaming.flink.rest import Cluster
from pipelines.streaming.worker_pool import WorkerPool

SUBMIT_S = 90.0
CANCEL_S = 30.0
_LOST = ("FAILED", "CANCELLED", "UNRECOGNIZED")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where and how a stream runs; addresses are `host:port`. savepoint: where to go on, or None."""

    job_server: str
    worker_pool: str
    rest: str
    parallelism: int = 1
    checkpoint_s: float = 10.0
    restarts: int = -1
    savepoint: str | None = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.rest)

    @property
    def options(self) -> list[str]:
        chosen = options(
            self.job_server,
            self.worker_pool,
            parallelism=self.parallelism,
            checkpoint_s=self.checkpoint_s,
            restarts=self.restarts,
        )
        chosen.append(f"--sdk_worker_parallelism={self.parallelism}")
        return chosen + ([f"--savepoint_path={self.savepoint}"] if self.savepoint else [])


@contextmanager
def local_servers(folder: Path, parallelism: int = 1) -> Iterator[tuple[JobServer, WorkerPool]]:
    """A job server with an embedded cluster, and a worker pool, on this machine. Raises MissingTool or ServerError."""
    with JobServer(folder / "flink", slots=parallelism) as flink, WorkerPool(folder / "pool") as pool:
        yield flink, pool


def submit(build: Callable[[beam.Pipeline], None], engine: Engine, name: str) -> str:
    """Submits a pipeline; returns Flink's id of its job. name: of no other job. Raises ServerError."""
    p = beam.Pipeline(options=PipelineOptions([*engine.options, f"--job_name={name}"]))
    build(p)
    try:
        result = p.run()
    except Exception as error:
        if not type(error).__module__.startswith("grpc"):
            raise
        raise ServerError(f"no job server answers at {engine.job_server}") from None
    until = time.monotonic() + SUBMIT_S
    while time.monotonic() < until:
        if found := engine.cluster.job_named(name):
            return found
        if result.state in _LOST:
            raise ServerError("Flink did not take the job: the log of the job server says why")
        time.sleep(0.2)
    raise ServerError(
        f"the cluster at {engine.rest} shows no job {name} after {SUBMIT_S:.0f} s: "
        "if the job server sends jobs to another cluster, it runs there"
    )


def cancel(cluster: Cluster, job_id: str) -> None:
    """Ends a job and waits until it has. Raises ServerError where it has not, or where nobody can say."""
    until = time.monotonic() + CANCEL_S
    is_asked = False
    while True:
        try:
            if cluster.has_ended(job_id):
                return
            if not is_asked:
                cluster.cancel(job_id)
                is_asked = True
        except OSError as error:
            if is_asked and isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                return  # a cluster that is embedded in a job server ends with its job
        if time.monotonic() > until:
            asked = "it was asked to" if is_asked else f"{cluster.rest} was asked to end it: it may run on"
            raise ServerError(f"job {job_id} has not ended {CANCEL_S:.0f} s after {asked}")
        time.sleep(0.2)
