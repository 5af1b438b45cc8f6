"""A worker is a copy of a process that has imported everything, and ends when its own engine is done with it."""

import os
import subprocess
import sys
import time

import pytest
from apache_beam.portability.api import beam_fn_api_pb2

from pipelines.runs.flink import worker_pool
from tests.pipelines.runs.flink.connected import works

PROGRAM = """
import os, sys, threading
for name in sys.argv[1:]:
    __import__(name)
sockets = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
           and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")]
print(threading.active_count(), len(sockets))
"""


@pytest.mark.slow
def test_what_is_imported_beforehand_is_there_and_starts_no_thread_and_opens_no_connection():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *worker_pool.IMPORTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "0"]


def seen(path):
    """Whether a file appears within a minute, with text where it has any."""
    return any(path.exists() or time.sleep(0.02) for _ in range(3_000))


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(worker_pool, "_work", works)
    monkeypatch.setattr(worker_pool, "IMPORTED", [])
    running = worker_pool._Pool()
    yield running
    running.end()


def start(pool, connected, worker_id="1-1"):
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id=worker_id)
    request.control_endpoint.url = str(connected)
    assert pool.StartWorker(request, None).error == ""
    assert seen(connected)


def stop(pool, worker_id="1-1"):
    assert pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker_id), None).error == ""


def test_a_task_manager_that_is_done_ends_its_own_worker_and_not_another_one_s(pool, tmp_path):
    """Each of them calls its first worker 1-1. Beam's own pool ends the last: a job then waits for it for ever."""
    first, second = tmp_path / "first", tmp_path / "second"
    start(pool, first)
    start(pool, second)
    first.unlink()  # an engine closes its connection before it asks the pool
    stop(pool)
    second.unlink()
    assert seen(tmp_path / "second.done")
    stop(pool)


def test_a_worker_that_does_not_end_is_ended(pool, tmp_path):
    connected = tmp_path / "only"
    start(pool, connected)
    stop(pool)
    with pytest.raises(ProcessLookupError):
        os.kill(int(connected.read_text()), 0)
