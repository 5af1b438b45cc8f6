"""Commands that stand until they are told to end, and are told to while something hangs."""

import contextlib
import os
import random
import signal
import socket
import time

from tests.hostile import servers
from tests.hostile.flink import Engine
from tests.hostile.laws import Broken
from tests.hostile.mutations import mutated_bytes

TOLD_S = 120  # A command that was told to end has so long, on a busy machine; each of them promises a few seconds
PATIENCE_S = 20  # A command that asks none of our servers is told to end nevertheless
EVERY_S = 1
ANSWER_S = 60
SIGNALS = (signal.SIGTERM, signal.SIGINT)
HALF = b"GET /latest.json HTTP/1.1\r\nHost: a\r\nX-Half: "
REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /latest.json HTTP/1.1\r\nHost: a\r\nRange: bytes=-1\r\n\r\n",
    b"GET /api/days/2022-01-01.json?from=%00&to=%ff HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%2e%2e/%2e%2e/ledger.key HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET //etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /latest.json HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nx",
    b"HEAD / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \xff, *\r\nIf-Modified-Since: never\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET " + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
]  # fmt: skip


def collect(world):
    """From an address that answers with what none should, or never to its end: then it is told to end."""
    choose = world.choose
    odd = ["http://[::1", "//", "http://127.0.0.1:{port}/again", "file:///etc/passwd", "http://a:99999/", "\x7f"]
    endless = choose.choice([*servers.ENDLESS.values()])
    answers = [
        servers.redirect(choose.choice(odd)),
        servers.answer(choose.choice([200, 204, 304, 418, 500, 999]), mutated_bytes(choose, b"\n\x0d\n\x032.0")),
        endless,
    ]
    number = choose.choice(SIGNALS)
    with servers.Service() as service:
        service.answers = [choose.choice(answers)]
        asked = ["collect", "--url", service.url, "--every", "1", "--output", world.path("kept")]
        if service.answers[0] is not endless:
            world.run([*asked, "--for", "1"])
            return

        def tell(process, _):
            if waited(process, service.was_asked.is_set):
                os.kill(process.pid, number)

        world.run(asked, deadline_s=TOLD_S, meanwhile=tell)


def publish(world):
    """Keeps a site current over damaged result files, pipes and links to nothing, until it is told to end."""
    choose, site = world.choose, world.folder / "site"
    folder = world.folder / "shown"
    folder.mkdir(exist_ok=True)
    for path in (world.folder / "out").glob("hats-*.csv"):
        whole = path.read_bytes()
        (folder / path.name).write_bytes(mutated_bytes(choose, whole) if choose.random() < 0.3 else whole)
    if not (folder / "hats-pipe.csv").exists():
        os.mkfifo(folder / "hats-pipe.csv")
        (folder / "hats-gone.csv").symlink_to(folder / "nowhere")

    def tell(process, _):
        waited(process, (site / "latest.json").exists, 1 + PATIENCE_S * choose.random())  # signals kill it at first
        end(process, choose.choice(SIGNALS))

    asked = ["publish", "--spec", world.path("spec.toml"), *world.account, "--input", str(folder), "--all", "--follow"]
    more = ["--publisher", "Town", "--licence", "CC0-1.0", "--output", str(site)]
    world.run([*asked, *more], deadline_s=1, meanwhile=tell)


def preview(world):
    """Shows whatever folder there is, or one that no server may read; and requests that mean harm."""
    choose = world.choose
    folder = world.folder / choose.choice(["site", "out", "."])
    folder.mkdir(exist_ok=True)

    def ask(process, out):
        if not waited(process, lambda: "http://127.0.0.1:" in out.read_text()):
            return
        port = int(out.read_text().partition("http://127.0.0.1:")[2].partition("/")[0])
        if waited(process, lambda: answered(port, REQUESTS[0]) is not None):
            with socket.create_connection(("127.0.0.1", port)) as half:
                half.sendall(HALF)
                for request in [choose.choice(REQUESTS) for _ in range(6)]:
                    _check(
                        request, answered(port, mutated_bytes(choose, request) if choose.random() < 0.3 else request)
                    )
                os.kill(process.pid, choose.choice(SIGNALS))
                process.join(TOLD_S)

    world.run(["preview", str(folder), "--port", "0"], deadline_s=1, meanwhile=ask)


def stream(world):
    """A folder that grows, on an engine whose servers say what they like; then it is told to end."""
    choose = world.choose
    number, wait_s = choose.choice(SIGNALS), choose.random()
    with Engine(random.Random(choose.random())) as engine:

        def tell(process, _):
            waited(process, engine.was_watched.is_set, PATIENCE_S * wait_s)
            time.sleep(wait_s)
            end(process, number)

        more = ["--metrics", f"127.0.0.1:{choose.choice([0, 1, 99_999])}"] if choose.random() < 0.2 else []
        asked = ["stream", "--spec", world.path("spec.toml"), "--folder", world.path("feed"), "--from", "2022-01-01",
                 "--output", world.path("out"), "--formats", "csv", *engine.options, *world.account, *more]  # fmt: skip
        world.run(asked, meanwhile=tell)


def end(process, number):
    """Tells a process to end until it does: one that has just begun does not listen yet."""
    until = time.monotonic() + TOLD_S
    while process.is_alive() and time.monotonic() < until:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        process.join(EVERY_S)


def waited(process, holds, patience_s=TOLD_S) -> bool:
    """Whether it held before the process ended."""
    until = time.monotonic() + patience_s
    while process.is_alive() and time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.02)
    return False


def answered(port: int, request: bytes) -> bytes | None:
    """What a server sends back until it stops; None where nobody listens."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
    except (ConnectionRefusedError, TimeoutError):
        return None
    except OSError:  # it hung up
        pass
    return answer


def _check(request: bytes, answer: bytes | None) -> None:
    if answer is None:
        raise Broken(f"no answer to {request[:80]!r}")
    if (
        (answer[9:10] == b"5" and answer[9:12] not in (b"501", b"505"))
        or b"Traceback" in answer
        or b"root:x:" in answer
    ):
        raise Broken(f"to {request[:80]!r} it answers {answer[:300]!r}")
