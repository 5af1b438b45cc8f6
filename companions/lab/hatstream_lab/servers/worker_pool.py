"""A worker pool on this machine, in a process of its own; and with a job server, all that a stream to try needs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hatstream_lab.servers.flink import JobServer
from hatstream_lab.servers.process import LOOPBACK, Server, free_ports, is_open

READY_S = 300.0
_PROGRAM = "import hatstream; from pipelines.runs.flink.worker_pool import main; main()"


class WorkerPool:
    """`with WorkerPool(folder) as pool:` a pool at `pool.address`; its workers run this Python. Raises ServerError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_ports(1)[0]

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def __enter__(self) -> "WorkerPool":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._server = Server(
            [sys.executable, "-P", "-c", _PROGRAM, "--address", self.address],
            self._folder / "pool.log",
        )
        self._server.wait(lambda: is_open(self._port), READY_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


@contextmanager
def local_servers(folder: Path, parallelism: int = 1) -> Iterator[tuple[JobServer, WorkerPool]]:
    """Starts a job server with an embedded cluster, and a worker pool. Raises MissingTool or ServerError."""
    with JobServer(folder / "flink", slots=parallelism) as flink, WorkerPool(folder / "pool") as pool:
        yield flink, pool
