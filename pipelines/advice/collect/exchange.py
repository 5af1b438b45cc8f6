"""One question to an address and its answer, in a process of its own that the system ends at its deadline.

No HTTP client bounds an answer that drips: its limits are for one piece. A process that is ended holds whatever it was
doing: names, connections, headers, bodies, decoding. It asks with redirects to the same scheme, host and port alone,
since what it sends, such as a key of the service, is for that address.
"""

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urljoin, urlsplit

import msgspec
import requests

CONNECT_S, READ_S = 10.0, 15.0
"""Most seconds for the connection, and for one piece of an answer."""
REDIRECTS = 5
FEED_BYTES = 64 << 20
MEMORY_BYTES = 1 << 30
LOOK_EVERY_S = 0.1

_PIECE_BYTES = 1 << 16
_PORTS = {"http": 80, "https": 443}
_PROGRAM = "import hatstream; from pipelines.advice.collect.exchange import main; main()"


class Question(msgspec.Struct, frozen=True):
    """headers: sent with it, and never shown. deadline_s: for the whole of the exchange."""

    url: str
    headers: dict[str, str]
    deadline_s: float


class Head(msgspec.Struct, frozen=True):
    """What came of a question; of a new message the bytes follow. conditions: headers to ask with the next time.

    reason: why it failed; it shows nothing of the answer. retry_after_s: what the service asks for.
    """

    outcome: Literal["new", "unchanged", "failed"]
    reason: str = ""
    retry_after_s: float = 0.0
    conditions: dict[str, str] = {}


class FetchError(Exception):
    """The address did not answer as it should; the message names the reason and shows nothing of the answer."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


def exchanged(question: Question, is_stopped: Callable[[], bool]) -> tuple[Head, bytes]:
    """The head and the message, b"" without one. It is given up at once where it is to stop."""
    command = [sys.executable, "-P", "-c", _PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        asked: bytes | None = msgspec.json.encode(question)
        while True:
            try:
                said, _ = process.communicate(asked, timeout=LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                asked = None  # it has it
                if is_stopped():
                    process.kill()
    if process.returncode == -signal.SIGALRM:
        return Head("failed", f"not complete after {question.deadline_s:g} s"), b""
    if process.returncode:
        return Head("failed", f"the exchange ended with {process.returncode}"), b""
    head, _, message = said.partition(b"\n")
    return msgspec.json.decode(head, type=Head), message


def main() -> None:
    """Answers the question on standard input. SIGALRM ends the process at the deadline, whoever waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is interrupted ends this process
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    signal.setitimer(signal.ITIMER_REAL, question.deadline_s)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold vehicles
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    head, message = exchanged_here(question)
    sys.stdout.buffer.write(msgspec.json.encode(head) + b"\n" + message)


def exchanged_here(question: Question) -> tuple[Head, bytes]:
    """As `exchanged`, in this process and without a deadline."""
    try:
        return _answered(question)
    except FetchError as error:
        return Head("failed", str(error), error.retry_after_s), b""
    except (requests.RequestException, ValueError, MemoryError) as error:  # ValueError: of what is no HTTP
        return Head("failed", type(error).__name__), b""


class _Session(requests.Session):
    """Without a look at where a redirect leads, which fails on what is no address."""

    def get_redirect_target(self, _answer: requests.Response) -> None:
        return None


def _answered(question: Question) -> tuple[Head, bytes]:
    with closing(_asked(question)) as answer:
        if answer.status_code == requests.codes.not_modified:
            return Head("unchanged"), b""
        if answer.status_code != requests.codes.ok:
            raise FetchError(f"HTTP {answer.status_code}", _retry_after_s(answer))
        message = _body(answer)
    from transforms.layouts.gtfs_realtime import is_feed  # Arrow with it, which an unchanged feed needs not

    if not is_feed(message):
        raise FetchError("the answer is not a GTFS-realtime message")
    return Head("new", conditions=_conditions(answer)), message


def _asked(question: Question) -> requests.Response:
    """The answer, after redirects that stay where they began."""
    url, session = question.url, _Session()
    for _ in range(REDIRECTS + 1):
        answer = session.get(
            url, headers=question.headers, timeout=(CONNECT_S, READ_S), stream=True, allow_redirects=False
        )
        if not answer.is_redirect:
            return answer
        answer.close()
        try:
            url = urljoin(url, answer.headers["Location"])
            leaves = _origin(url) != _origin(question.url)
        except ValueError:
            raise FetchError("redirects to what is no address") from None
        if leaves:
            raise FetchError("redirects to another scheme, host or port: name the address where the feed is, if it is")
    raise FetchError(f"redirects more than {REDIRECTS} times")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _body(answer: requests.Response) -> bytes:
    size, pieces = 0, []
    for piece in answer.iter_content(_PIECE_BYTES):
        size += len(piece)
        if size > FEED_BYTES:
            raise FetchError(f"more than {FEED_BYTES >> 20} MiB")
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
        wait_s = float(text) if text.isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, min(wait_s, 1e6))
