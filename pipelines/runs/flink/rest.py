"""The REST of a Flink cluster: which jobs it has, how they are, and how they are ended."""

import json
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from pipelines.engine import ENDED

COUNTER = ".hatstream_"
"""What Flink writes between a step's name and the name of one of our counters (namespace `hatstream`)."""


class Cluster:
    """rest: `host:port`. Raises OSError where nobody answers."""

    def __init__(self, rest: str) -> None:
        self.rest = rest

    def jobs(self) -> Sequence[dict[str, Any]]:
        """Flink's jobs, with `jid` and `state`. Empty before the first: Beam says RUNNING before there is one."""
        try:
            return self._overview()
        except OSError:  # the cluster starts with its first job
            return []

    def is_running(self, job_id: str) -> bool:
        """Whether somebody answers and says that it has not ended, or not yet."""
        try:
            return not self.has_ended(job_id)
        except OSError:
            return False

    def job_named(self, name: str) -> str | None:
        """The id of the job of that name."""
        return next((job["jid"] for job in self.jobs() if job["name"] == name), None)

    def state(self, job_id: str) -> str | None:
        """RUNNING, RESTARTING, FAILED ..; None where nobody answers or knows it."""
        return next((job["state"] for job in self.jobs() if job["jid"] == job_id), None)

    def has_ended(self, job_id: str) -> bool:
        """Whether it is over, or nobody knows it. Raises OSError where nobody answers."""
        return not any(job["jid"] == job_id and job["state"] not in ENDED for job in self._overview())

    def cancel(self, job_id: str) -> None:
        """Beam's own `cancel` leaves the job of Flink running."""
        self.ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def counters(self, job_id: str) -> dict[str, int]:
        """Our counters since the job was started or started again, spaces written as `_`. Raises OSError."""
        found: dict[str, int] = {}
        for vertex in self.ask(f"/jobs/{job_id}")["vertices"]:
            path = f"/jobs/{job_id}/vertices/{vertex['id']}/subtasks/metrics"
            names = [name for entry in self.ask(path) if COUNTER in (name := entry["id"])]
            if not names:
                continue
            for entry in self.ask(f"{path}?agg=sum&get={quote(','.join(names))}"):
                name = entry["id"].partition(COUNTER)[2]
                found[name] = found.get(name, 0) + int(entry["sum"])
        return found

    def faults(self, job_id: str) -> list[str]:
        """What made Flink start the job again, or end it, the newest first: some of them. Raises OSError."""
        history = self.ask(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
        return [str(entry["stacktrace"]) for entry in history]

    def ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
        """Raises OSError, also where what answers is no REST of Flink, or breaks off."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            request = urllib.request.Request(f"http://{self.rest}{path}", data, headers, method=method)
            with opener.open(request, timeout=5) as answer:
                return json.loads(answer.read())
        except (HTTPException, ValueError) as error:
            raise OSError(f"{self.rest} does not answer as the REST of Flink does ({type(error).__name__})") from None

    def _overview(self) -> Sequence[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("/jobs/overview")["jobs"]
        return found
