"""Polls one address: asks only for what is new, waits longer after failures, takes neither too much nor too long."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Literal

import requests

from transforms.layouts.gtfs_realtime import FEED_BYTES

CONNECT_S, READ_S, WHOLE_S = 10.0, 15.0, 60.0
"""Most seconds for the connection, for one piece of an answer, and for the whole of it."""
LONGEST_WAIT_S = 600.0
_PIECE_BYTES = 1 << 16

Outcome = Literal["new", "unchanged", "failed"]


class FetchError(Exception):
    """The address did not answer as it should; the message names the reason and shows nothing of the answer."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


@dataclass
class Poller:
    """Asks `url` every `every_s` seconds. headers: sent each time, a key of the service for instance; never shown."""

    url: str
    every_s: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    failures: int = 0
    reason: str = ""
    _known: dict[str, str] = field(default_factory=dict, repr=False)
    _last: bytes = b""
    _retry_after_s: float = 0.0

    def poll(self) -> tuple[Outcome, bytes]:
        """One question. "new" with the message; "unchanged" where the service or the bytes say so; or "failed"."""
        try:
            body = self._fetch()
        except FetchError as error:
            self.failures, self.reason, self._retry_after_s = self.failures + 1, str(error), error.retry_after_s
            return "failed", b""
        self.failures, self.reason, self._retry_after_s = 0, "", 0.0
        digest = sha256(body).digest()
        if not body or digest == self._last:
            return "unchanged", b""
        self._last = digest
        return "new", body

    def wait_s(self) -> float:
        """Seconds until the next question: doubled with each failure in a row, at least what the service asks for."""
        backed_off = self.every_s * 2.0 ** min(self.failures, 16)
        return max(self.every_s, min(max(backed_off, self._retry_after_s), max(LONGEST_WAIT_S, self.every_s)))

    def _fetch(self) -> bytes:
        """The message, or b"" where the service says that it has not changed."""
        try:
            with requests.get(
                self.url, headers={**self.headers, **self._known}, timeout=(CONNECT_S, READ_S), stream=True
            ) as answer:
                if answer.status_code == requests.codes.not_modified:
                    return b""
                if answer.status_code != requests.codes.ok:
                    raise FetchError(f"HTTP {answer.status_code}", _retry_after_s(answer))
                body = _body(answer)
                self._known = _conditions(answer)
                return body
        except requests.RequestException as error:
            raise FetchError(type(error).__name__) from None


def _body(answer: requests.Response) -> bytes:
    until, size, pieces = time.monotonic() + WHOLE_S, 0, []
    for piece in answer.iter_content(_PIECE_BYTES):
        size += len(piece)
        if size > FEED_BYTES:
            raise FetchError(f"more than {FEED_BYTES >> 20} MiB")
        if time.monotonic() > until:
            raise FetchError(f"not complete after {WHOLE_S:.0f} s")
        pieces.append(piece)
    if size == 0:
        raise FetchError("an empty answer")
    return b"".join(pieces)


def _conditions(answer: requests.Response) -> dict[str, str]:
    pairs = (("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since"))
    return {asked: answer.headers[said] for said, asked in pairs if said in answer.headers}


def _retry_after_s(answer: requests.Response) -> float:
    """What the service asks for, in seconds or as a date; 0 where it asks for nothing."""
    text = answer.headers.get("Retry-After", "")
    try:
        return float(text) if text.isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
