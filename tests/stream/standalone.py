"""A standalone Flink cluster on this machine: a job manager and task managers, each a process of its own.

It reads an operator's `config.yaml` as it is; what one machine needs otherwise comes on the command line, as `-D`.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from hatstream_lab.servers.flink import JAVA
from hatstream_lab.servers.process import LOOPBACK, Server, class_path, free_ports, is_open
from pipelines.runs.flink.engine import Cluster
from tests.stream.cluster import slots_in_use

READY_S = 300.0
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_RESOURCES = {
    "taskmanager.cpu.cores": "1",
    "taskmanager.memory.task.heap.size": "384m",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.managed.size": "64m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
}
"""What Flink's own start script works out from the size of a process."""


class Standalone(Cluster):
    """`with Standalone(folder, configuration) as cluster:` a job manager and `task_managers` that have joined it.

    configuration: a `config.yaml` of Flink. settings: replace some of its own. java: further options of each process.
    Raises MissingTool or ServerError.
    """

    def __init__(
        self,
        folder: Path,
        configuration: Path,
        settings: Mapping[str, str] | None = None,
        task_managers: int = 1,
        java: Sequence[str] = (),
    ) -> None:
        rest, rpc, blobs = free_ports(3)
        super().__init__(f"{LOOPBACK}:{rest}")
        self._folder, self._configuration, self._first, self._rest_port = folder, configuration, task_managers, rest
        self._settings = {
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": str(rest),
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.rpc.port": str(rpc),
            "jobmanager.bind-host": LOOPBACK,
            "blob.server.port": str(blobs),
            "taskmanager.host": LOOPBACK,
            "taskmanager.bind-host": LOOPBACK,
            "io.tmp.dirs": str(folder / "tmp"),
            "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
            "state.savepoints.dir": (folder / "savepoints").as_uri(),
            "metrics.fetcher.update-interval": "1000",
            "pekko.ask.timeout": "5 min",  # a busy machine answers late
            **(settings or {}),
        }
        self._java = (*JAVA, *java)
        self._numbers = count(1)
        self._running: dict[str, Server] = {}

    def __enter__(self) -> "Standalone":
        (self._folder / "conf").mkdir(parents=True, exist_ok=True)
        (self._folder / "tmp").mkdir(exist_ok=True)
        shutil.copy(self._configuration, self._folder / "conf" / "config.yaml")
        try:
            self._start("job-manager", _JOB_MANAGER, {}).wait(lambda: is_open(self._rest_port), READY_S)
            for _ in range(self._first):
                self.start_task_manager()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_task_manager(self) -> str:
        """The name of one more, which has joined."""
        name = f"task-manager-{next(self._numbers)}"
        server = self._start(name, _TASK_MANAGER, _RESOURCES | {"taskmanager.resource-id": name})
        server.wait(lambda: name in slots_in_use(self), READY_S)
        return name

    def kill_task_manager(self, name: str) -> None:
        """Ends it at once, as a crash would."""
        self._running.pop(name).kill()

    def __exit__(self, *_: object) -> None:
        while self._running:
            self._running.popitem()[1].stop()

    def _start(self, name: str, program: str, more: Mapping[str, str]) -> Server:
        settings = [f"-D{key}={value}" for key, value in {**self._settings, **more}.items()]
        command = [*self._java, "-cp", flink_alone(), program, "--configDir", str(self._folder / "conf"), *settings]
        self._running[name] = Server(command, self._folder / f"{name}.log")
        return self._running[name]


def flink_alone() -> str:
    """Flink's class path without Beam, as a cluster has it: Beam comes with each job. It may raise MissingTool."""
    jars = class_path("flink").split(os.pathsep)
    return os.pathsep.join(jar for jar in jars if "/org/apache/beam/" not in jar)
