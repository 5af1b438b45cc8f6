"""A worker is a copy of a process that has imported everything: what two copies must not share is not there yet."""

import subprocess
import sys

from pipelines.runs.flink import worker_pool

PROGRAM = """
import os, sys, threading
for name in sys.argv[1:]:
    __import__(name)
sockets = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
           and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")]
print(threading.active_count(), len(sockets))
"""


def test_what_is_imported_beforehand_is_there_and_starts_no_thread_and_opens_no_connection():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *worker_pool.IMPORTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "0"]
