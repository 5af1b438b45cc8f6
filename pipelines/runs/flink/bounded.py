"""Bounded jobs on Flink, in batch: handed over, watched, and their metrics read when they have ended."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from pipelines.engine import EngineError, Finished
from pipelines.runs.beam.results import finished, reason_of
from pipelines.runs.flink.engine import FlinkJob, where
from pipelines.runs.flink.job_server import handed_over
from pipelines.runs.flink.rest import Cluster

WATCH_S = 5.0
"""Each look at the counters has Flink gather all that all its processes count."""
MOST_FAULTS = 8
"""Of a job, of those that none of our own errors explains. How often Flink tries again is the cluster's setting, and in
batch a job cannot ask for another one."""


@dataclass(frozen=True, kw_only=True)
class BoundedFlink:
    """Where and how a bounded job runs on Flink; addresses are `host:port`."""

    job_server: str
    worker_pool: str
    rest: str
    parallelism: int = 1
    is_here: ClassVar[bool] = False

    def run(
        self, build: Callable[[beam.Pipeline], None], name: str, watch: Callable[[Mapping[str, int]], None]
    ) -> Finished:
        result = handed_over(build, name, self.options, self.job_server)
        with _Watching(Cluster(self.rest), name, watch) as watching:
            try:
                state = result.wait_until_finish()
            except Exception as error:
                if type(error).__module__.startswith("grpc"):
                    raise EngineError(f"the job server at {self.job_server} was lost while the job ran") from None
                if not isinstance(error, RuntimeError):
                    raise
                raise watching.reason or reason_of(str(error)) or _unknown(self.rest) from None
        if state != PipelineState.DONE:
            raise EngineError(f"the job was ended by somebody else: {state}")
        return finished(result)

    @property
    def options(self) -> list[str]:
        """Beam's options of the job.

        Not `--environment_cache_millis`: a worker that is kept from stage to stage is kept when it has died, too.
        """
        return where(self.job_server, self.worker_pool, self.parallelism)


class _Watching:
    """While the block lasts, shows the job's counters every WATCH_S seconds, where the cluster answers.

    An error of ours is an answer, not a fault of the cluster: the job is ended, not tried again. When the block ends by
    an error, so does the job.
    """

    def __init__(self, cluster: Cluster, name: str, watch: Callable[[Mapping[str, int]], None]) -> None:
        self._cluster, self._name, self._watch = cluster, name, watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.reason: Exception | None = None

    def __enter__(self) -> "_Watching":
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is not None and (job := self._cluster.job_named(self._name)) and self._cluster.is_running(job):
            FlinkJob(self._cluster, job).cancel()

    def _look(self) -> None:
        while not self._ended.wait(WATCH_S):
            try:
                job = self._cluster.job_named(self._name)
                if job is None:
                    continue
                self._watch(self._cluster.counters(job))
                self.reason = self.reason or fault(self._cluster.faults(job), self._cluster.rest)
                if self.reason is not None:
                    self._cluster.cancel(job)
            except OSError:
                continue


def fault(faults: Sequence[str], rest: str) -> Exception | None:
    """Says why the job should not be tried again, if it should not."""
    reason = next((said for text in faults if (said := reason_of(text))), None)
    return reason or (_unknown(rest) if len(faults) >= MOST_FAULTS else None)


def _unknown(rest: str) -> EngineError:
    return EngineError(f"the job failed: Flink's page at {rest} and the log of the job server say why")
