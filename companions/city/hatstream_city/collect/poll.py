"""Polls one address: asks only for what is new, waits longer after failures, takes neither too much nor too long."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from hatstream_city.collect.exchange import Question, exchanged

WHOLE_S = 60.0
"""Most seconds for a question and its answer, whatever the other side does."""
LONGEST_WAIT_S = 600.0

Outcome = Literal["new", "unchanged", "failed"]


def _never() -> bool:
    return False


@dataclass
class Poller:
    """Asks `url` every `every_s` seconds. headers: sent each time, a key of the service for instance; never shown."""

    url: str
    every_s: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    failures: int = 0
    reason: str = ""
    _conditions: dict[str, str] = field(default_factory=dict, repr=False)
    _last: bytes = b""
    _retry_after_s: float = 0.0

    def poll(self, is_stopped: Callable[[], bool] = _never) -> tuple[Outcome, bytes]:
        """Asks once. "new" with the message; "unchanged" where the service or the bytes say so; or "failed"."""
        headers = {**self.headers, **self._conditions}
        head, message = exchanged(Question(self.url, headers, WHOLE_S), is_stopped)
        self.reason, self._retry_after_s = head.reason, head.retry_after_s
        if head.outcome == "unchanged" and not self._last:
            self.reason = "HTTP 304 to who has no message yet"
        if self.reason:
            self.failures += 1
            return "failed", b""
        self.failures = 0
        if head.outcome == "unchanged":
            return "unchanged", b""
        self._conditions = head.conditions
        digest = sha256(message).digest()
        if digest == self._last:
            return "unchanged", b""
        self._last = digest
        return "new", message

    def wait_s(self) -> float:
        """Says how many seconds the next question waits: doubled with each failure in a row, at least what the service
        asks for."""
        backed_off = self.every_s * 2.0 ** min(self.failures, 16)
        return max(self.every_s, min(max(backed_off, self._retry_after_s), max(LONGEST_WAIT_S, self.every_s)))
