"""A standalone Flink cluster of processes on this machine, and what tests ask of one that the product does not.

It reads an operator's `config.yaml` as it is; what one machine needs otherwise comes on the command line, as `-D`.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from hatstream_lab.servers import flink
from hatstream_lab.servers.flink import JAVA
from hatstream_lab.servers.process import LOOPBACK, Server, class_path, free_ports, is_open
from pipelines.runs.flink.engine import Cluster

SAVEPOINT_S = 60.0
BUSY = 4
"""So many times longer than on a quiet machine these tests wait: with sixteen processes on two cores they failed."""


class JobServer(flink.JobServer, Cluster):
    """A job server whose cluster is asked too."""


def has_restarted(cluster, job_id):
    """Whether Flink had to start the job again."""
    return bool(cluster.ask(f"/jobs/{job_id}")["timestamps"]["RESTARTING"])


def has_ended(cluster, job_id):
    """Whether the job is over. One inside of a job server takes its cluster with it."""

    def told():
        try:
            return "over" if cluster.has_ended(job_id) else "not over"
        except ConnectionRefusedError:
            return "over"

    return wait_for(told, 60) == "over"


def has_gone_on(cluster, job_id):
    """Whether Flink started the job again from a checkpoint, not from the beginning."""
    return bool(cluster.ask(f"/jobs/{job_id}/checkpoints")["counts"]["restored"])


def checkpoint_bytes(cluster, job_id):
    """The size of the job's newest finished checkpoint; 0 before the first."""
    newest = cluster.ask(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
    return int(newest["state_size"]) if newest else 0


def checkpoint(cluster, job_id):
    """Makes one more checkpoint than the interval asks for."""

    def finished():
        return int(cluster.ask(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])

    before = finished()
    cluster.ask(f"/jobs/{job_id}/checkpoints", "POST", {"checkpointType": "FULL"})
    wait_for(lambda: finished() != before, SAVEPOINT_S)


def savepoint(cluster, job_id, *, cancel=False):
    """Where another job can go on; this one goes on too unless it is cancelled."""
    asked = cluster.ask(f"/jobs/{job_id}/savepoints", "POST", {"cancel-job": cancel})["request-id"]

    def location():
        savepoint = cluster.ask(f"/jobs/{job_id}/savepoints/{asked}")
        return savepoint["status"]["id"] == "COMPLETED" and savepoint["operation"].get("location")

    return wait_for(location, SAVEPOINT_S)


def slots_in_use(cluster):
    """How many slots of each task manager that has joined take part in jobs. Empty while nobody answers."""
    try:
        joined = cluster.ask("/taskmanagers")["taskmanagers"]
    except OSError:
        return {}
    return {manager["id"]: manager["slotsNumber"] - manager["freeSlots"] for manager in joined}


def wait_for(look, seconds):
    """What `look` answers as soon as it is something. seconds: a quiet machine's; a busy one is waited for.

    A cluster that is too busy to answer in time is asked again.
    """
    until = time.monotonic() + BUSY * seconds
    while time.monotonic() < until:
        with suppress(OSError):
            if answer := look():
                return answer
        time.sleep(0.2)
    raise AssertionError(f"nothing after {BUSY * seconds} s")


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


LISTENING = "0A"
ONLY_HERE = {"0100007F", "0000000000000000FFFF00000100007F"}  # as the kernel writes 127.0.0.1, alone and in IPv6


def offspring(pid):
    """The ids of all processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    below, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - below
        below |= new
    return below


def listeners(pids):
    """(address, port) in the kernel's hexadecimal, of every TCP socket that these processes listen on."""
    addresses, sockets = set(), set()
    for pid in pids:
        with suppress(OSError):  # the process has ended
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # it was closed
                    sockets.add(os.readlink(fd))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                addresses.add(tuple(fields[1].split(":")))
    return addresses
