"""Bounded jobs on Flink, in batch: handed over, watched, and their metrics read when they have ended."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.runner import PipelineResult, PipelineState

from pipelines.streaming.engine import EngineError, Finished
from pipelines.streaming.flink.engine import FlinkJob, handed_over, where
from pipelines.streaming.flink.rest import Cluster
from transforms import counters
from transforms.errors import StepError
from transforms.ledger import AccountRefusal, LedgerError

WATCH_S = 1.0
KEPT_MS = 30_000
"""A worker waits so long for the next stage: started anew for each of them, workers cost more than small inputs do."""

_KINDS = {kind.__name__: kind for kind in (StepError, LedgerError, AccountRefusal)}
_RAISED = re.compile(rf"^(?:\w+\.)+({'|'.join(_KINDS)}): (.+?)(?: \[while running .*)?$", re.MULTILINE)
"""How Python tells our own errors, whose sentences show nothing of the input."""


@dataclass(frozen=True, kw_only=True)
class BoundedFlink:
    """Where and how a bounded job runs on Flink; addresses are `host:port`. restarts: of a failed job."""

    job_server: str
    worker_pool: str
    rest: str
    parallelism: int = 1
    restarts: int = 3

    def run(
        self, build: Callable[[beam.Pipeline], None], name: str, watch: Callable[[Mapping[str, int]], None]
    ) -> Finished:
        result = handed_over(build, name, self.options, self.job_server)
        cluster = Cluster(self.rest)
        try:
            with _watching(cluster, name, watch):
                self._wait(result)
        except BaseException:
            if (found := cluster.job_named(name)) and cluster.is_running(found):
                FlinkJob(cluster, found).cancel()
            raise
        return finished(result)

    def _wait(self, result: PipelineResult) -> None:
        try:
            state = result.wait_until_finish()
        except Exception as error:
            if type(error).__module__.startswith("grpc"):
                raise EngineError(f"the job server at {self.job_server} was lost while the job ran") from None
            if not isinstance(error, RuntimeError):
                raise
            raise _reason(str(error), self.rest) from None
        if state != PipelineState.DONE:
            raise EngineError(f"the job was ended by somebody else: {state}")

    @property
    def options(self) -> list[str]:
        """Beam's options of the job."""
        return [
            *where(self.job_server, self.worker_pool, self.parallelism),
            f"--environment_cache_millis={KEPT_MS}",
            f"--number_of_execution_retries={self.restarts}",
            "--execution_retry_delay=1000",
        ]


def _reason(text: str, rest: str) -> Exception:
    """What a step raised, if it was an error of ours; else where to look, for other texts may hold what was read."""
    if found := _RAISED.findall(text):
        kind, sentence = found[-1]
        return _KINDS[kind](sentence)
    return EngineError(f"the job failed: Flink's page at {rest} and the log of the job server say why")


def finished(result: PipelineResult) -> Finished:
    found = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    counts = Counter[str]()
    for counter in found["counters"]:
        counts[counter.key.metric.name] += counter.result
    told: dict[str, frozenset[str]] = {}
    for texts in found["string_sets"]:
        name = texts.key.metric.name
        told[name] = told.get(name, frozenset()) | texts.result
    return Finished(counts, told)


@contextmanager
def _watching(cluster: Cluster, name: str, watch: Callable[[Mapping[str, int]], None]) -> Iterator[None]:
    """Shows the job's counters about once a second, where the cluster answers."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(WATCH_S):
            try:
                if found := cluster.job_named(name):
                    watch(cluster.counters(found))
            except OSError:
                continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
