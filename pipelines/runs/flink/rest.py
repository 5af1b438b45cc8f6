"""Client of Flink's REST API: list, monitor, cancel jobs."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, IncompleteRead
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from pipelines.engine import ENDED

COUNTER = ".hatstream_"  # between a step's name and our counter's in Flink's metric, after Beam's namespace
ANSWER_S = 5.0  # until the next bytes of an answer
WHOLE_S = 15.0  # until an answer's end: one that drips is given up
MOST_BYTES = 64 << 20  # of an answer

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
        """Sums our counters since the last (re)start. Raises OSError."""
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
        connection = HTTPConnection(self.rest, timeout=ANSWER_S)
        connection.connect()
        last = threading.Timer(WHOLE_S, _cut, (connection.sock,))  # no other limit ends an answer that drips
        last.daemon = True
        last.start()
        try:
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
        finally:
            last.cancel()
            connection.close()

    def _value_at(self, path: str, key: str, kind: type[T]) -> T:
        """Requests the answer's value at dotted `key` ("": all). Raises OSError."""
        answer = self.ask(path)
        try:
            for name in key.split(".") if key else ():
                answer = msgspec.convert(answer, dict[str, Any])[name]
            return msgspec.convert(answer, kind)
        except (msgspec.ValidationError, KeyError) as error:
            raise self._odd(error) from None

    def _odd(self, error: Exception) -> OSError:
        """Makes the error for an answer that is not Flink's."""
        return OSError(f"{self.rest} does not answer as the REST of Flink does ({type(error).__name__})")


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
