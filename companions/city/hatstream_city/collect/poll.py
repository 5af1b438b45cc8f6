"""Polls one address for new messages, with back-off."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

import msgspec

LOOK_EVERY_S = 0.1  # between two looks whether polling is to stop
KILLED_S = 0.5  # longest wait until a killed process is gone, which takes long on a busy machine
_PROGRAM = "import hatstream; from hatstream_city.collect.asking import main; main()"

Outcome = Literal["new", "unchanged", "failed"]


class Question(msgspec.Struct, frozen=True):
    """Request to an address, with headers that may hold a key."""

    url: str
    headers: dict[str, str]
    deadline_s: float


class ExchangeResult(msgspec.Struct, frozen=True):
    """Outcome of a request; a new message's bytes follow it."""

    outcome: Outcome
    reason: str = ""  # of a failure, without content of the answer
    retry_after_s: float = 0.0
    conditions: dict[str, str] = {}  # headers by which the next request gets a new message alone


def exchanged(question: Question, is_stopped: Callable[[], bool]) -> tuple[ExchangeResult, bytes]:
    """Sends a question by a process of its own, which a stop can end."""
    command = [sys.executable, "-P", "-c", _PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
    request: bytes | None = msgspec.json.encode(question)
    while True:
        try:
            reply, _ = process.communicate(request, timeout=LOOK_EVERY_S)
            break
        except subprocess.TimeoutExpired:
            request = None  # `communicate` sends it in its first call, and continues in the others
            if is_stopped():
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=KILLED_S)
                return ExchangeResult("failed", "given up"), b""
    if process.returncode == -signal.SIGALRM:
        return ExchangeResult("failed", f"not complete after {question.deadline_s:g} s"), b""
    if process.returncode:
        return ExchangeResult("failed", f"the exchange ended with {process.returncode}"), b""
    result, _, message = reply.partition(b"\n")  # as `asking.main` writes them
    return msgspec.json.decode(result, type=ExchangeResult), message


WHOLE_S = 60.0  # most seconds for a question and its complete answer, however slowly it drips
LONGEST_WAIT_S = 600.0
_MOST_DOUBLINGS = 16  # beyond, any wait is the longest one


@dataclass
class Poller:
    """Polls `url` every `every_s` seconds with `headers`, which are never shown."""

    url: str
    every_s: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    failures: int = 0  # since the last answer
    reason: str = ""  # of the last failure
    _conditions: dict[str, str] = field(default_factory=dict, repr=False)
    _last_digest: bytes = b""  # of the last message, empty before the first
    _retry_after_s: float = 0.0

    def poll(self, is_stopped: Callable[[], bool] = lambda: False) -> tuple[Outcome, bytes]:
        """Sends one request; returns the outcome with any new message."""
        headers = {**self.headers, **self._conditions}
        result, message = exchanged(Question(self.url, headers, deadline_s=WHOLE_S), is_stopped)
        self.reason, self._retry_after_s = result.reason, result.retry_after_s
        if result.outcome == "unchanged" and not self._last_digest:  # a server's fault: no condition was sent
            self.reason = "HTTP 304 to who has no message yet"
        if self.reason:
            self.failures += 1
            return "failed", b""
        self.failures = 0
        digest = sha256(message).digest()
        if result.outcome == "unchanged" or digest == self._last_digest:  # some services ignore conditions
            return "unchanged", b""
        self._conditions, self._last_digest = result.conditions, digest
        return "new", message

    def wait_s(self) -> float:
        """Computes seconds until the next request: `every_s`, doubled by each failure in a row."""
        doubled_s = self.every_s * 2.0 ** min(self.failures, _MOST_DOUBLINGS)
        return min(max(doubled_s, self._retry_after_s), max(LONGEST_WAIT_S, self.every_s))
