"""Flink as an engine: a pipeline is submitted, found among the cluster's jobs, and ended by the cluster's own word."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import EngineError
from pipelines.runs.flink.job_server import addresses, answer_of, handed_over
from pipelines.runs.flink.rest import Cluster
from transforms.public import Operator

SHOWN_S = 120.0
"""Until the cluster shows a job that was taken: one that is embedded in a job server starts with it."""
CANCEL_S = 60.0
"""Shorter than what supervisors of processes wait for before they kill."""
_LOST = ("FAILED", "CANCELLED", "UNRECOGNIZED")


@dataclass(frozen=True)
class FlinkJob:
    """A job of a cluster, as `StreamJob` asks for it."""

    cluster: Cluster
    id: str

    @property
    def where(self) -> str:
        return self.cluster.rest

    def state(self) -> str | None:
        return self.cluster.state(self.id)

    def counters(self) -> Operator[Mapping[str, int]]:
        return Operator(self.cluster.counters(self.id))

    def cancel(self) -> None:
        until = time.monotonic() + CANCEL_S
        is_asked = False
        while True:
            try:
                if self.cluster.has_ended(self.id):
                    return
                if not is_asked:
                    self.cluster.cancel(self.id)
                    is_asked = True
            except OSError as error:
                if is_asked and isinstance(error, ConnectionRefusedError):
                    return  # a cluster that is embedded in a job server ends with its job
            if time.monotonic() > until:
                asked = "it was asked to" if is_asked else f"{self.where} was asked to end it: it may run on"
                raise EngineError(f"job {self.id} has not ended {CANCEL_S:.0f} s after {asked}")
            time.sleep(0.2)


@dataclass(frozen=True, kw_only=True)
class Flink:
    """Where and how a stream runs on Flink; addresses are `host:port`. savepoint: where to go on, or None.

    restarts: of a failed job; -1: as the cluster is set.
    """

    job_server: str
    worker_pool: str
    rest: str
    parallelism: int = 1
    checkpoint_s: float = 10.0
    restarts: int = -1
    savepoint: str | None = None

    def submit(self, build: Callable[[beam.Pipeline], None], name: str, stop: threading.Event) -> FlinkJob:
        taken = handed_over(build, name, self.options, self.job_server, stop)
        try:
            return answer_of(self.job_server, partial(job_of, taken, name, self.rest), SHOWN_S, stop)
        except TimeoutError as error:
            raise EngineError(
                f"{error}: the cluster at {self.rest} shows no job {name}; it may run on, "
                "on another cluster if the job server sends jobs there"
            ) from None

    @property
    def options(self) -> list[str]:
        """Beam's options of the job.

        `--finish_bundle_before_checkpointing` is not a choice: without it, a checkpoint that meets the bundle of the
        first element swallows that element, and the job waits for ever without a word.
        """
        chosen = [
            *where(self.job_server, self.worker_pool, self.parallelism),
            "--streaming",
            "--finish_bundle_before_checkpointing",
            "--max_bundle_time_mills=100",
            f"--checkpointing_interval={round(self.checkpoint_s * 1_000)}",
            f"--number_of_execution_retries={self.restarts}",
            "--execution_retry_delay=1000",
        ]
        return chosen + ([f"--savepoint_path={self.savepoint}"] if self.savepoint else [])


def where(job_server: str, worker_pool: str, parallelism: int) -> list[str]:
    """Lists Beam's options of any job on a cluster."""
    side_by_side = [f"--parallelism={parallelism}", f"--sdk_worker_parallelism={parallelism}"]
    return addresses(job_server, worker_pool) + side_by_side


def job_of(result: PipelineResult, name: str, rest: str) -> FlinkJob:
    """Finds the cluster's job. Raises EngineError where the job server lost it, TimeoutError where none is shown."""
    cluster, until = Cluster(rest), time.monotonic() + SHOWN_S
    while time.monotonic() < until:
        if job_id := cluster.job_named(name):
            return FlinkJob(cluster, job_id)
        if result.state in _LOST:
            raise EngineError("Flink did not take the job: the log of the job server says why")
        time.sleep(0.2)
    raise TimeoutError(f"not done within {SHOWN_S:.0f} s")
