"""`deploy/flink` as an operator uses it: its files, a cluster of several processes, and Flink's own commands."""

import os
import re
import signal
import subprocess
import sys

import pytest

from hatstream_lab.servers.flink import JAVA, job_server_jar
from hatstream_lab.servers.process import LOOPBACK, Server, free_ports, is_open
from tests.stream import cluster as clusters
from tests.stream.cluster import ONLY_HERE, Standalone, flink_alone, has_gone_on, listeners, offspring, wait_for
from tests.stream.conftest import CONFIGURATION, QUICK, fetched
from tests.stream.minutes import Running, Town, refused

DEPLOY = CONFIGURATION.parent
READY_S = 300


@pytest.fixture
def cluster(tmp_path):
    """Two task managers of one slot each, so that a job of parallelism 2 needs both."""
    fetched("flink")
    settings = QUICK | {"taskmanager.numberOfTaskSlots": "1"}
    with Standalone(tmp_path / "cluster", CONFIGURATION, settings, task_managers=2) as running:
        yield running


@pytest.fixture
def started(tmp_path):
    """Starts one of the scripts; it listens on the port before this returns."""
    servers = []

    def start(script, port, *arguments):
        command = ["sh", str(DEPLOY / script), *map(str, arguments)]
        servers.append(Server(command, tmp_path / f"{script}.log", os.environ | {"PYTHON": sys.executable}))
        servers[-1].wait(lambda: is_open(port), READY_S)
        return f"{LOOPBACK}:{port}"

    yield start
    for server in servers:
        server.stop()


def flink(cluster, folder, *arguments):
    """What Flink's command line says: the class that `bin/flink` starts."""
    action, *rest = arguments
    program = [*JAVA, "-cp", flink_alone(), "org.apache.flink.client.cli.CliFrontend"]
    done = subprocess.run(
        [*program, action, "-m", cluster.rest, *rest],
        env=os.environ | {"FLINK_CONF_DIR": str(folder / "cluster" / "conf")},
        capture_output=True, text=True, check=False, timeout=READY_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_stream_runs_on_two_task_managers_and_is_upgraded_as_the_runbook_says(
    tmp_path, postgres, kafka, cluster, started
):
    """3 min."""
    town = Town(tmp_path, postgres.new_database(), kafka)
    jar = job_server_jar(tmp_path / "job-server.jar")
    port = next(port for port in free_ports(20) if not is_open(port + 1))
    job_server = started("start-job-server.sh", port, jar, cluster.rest, tmp_path / "staged", port)
    (free,) = free_ports(1)
    pool = started("start-worker-pool.sh", free, f"{LOOPBACK}:{free}")
    servers = ["--job-server", job_server, "--worker-pool", pool, "--rest", cluster.rest, "--parallelism", "2"]

    with Running(town, *servers, "--checkpoint-s", "2") as stream:
        stream.wait_for(town.is_whole, 120)
        job = job_of(stream)
        assert clusters.slots_in_use(cluster) == {"task-manager-1": 1, "task-manager-2": 1}
        assert {address for address, _ in listeners(offspring(os.getpid()))} <= ONLY_HERE
        assert job in flink(cluster, tmp_path, "list", "--running")
        said = flink(cluster, tmp_path, "savepoint", job, (tmp_path / "savepoints").as_uri())
        savepoint = re.search(r"file:\S+savepoint-\S+", said)[0]
        assert stream.stop() == (0, "")
    assert job not in flink(cluster, tmp_path, "list", "--running")

    before = len(stream.health())
    with Running(town, *servers, "--savepoint", savepoint) as stream:
        wait_for(lambda: any("slot" in line for line in stream.health()[before:]), 150)
        assert job_of(stream) != job
        assert has_gone_on(cluster, job_of(stream))
        job = job_of(stream)
        assert stream.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert cluster.is_running(job)
    flink(cluster, tmp_path, "cancel", job)
    wait_for(lambda: not cluster.is_running(job), 60)
    assert refused(stream.health(), "lateness/late") == 0
    town.check()


def job_of(stream):
    return [line["job"] for line in stream.health() if "job" in line][-1]
