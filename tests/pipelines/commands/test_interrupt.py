"""A signal ends a command, gently or, where it waits for what does not end, at once."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import threading
from pipelines.commands.terminal import asked_to_stop
with asked_to_stop({within_s}) as stop:
    print("ready", flush=True)
    {waits}
print("ended")
"""
GENTLY, FOR_EVER = "stop.wait()", "threading.Event().wait()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("waits", "code", "told"), [(GENTLY, 0, "ended\n"), (FOR_EVER, 4, "stopped while work was unfinished\n")]
)
def test_who_is_asked_to_stop_ends_by_itself_or_is_ended(number, waits, code, told):
    command = [sys.executable, "-c", PROGRAM.format(within_s=0.2 if waits == FOR_EVER else 60, waits=waits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert (running.communicate(timeout=60)[0], running.returncode) == (told, code)
