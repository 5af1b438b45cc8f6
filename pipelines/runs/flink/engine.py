"""Flink engine: submission, job lookup, monitoring and cancellation, with Flink's REST.

A job server takes Beam's pipelines, and starts them as jobs on a cluster, which shows them by REST. A worker pool runs
their Python steps.
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, IncompleteRead
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import quote

import apache_beam as beam
import msgspec
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineState

from pipelines.engine import ENDED, EngineError, Finished, Watch, watched_every
from pipelines.runs.beam.runners import finished, reason_of
from transforms.public import Operator

SHOWN_S = 120.0  # until the cluster shows an accepted job: one that is embedded in a job server starts with it
CANCEL_S = 60.0  # shorter than supervisors of processes wait before they kill
WATCH_S = 5.0  # between two looks at the counters, for each of which Flink asks all its processes
ANSWER_S = 60  # for one answer: a job server translates a whole pipeline for it, slowly on a busy machine
TAKEN_S = 120.0  # for all answers until a job is accepted: Beam asks some again and again, some without a limit
STOP_S = 4.0  # for an answer once the user asked to stop
LOOK_EVERY_S = 0.1
MOST_FAULTS = 8
"""Failures of a job, not by an error of ours, after which it is given up. How often Flink tries again is the cluster's
setting, and in batch a job cannot ask for another one."""
REST_ANSWER_S = 5.0  # until the next bytes of an answer of the cluster
REST_WHOLE_S = 15.0  # until such an answer's end: one that drips is given up
REST_BYTES = 64 << 20  # of such an answer, at most
COUNTER = ".hatstream_"  # between a step's name and our counter's in Flink's metric, after Beam's namespace

T = TypeVar("T")


class _Job(msgspec.Struct):
    jid: str
    name: str
    state: str


class _Named(msgspec.Struct):
    id: str


class _Sum(_Named):
    sum: Annotated[float, msgspec.Meta(ge=0, le=2**62)]


class _Fault(msgspec.Struct):
    stacktrace: str


class Cluster:
    """REST client of a Flink cluster at `host:port`. Raises OSError without answer."""

    def __init__(self, rest: str) -> None:
        self.rest = rest

    def jobs(self) -> Sequence[_Job]:
        """Lists Flink's jobs; empty without an answer, as clusters may live per job."""
        with suppress(OSError):
            return self._overview()
        return []

    def _overview(self) -> Sequence[_Job]:
        return self._value_at("/jobs/overview", "jobs", list[_Job])

    def is_running(self, job_id: str) -> bool:
        """Checks whether the cluster confirms a running job."""
        with suppress(OSError):
            return not self.has_ended(job_id)
        return False

    def job_named(self, name: str) -> str | None:
        """Finds the id of the job of that name."""
        return next((job.jid for job in self.jobs() if job.name == name), None)

    def state(self, job_id: str) -> str | None:
        """Returns the job's state; None if unknown or unanswered."""
        return next((job.state for job in self.jobs() if job.jid == job_id), None)

    def has_ended(self, job_id: str) -> bool:
        """Checks whether the job has ended or is unknown. Raises OSError without an answer."""
        return not any(job.jid == job_id and job.state not in ENDED for job in self._overview())

    def cancel(self, job_id: str) -> None:
        """Cancels the job by Flink's REST; Beam's own `cancel` leaves it running."""
        self.ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def counters(self, job_id: str) -> dict[str, int]:
        """Sums our counters over the job's steps since the last (re)start. Raises OSError."""
        counters = Counter[str]()
        for vertex in self._value_at(f"/jobs/{job_id}", "vertices", list[_Named]):
            path = f"/jobs/{job_id}/vertices/{quote(vertex.id)}/subtasks/metrics"
            names = [entry.id for entry in self._value_at(path, key="", kind=list[_Named]) if COUNTER in entry.id]
            sums = f"{path}?agg=sum&get={quote(','.join(names))}"
            for entry in self._value_at(sums, key="", kind=list[_Sum]) if names else ():
                counters[entry.id.partition(COUNTER)[2]] += int(entry.sum)
        return dict(counters)

    def faults(self, job_id: str) -> list[str]:
        """Lists causes of restarts, newest first. Raises OSError."""
        path = f"/jobs/{job_id}/exceptions"
        return [fault.stacktrace for fault in self._value_at(path, "exceptionHistory.entries", list[_Fault])]

    def ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
        """Requests a path. Raises OSError, also for foreign, truncated or endless answers."""
        data = None if body is None else msgspec.json.encode(body)
        connection = HTTPConnection(self.rest, timeout=REST_ANSWER_S)
        connection.connect()
        time_limit = threading.Timer(REST_WHOLE_S, _cut, (connection.sock,))  # no other limit ends an answer that drips
        time_limit.daemon = True
        time_limit.start()
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read(REST_BYTES + 1)
            if not 200 <= answer.status < 300 or len(text) > REST_BYTES:
                raise OSError(f"{self.rest} answers with {answer.status} and {len(text):,} bytes")
            if answer.length:
                raise IncompleteRead(text, answer.length)
            return json.loads(text)
        except (HTTPException, ValueError, RecursionError) as error:
            raise self._foreign(error) from None
        finally:
            time_limit.cancel()
            connection.close()

    def _value_at(self, path: str, key: str, kind: type[T]) -> T:
        """Requests the answer's value at dotted `key` ("": all). Raises OSError."""
        answer = self.ask(path)
        try:
            for name in key.split(".") if key else ():
                answer = msgspec.convert(answer, dict[str, Any])[name]
            return msgspec.convert(answer, kind)
        except (msgspec.ValidationError, KeyError) as error:
            raise self._foreign(error) from None

    def _foreign(self, error: Exception) -> OSError:
        """Makes the error for answers that are not Flink's."""
        return OSError(f"{self.rest} does not answer as the REST of Flink does ({type(error).__name__})")


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class FlinkJob:
    """Stream's job on a Flink cluster."""

    cluster: Cluster
    id: str

    def state(self) -> str | None:
        """Returns Flink's state of the job; None without answer."""
        return self.cluster.state(self.id)

    def counters(self) -> Operator[Mapping[str, int]]:
        """Reads counters since the last (re)start; `_` may replace names' spaces. Raises OSError."""
        return Operator(self.cluster.counters(self.id))

    def cancel(self) -> None:
        """Cancels the job and awaits its end. Raises EngineError."""
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
                request = "it was asked to" if is_asked else f"{self.cluster.rest} was asked to end it: it may run on"
                raise EngineError(f"job {self.id} has not ended {CANCEL_S:.0f} s after {request}")
            time.sleep(0.2)


@dataclass(frozen=True, kw_only=True)
class Flink:
    """Flink engine of streams and bounded jobs; addresses are `host:port`.

    savepoint: starting point of a stream, or None. restarts: limit for a failed stream; -1 for the cluster's setting.
    A source's watermark must be the minimum over all its restrictions, also those that wait for their next poll.
    Beyond it Flink drops unread rows as late, uncounted, and seals slots without them (tests/stream/test_engines.py).
    """

    job_server: str
    worker_pool: str
    rest: str
    parallelism: int = 1
    checkpoint_s: float = 10.0
    restarts: int = -1
    savepoint: str | None = None
    is_here: ClassVar[bool] = False

    def submit(self, build: Callable[[beam.Pipeline], None], name: str, stop: threading.Event) -> FlinkJob:
        """Submits a streaming pipeline, and returns its job when the cluster shows it.

        build: adds the steps to an empty pipeline. name: unique on the cluster, as the job is found by it.
        Raises EngineError, also without acceptance for TAKEN_S or a job for SHOWN_S, or STOP_S once `stop` is set.
        """
        result, cluster = submit_pipeline(build, name, self.options, self.job_server, stop), Cluster(self.rest)

        def shown() -> FlinkJob:
            until = time.monotonic() + SHOWN_S  # a limit of its own, so that its thread ends too
            while time.monotonic() < until:
                if job_id := cluster.job_named(name):
                    return FlinkJob(cluster, job_id)
                if result.state in ("FAILED", "CANCELLED", "UNRECOGNIZED"):  # Beam's: such a job will not be shown
                    raise EngineError("Flink did not take the job: the log of the job server says why")
                time.sleep(0.2)
            raise TimeoutError(f"not done within {SHOWN_S:.0f} s")

        try:
            return await_answer(self.job_server, shown, SHOWN_S, stop)
        except TimeoutError as error:
            raise EngineError(
                f"{error}: the cluster at {self.rest} shows no job {name}; it may run on, "
                "on another cluster if the job server sends jobs there"
            ) from None

    @property
    def options(self) -> list[str]:
        """Returns Beam's options of the job.

        `--finish_bundle_before_checkpointing` is mandatory: otherwise a checkpoint that meets the bundle of the first
        element swallows it, and the job waits for ever, silently.
        """
        chosen = [
            *addresses(self.job_server, self.worker_pool, self.parallelism),
            "--streaming",
            "--finish_bundle_before_checkpointing",
            "--max_bundle_time_mills=100",  # rows wait no longer for others
            f"--checkpointing_interval={round(self.checkpoint_s * 1_000)}",
            f"--number_of_execution_retries={self.restarts}",
            "--execution_retry_delay=1000",
        ]
        return chosen + ([f"--savepoint_path={self.savepoint}"] if self.savepoint else [])

    def run(self, build: Callable[[beam.Pipeline], None], name: str, watch: Watch) -> Finished:
        """Runs a bounded pipeline to its end. watch: takes counters by name, every WATCH_S."""
        # --environment_cache_millis is left out: it would keep a worker from stage to stage even when that has died.
        options = addresses(self.job_server, self.worker_pool, self.parallelism)
        result = submit_pipeline(build, name, options, self.job_server)
        cluster, reasons = Cluster(self.rest), list[Exception]()  # errors to end the job for, of which the first counts

        def look() -> None:
            """Shows the job's counters; cancels it on a step's own error, to prevent retries."""
            with suppress(OSError):
                if job := cluster.job_named(name):
                    watch(cluster.counters(job))
                    if why := fault(cluster.faults(job), self.rest):
                        reasons.append(why)
                    if reasons:
                        cluster.cancel(job)

        try:
            with watched_every(WATCH_S, look):
                state = result.wait_until_finish()
        except BaseException as error:
            if (job := cluster.job_named(name)) and cluster.is_running(job):
                FlinkJob(cluster, job).cancel()
            if type(error).__module__.startswith("grpc"):
                raise EngineError(f"the job server at {self.job_server} was lost while the job ran") from None
            if not isinstance(error, RuntimeError):
                raise
            # The job ended by this error, as if Flink had shown it MOST_FAULTS times: so `fault` returns a reason.
            raise next(iter(reasons), None) or fault([str(error)] * MOST_FAULTS, self.rest) or error from None
        if state != PipelineState.DONE:
            raise EngineError(f"the job was ended by somebody else: {state}")
        return finished(result)


def addresses(job_server: str, worker_pool: str, parallelism: int = 1) -> list[str]:
    """Lists Beam's options for job server and worker pool."""
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_server}",
        "--environment_type=EXTERNAL",
        f"--environment_config={worker_pool}",
        f"--job_server_timeout={ANSWER_S}",
        "--experiments=disable_logging_submission_environment",  # Beam would run pip to list our packages
        f"--parallelism={parallelism}",
        f"--sdk_worker_parallelism={parallelism}",
    ]


def submit_pipeline(
    build: Callable[[beam.Pipeline], None],
    name: str,
    options: Sequence[str],
    job_server: str,
    stop: threading.Event | None = None,
) -> PipelineResult:
    """Submits the pipeline of `build`. Raises EngineError if it is not accepted in time."""
    p = beam.Pipeline(options=PipelineOptions([*options, f"--job_name={name}"]))
    build(p)
    try:
        return await_answer(job_server, p.run, TAKEN_S, stop or threading.Event())
    except TimeoutError as error:
        raise EngineError(f"{error}: if the job server at {job_server} takes job {name} yet, it may run on") from None


def await_answer(job_server: str, ask: Callable[[], T], within_s: float, stop: threading.Event) -> T:
    """Returns the result of `ask`, run in a thread.

    Raises TimeoutError after `within_s`, or STOP_S after `stop` is set; EngineError without a job server.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised again, where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    until, message = time.monotonic() + within_s, f"not done within {within_s:.0f} s"
    while not wait([answer], LOOK_EVERY_S).done:
        if stop.is_set() and until > time.monotonic() + STOP_S:
            until, message = time.monotonic() + STOP_S, f"not done within {STOP_S:.0f} s of the wish to stop"
        if time.monotonic() > until:
            raise TimeoutError(message)
    try:
        return answer.result()
    except Exception as error:
        if not type(error).__module__.startswith("grpc"):
            raise
        raise EngineError(f"no job server answers at {job_server}") from None


def fault(faults: Sequence[str], rest: str) -> Exception | None:
    """Returns the error that ends a job, if any. faults: texts of its failures."""
    reason = next((error for text in faults if (error := reason_of(text))), None)
    if reason is None and len(faults) >= MOST_FAULTS:
        return EngineError(f"the job failed: Flink's page at {rest} and the log of the job server say why")
    return reason
