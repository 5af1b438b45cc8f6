"""One question to an address and its answer, in a process of its own that the system ends at its deadline.

No HTTP client bounds an answer that drips: its limits are for one piece. A process that is ended holds whatever it was
doing: names, connections, headers, bodies, decoding.
"""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

LOOK_EVERY_S = 0.1
KILLED_S = 0.5
"""So long is waited for a process that was ended to be gone: on a busy machine that takes its time."""

_PROGRAM = "import hatstream; from hatstream_city.collect.asking import main; main()"


class Question(msgspec.Struct, frozen=True):
    """headers: sent with it, and never shown. deadline_s: for the whole of the exchange."""

    url: str
    headers: dict[str, str]
    deadline_s: float


class ExchangeResult(msgspec.Struct, frozen=True):
    """What came of a question; of a new message the bytes follow. conditions: headers to ask with the next time.

    reason: why it failed; it shows nothing of the answer. retry_after_s: what the service asks for.
    """

    outcome: Literal["new", "unchanged", "failed"]
    reason: str = ""
    retry_after_s: float = 0.0
    conditions: dict[str, str] = {}


def exchanged(question: Question, is_stopped: Callable[[], bool]) -> tuple[ExchangeResult, bytes]:
    """Asks an address for the head and the message, b"" without one. Gives up at once where it is to stop."""
    command = [sys.executable, "-P", "-c", _PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
    asked: bytes | None = msgspec.json.encode(question)
    while True:
        try:
            said, _ = process.communicate(asked, timeout=LOOK_EVERY_S)
            break
        except subprocess.TimeoutExpired:
            asked = None  # it has it
            if is_stopped():
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=KILLED_S)
                return ExchangeResult("failed", "given up"), b""
    if process.returncode == -signal.SIGALRM:
        return ExchangeResult("failed", f"not complete after {question.deadline_s:g} s"), b""
    if process.returncode:
        return ExchangeResult("failed", f"the exchange ended with {process.returncode}"), b""
    head, _, message = said.partition(b"\n")
    return msgspec.json.decode(head, type=ExchangeResult), message
