"""The REST of a Flink cluster: which jobs it has, how they are, and how they are ended."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, IncompleteRead
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from pipelines.engine import ENDED

COUNTER = ".hatstream_"
"""What Flink writes between a step's name and the name of one of our counters (namespace `hatstream`)."""
ANSWER_S = 5.0
WHOLE_S = 15.0
"""An answer that drips is given up after so long."""
MOST_BYTES = 64 << 20

T = TypeVar("T")


class _Job(msgspec.Struct):
    jid: str
    name: str
    state: str


class _Jobs(msgspec.Struct):
    jobs: list[_Job]


class _Named(msgspec.Struct):
    id: str


class _Sum(_Named):
    sum: Annotated[float, msgspec.Meta(ge=0, le=2**62)]


class _Vertices(msgspec.Struct):
    vertices: list[_Named]


class _Fault(msgspec.Struct):
    stacktrace: str


class _History(msgspec.Struct):
    entries: list[_Fault]


class _Faults(msgspec.Struct):
    exceptionHistory: _History


class Cluster:
    """rest: `host:port`. Raises OSError where nobody answers."""

    def __init__(self, rest: str) -> None:
        self.rest = rest

    def jobs(self) -> Sequence[_Job]:
        """Lists Flink's jobs. Empty before the first: Beam says RUNNING before there is one."""
        try:
            return self._overview()
        except OSError:  # the cluster starts with its first job
            return []

    def is_running(self, job_id: str) -> bool:
        """Says whether somebody answers and tells that the job has not ended yet."""
        try:
            return not self.has_ended(job_id)
        except OSError:
            return False

    def job_named(self, name: str) -> str | None:
        """Finds the id of the job of that name."""
        return next((job.jid for job in self.jobs() if job.name == name), None)

    def state(self, job_id: str) -> str | None:
        """Tells the state: RUNNING, RESTARTING, FAILED ..; None where nobody answers or knows it."""
        return next((job.state for job in self.jobs() if job.jid == job_id), None)

    def has_ended(self, job_id: str) -> bool:
        """Says whether the job is over, or nobody knows it. Raises OSError where nobody answers."""
        return not any(job.jid == job_id and job.state not in ENDED for job in self._overview())

    def cancel(self, job_id: str) -> None:
        """Cancels the job by Flink's REST: Beam's own `cancel` leaves the job of Flink running."""
        self.ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def counters(self, job_id: str) -> dict[str, int]:
        """Sums our counters since the job was started or started again, spaces written as `_`. Raises OSError."""
        counters: dict[str, int] = {}
        for vertex in self._asked(f"/jobs/{job_id}", _Vertices).vertices:
            path = f"/jobs/{job_id}/vertices/{quote(vertex.id)}/subtasks/metrics"
            names = [entry.id for entry in self._asked(path, list[_Named]) if COUNTER in entry.id]
            if not names:
                continue
            for entry in self._asked(f"{path}?agg=sum&get={quote(','.join(names))}", list[_Sum]):
                name = entry.id.partition(COUNTER)[2]
                counters[name] = counters.get(name, 0) + int(entry.sum)
        return counters

    def faults(self, job_id: str) -> list[str]:
        """Lists what made Flink start the job again, or end it, the newest first: some of them. Raises OSError."""
        history = self._asked(f"/jobs/{job_id}/exceptions", _Faults).exceptionHistory.entries
        return [entry.stacktrace for entry in history]

    def ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
        """Raises OSError, also where what answers is no REST of Flink, breaks off, or does not come to an end."""
        data = None if body is None else json.dumps(body).encode()
        try:
            with _exchange(HTTPConnection(self.rest, timeout=ANSWER_S)) as connection:
                connection.request(method, path, data, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read(MOST_BYTES + 1)
            if not 200 <= answer.status < 300 or len(text) > MOST_BYTES:
                raise OSError(f"{self.rest} answers with {answer.status} and {len(text):,} bytes")
            if answer.length:
                raise IncompleteRead(text, answer.length)
            return json.loads(text)
        except (HTTPException, ValueError, RecursionError) as error:
            raise self._odd(error) from None

    def _asked(self, path: str, kind: type[T]) -> T:
        """Asks for an answer of that form. Raises OSError."""
        try:
            return msgspec.convert(self.ask(path), kind)
        except msgspec.ValidationError as error:
            raise self._odd(error) from None

    def _odd(self, error: Exception) -> OSError:
        return OSError(f"{self.rest} does not answer as the REST of Flink does ({type(error).__name__})")

    def _overview(self) -> Sequence[_Job]:
        return self._asked("/jobs/overview", _Jobs).jobs


@contextmanager
def _exchange(connection: HTTPConnection) -> Iterator[HTTPConnection]:
    """Opens an exchange, closes it at the end, and cuts it off after WHOLE_S: other limits never end one that drips."""
    connection.connect()
    taken: socket.socket = connection.sock

    def cut() -> None:
        with suppress(OSError):
            taken.shutdown(socket.SHUT_RDWR)

    last = threading.Timer(WHOLE_S, cut)
    last.daemon = True
    last.start()
    try:
        yield connection
    finally:
        last.cancel()
        connection.close()
