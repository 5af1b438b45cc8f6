"""Beam's Flink job server with an embedded cluster on this machine, the options of a job, and its REST.

Two classes of Beam are replaced (java/): one keeps it on 127.0.0.1, where as Beam ships it anybody on the network may
send it a program to run; the other keeps a source's polls from filling its memory.
"""

import json
import os
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.engines.maven import class_path, compiled
from pipelines.engines.process import LOOPBACK, Server, ServerError, free_ports, is_open

READY_S = 90.0
SAVEPOINT_S = 60.0
_MAIN = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_JAVA = ("java", "-Xmx1g", "-XX:+UseSerialGC", "--add-opens=java.base/java.util=ALL-UNNAMED")
_ENDED = ("FINISHED", "CANCELED", "FAILED")
_CONFIGURATION = """\
rest:
  port: {rest}
  address: {host}
  bind-address: {host}
jobmanager:
  bind-host: {host}
  rpc:
    address: {host}
taskmanager:
  bind-host: {host}
  host: {host}
  numberOfTaskSlots: {slots}
state:
  checkpoints:
    dir: {folder}/checkpoints
  savepoints:
    dir: {folder}/savepoints
"""


def options(
    job_server: str, worker_pool: str, *, parallelism: int = 1, checkpoint_s: float = 10.0, restarts: int = -1
) -> list[str]:
    """The options of an unbounded job. Addresses are `host:port`. restarts: of a failed job; -1: as Flink is set.

    `--finish_bundle_before_checkpointing` is no choice: without it, a checkpoint that meets the bundle of the first
    element swallows that element, and the job waits for ever without a word.
    """
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_server}",
        "--environment_type=EXTERNAL",
        f"--environment_config={worker_pool}",
        f"--parallelism={parallelism}",
        "--streaming",
        "--finish_bundle_before_checkpointing",
        "--max_bundle_time_mills=100",
        f"--checkpointing_interval={round(checkpoint_s * 1_000)}",
        f"--number_of_execution_retries={restarts}",
        "--execution_retry_delay=1000",
    ]


class JobServer:
    """`with JobServer(folder) as flink:` jobs are taken at `flink.address`. Raises MissingTool or ServerError."""

    def __init__(self, folder: Path, slots: int = 2) -> None:
        self._folder, self._slots = folder, slots
        self._port, self._artifacts, self._rest = free_ports(3)
        self._server: Server | None = None

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def __enter__(self) -> "JobServer":
        configuration = self._folder / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        (configuration / "config.yaml").write_text(
            _CONFIGURATION.format(host=LOOPBACK, rest=self._rest, slots=self._slots, folder=self._folder.as_uri())
        )
        command = [*_JAVA, "-cp", _classes(), _MAIN, "--flink-master=[local]", f"--flink-conf-dir={configuration}"]
        command += [f"--job-host={LOOPBACK}", f"--job-port={self._port}", f"--artifact-port={self._artifacts}"]
        command += ["--expansion-port=-1", f"--artifacts-dir={self._folder / 'artifacts'}"]
        self._server = Server(command, self._folder / "job-server.log")
        self._server.wait(lambda: is_open(self._port), READY_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is None:
            return
        for job in self.jobs():
            if self.is_running(job["jid"]):
                self.cancel(job["jid"])
        self._server.stop()

    def jobs(self) -> Sequence[dict[str, Any]]:
        """Flink's jobs, with `jid` and `state`. Empty before the first: Beam says RUNNING before there is one."""
        try:
            found: list[dict[str, Any]] = json.loads(self._ask("/jobs/overview"))["jobs"]
        except OSError:  # the cluster starts with its first job
            return []
        return found

    def is_running(self, job_id: str) -> bool:
        """Whether it has not ended, or not yet."""
        return any(job["jid"] == job_id and job["state"] not in _ENDED for job in self.jobs())

    def cancel(self, job_id: str) -> None:
        """Beam's own `cancel` leaves the job of Flink running."""
        self._ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def savepoint_and_cancel(self, job_id: str) -> str:
        """Ends a job so that another can go on from the returned place: `--savepoint_path=...`. Raises ServerError."""
        wanted = {"cancel-job": True, "target-directory": (self._folder / "savepoints").as_uri()}
        asked = json.loads(self._ask(f"/jobs/{job_id}/savepoints", "POST", wanted))["request-id"]
        until = time.monotonic() + SAVEPOINT_S
        while time.monotonic() < until:
            found = json.loads(self._ask(f"/jobs/{job_id}/savepoints/{asked}"))
            if found["status"]["id"] == "COMPLETED" and "location" in found["operation"]:
                place: str = found["operation"]["location"]
                return place
            time.sleep(0.2)
        raise ServerError(f"no savepoint of job {job_id} after {SAVEPOINT_S:.0f} s")

    def checkpoint_bytes(self, job_id: str) -> int:
        """The size of the job's newest finished checkpoint; 0 before the first."""
        newest = json.loads(self._ask(f"/jobs/{job_id}/checkpoints"))["latest"]["completed"]
        return int(newest["state_size"]) if newest else 0

    def has_restarted(self, job_id: str) -> bool:
        """Whether Flink had to start the job again."""
        return bool(json.loads(self._ask(f"/jobs/{job_id}"))["timestamps"]["RESTARTING"])

    def _ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{LOOPBACK}:{self._rest}{path}", data, headers, method=method)
        with opener.open(request, timeout=5) as answer:
            found: bytes = answer.read()
        return found


def _classes() -> str:
    classes = class_path("flink")
    ours = compiled(sorted(Path(__file__).with_name("java").glob("*.java")), classes)
    return f"{ours}{os.pathsep}{classes}"
