"""Polls one address for new messages, by processes with a deadline.

A question is a request, which a process of its own sends (`main`), as that can be ended in any state. Conditions are
headers by which the next request's answer is "not modified" unless there is a new message.

Redirects lead to the same scheme, host and port alone: a key of the service is for that address.
"""

import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from gzip import GzipFile
from hashlib import sha256
from http.client import HTTPResponse
from io import BytesIO
from typing import Literal
from urllib.parse import urljoin, urlsplit

import msgspec
import requests
from urllib3 import Retry
from urllib3.connection import HTTPConnection
from urllib3.exceptions import InvalidHeader

LOOK_EVERY_S = 0.1  # between two looks whether polling is to stop
_PROGRAM = "import hatstream; from hatstream_city.collect.poll import main; main()"
Outcome = Literal["new", "unchanged", "failed"]


class Question(msgspec.Struct, frozen=True):
    """Request to an address, with headers that may hold a key."""

    url: str
    headers: dict[str, str]
    deadline_s: float


class ExchangeResult(msgspec.Struct, frozen=True):
    """Outcome of a request."""

    outcome: Outcome
    reason: str = ""  # of a failure, without content of the answer
    retry_after_s: float = 0.0
    conditions: dict[str, str] = {}  # headers by which the next request gets a new message alone
    message: bytes = b""  # if it is new


def exchanged(question: Question, is_stopped: Callable[[], bool]) -> ExchangeResult:
    """Sends a question by a process, which a stop ends."""
    command = [sys.executable, "-P", "-c", _PROGRAM]  # which runs `main` below
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
                    process.communicate(timeout=0.5)  # until it is gone, which takes long on a busy machine
                return ExchangeResult("failed", "given up")
    if process.returncode == -signal.SIGALRM:  # ended by its own timer, at the deadline
        return ExchangeResult("failed", f"not complete after {question.deadline_s:g} s")
    if process.returncode:
        return ExchangeResult("failed", f"the exchange ended with {process.returncode}")
    return msgspec.msgpack.decode(reply, type=ExchangeResult)


WHOLE_S = 60.0  # most seconds for a question and its complete answer, however slowly it drips
LONGEST_WAIT_S = 600.0


@dataclass
class Poller:
    """Polls `url` every `every_s` seconds with `headers`, which are never shown."""

    url: str
    every_s: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    failures: int = 0  # since the last answer
    reason: str = ""  # of the last failure; empty after an answer
    _conditions: dict[str, str] = field(default_factory=dict, repr=False)  # headers such as If-None-Match
    _last_digest: bytes = b""  # of the last message, empty before the first
    _retry_after_s: float = 0.0  # demanded by the service; 0 for none

    def poll(self, is_stopped: Callable[[], bool] = lambda: False) -> tuple[Outcome, bytes]:
        """Sends one request; returns the outcome with any new message."""
        result = exchanged(Question(self.url, {**self.headers, **self._conditions}, deadline_s=WHOLE_S), is_stopped)
        self.reason, self._retry_after_s = result.reason, result.retry_after_s
        if result.outcome == "unchanged" and not self._last_digest:  # a server's fault: no condition was sent
            self.reason = "HTTP 304 to who has no message yet"
        if self.reason:
            self.failures += 1
            return "failed", b""
        self.failures = 0
        digest = sha256(result.message).digest()
        if result.outcome == "unchanged" or digest == self._last_digest:  # some services ignore conditions
            return "unchanged", b""
        self._conditions, self._last_digest = result.conditions, digest
        return "new", result.message

    def wait_s(self) -> float:
        """Computes seconds until the next request: `every_s`, doubled by each failure in a row."""
        doubled_s = self.every_s * 2.0 ** min(self.failures, 16)  # beyond, any wait is the longest one
        return min(max(doubled_s, self._retry_after_s), max(LONGEST_WAIT_S, self.every_s))


CONNECT_S, READ_S = 10.0, 15.0  # most seconds for the connection, and for one piece of an answer
REDIRECTS = 5
FEED_BYTES = 64 << 20  # largest message, as sent and decompressed
MEMORY_BYTES = 1 << 30  # most memory of the process, which a hostile answer could expand to fill
_TOO_LARGE, _BROKEN_OFF = f"more than {FEED_BYTES >> 20} MiB", "the answer broke off"
_REASONS = (  # reason of a failure by the first class that fits: exceptions' own texts show the address, with its key
    (requests.exceptions.SSLError, "the server's certificate is not trusted, or it does not speak TLS"),
    (requests.exceptions.ConnectTimeout, f"no connection within {CONNECT_S:g} s"),
    (requests.exceptions.ReadTimeout, f"nothing came for {READ_S:g} s"),
    (requests.exceptions.ProxyError, "the proxy does not answer"),
    (requests.exceptions.TooManyRedirects, f"redirects more than {REDIRECTS} times"),
    (requests.exceptions.ChunkedEncodingError, _BROKEN_OFF),
    (requests.exceptions.ConnectionError, "no connection: the server is not there, its name is unknown, or it hung up"),
    (MemoryError, f"the answer takes more than {MEMORY_BYTES >> 20} MiB"),
    (ValueError, "the address or the answer is not HTTP"),
    (requests.RequestException, "the exchange failed"),
)
_PIECE_BYTES = 1 << 16


class FetchError(Exception):
    """Failed request; the message names the reason alone."""


def main() -> None:
    """Answers the question on standard input; SIGALRM ends it at the deadline."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C in a terminal the parent ends this process
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    signal.setitimer(signal.ITIMER_REAL, question.deadline_s)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold vehicles' positions
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))  # whatever a message decodes to
    sys.stdout.buffer.write(msgspec.msgpack.encode(exchanged_here(question)))


def exchanged_here(question: Question) -> ExchangeResult:
    """Requests a message in this process."""
    try:
        session, headers = _Session(), {"Accept-Encoding": "gzip"} | question.headers
        session.max_redirects = REDIRECTS
        with session.get(question.url, headers=headers, timeout=(CONNECT_S, READ_S), stream=True) as answer:
            if answer.status_code == requests.codes.not_modified:
                return ExchangeResult("unchanged")
            if answer.status_code != requests.codes.ok:
                return ExchangeResult("failed", f"HTTP {answer.status_code}", _retry_after_s(answer))
            # Without this header requests does not decompress: it would accept an answer that lost its end.
            encoding = answer.raw.headers.pop("Content-Encoding", "identity")
            packed = bytearray()
            for piece in answer.iter_content(_PIECE_BYTES):
                packed += piece
                if len(packed) > FEED_BYTES:
                    raise FetchError(_TOO_LARGE)
            if not packed:
                raise FetchError("an empty answer")
            message = _unpacked(bytes(packed), encoding.lower())
        if not _is_feed(message):
            raise FetchError("the answer is not a GTFS-realtime message")
        pairs = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}  # of the next request (RFC 9110, 13)
        conditions = {pairs[name]: answer.headers[name] for name in pairs if name in answer.headers}
        return ExchangeResult("new", conditions=conditions, message=message)
    except FetchError as error:
        return ExchangeResult("failed", str(error))
    except tuple(kind for kind, _ in _REASONS) as error:  # whose own text would show the address, with its key
        return ExchangeResult("failed", next(reason for kind, reason in _REASONS if isinstance(error, kind)))


class _FinalResponse(HTTPResponse):
    """HTTP response that skips interim responses such as 102 and 103."""

    def begin(self) -> None:
        """Reads heads until one is final; http.client skips 100 alone, and 101 ends HTTP."""
        super().begin()
        while 101 < self.status < 200:
            self.headers = self.msg = None  # type: ignore[assignment]  # http.client reads a head only while there is none
            super().begin()


HTTPConnection.response_class = _FinalResponse


class _Session(requests.Session):
    """Session that follows redirects to the same origin alone. Raises FetchError."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Returns where an answer leads to; None if it is no redirect."""
        target = super().get_redirect_target(resp)
        try:
            if target is None or _origin(urljoin(resp.url, target)) == _origin(resp.url):
                return target
        except ValueError:
            raise FetchError("redirects to an invalid address") from None
        raise FetchError("redirects to another scheme, host or port: name the address where the feed is, if it is")


def _is_feed(message: bytes) -> bool:
    """Checks that a message decodes completely, header included."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # slow, and seldom needed
    from google.transit.gtfs_realtime_pb2 import FeedMessage

    try:
        return bool(FeedMessage.FromString(message).HasField("header"))
    except DecodeError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Reads scheme, host and port. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _unpacked(message: bytes, encoding: str) -> bytes:
    """Decompresses a message, `encoding` being its Content-Encoding. Raises FetchError."""
    if encoding == "identity" and not message.startswith(b"\x1f\x8b"):  # gzip, as of a stored file
        return message
    if encoding not in ("gzip", "x-gzip", "identity"):
        raise FetchError("the answer is compressed in another way than gzip")
    try:
        message = GzipFile(fileobj=BytesIO(message)).read(FEED_BYTES + 1)  # one more shows that it is too large
    except EOFError:
        raise FetchError(_BROKEN_OFF) from None
    except (OSError, zlib.error):
        raise FetchError("the answer is not gzip, though its Content-Encoding says so") from None
    if len(message) > FEED_BYTES:
        raise FetchError(_TOO_LARGE)
    return message


def _retry_after_s(answer: requests.Response) -> float:
    """Reads the wait that a service demands, in seconds; 0 for none."""
    try:
        return float(min(Retry().parse_retry_after(answer.headers.get("Retry-After", "")), 1e6))  # of any length
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0
