"""Guards how `hatstream serve` answers so many requests a second, of a folder that grows by a slot every few seconds.

.venv/bin/python -m benchmarks.serve [--rate 200] [--seconds 30] [--places 1000] [--slots 168]

Beside it a second process answers fixed bytes by the same server program, asked at the same time: what that takes is
the machine's and the clients' own. Exit code 1 where an answer fails, or where one in a hundred takes more than 200 ms
longer than one in a hundred of those.
"""

import argparse
import http.client
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.map import made_up
from transforms.sinks.columns import SCHEMA, TYPES

CLIENTS, NEW_EVERY_S, LATE_MS = 16, 5.0, 200.0
YARDSTICK_CLIENTS, YARDSTICK_RATE, YARDSTICK_BYTES = 4, 20, 40_000
PATHS = (
    *(("/map.bin", True),) * 5,
    *(("/", False),) * 2,
    *(("/api/slots", True),) * 2,
    *(("/api/values", False),) * 3,
    *(("/api/values.csv?slot={slot}", False),) * 3,
    *(("/api/values.geojson?slot={slot}", False),) * 1,
    *(("/tiles/12/936/1687.mvt?slot={slot}", False),) * 4,
)
"""What is asked for, as often as it stands here; and whether a client says what it has."""
_FIXED = (("/health", False),)


_YARDSTICK = f"""
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def fixed(_request):
    return Response(b"x" * {YARDSTICK_BYTES})

config = uvicorn.Config(Starlette(routes=[Route("/health", fixed)]), port=0, log_level="warning", access_log=False)
socket = config.bind_socket()
print(f"http://127.0.0.1:{{socket.getsockname()[1]}}/", flush=True)
uvicorn.Server(config).run(sockets=[socket])
"""


class Client(threading.Thread):
    """Asks at its share of the rate, on one connection. took_ms: of each answer; failed: those that were none."""

    def __init__(
        self, port: int, starts: list[float], slots: list[str], seed: int, paths: Sequence[tuple[str, bool]] = PATHS
    ) -> None:
        super().__init__()
        self.took_ms: list[float] = []
        self.failed = 0
        self._starts, self._slots, self._random = starts, slots, random.Random(seed)
        self._paths = paths
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._tags: dict[str, str] = {}

    def run(self) -> None:
        for start in self._starts:
            time.sleep(max(0.0, start - time.monotonic()))
            path, remembers = self._random.choice(self._paths)
            path = path.format(slot=self._random.choice(self._slots).replace("+", "%2B"))
            begun = time.perf_counter()
            self.failed += not self._asked(path, remembers=remembers)
            self.took_ms.append(1_000 * (time.perf_counter() - begun))

    def _asked(self, path: str, *, remembers: bool) -> bool:
        headers = {"Accept-Encoding": "gzip"} | ({"If-None-Match": self._tags[path]} if path in self._tags else {})
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        if remembers and answer.status == 200:
            self._tags[path] = answer.headers["etag"]
        return answer.status in (200, 304)


@contextmanager
def serving(*command: str) -> Iterator[tuple[psutil.Process, int]]:
    """A Python process that prints its address and listens there."""
    command = (sys.executable, *command)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.search(r":(\d+)/", process.stdout.readline())
        assert match is not None
        port = int(match[1])
        while not _answers(port):
            time.sleep(0.1)
        try:
            yield psutil.Process(process.pid), port
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def write_slots(rows: pa.Table, folder: Path) -> list[str]:
    """One file a slot, as `release` writes them; returns the slots."""
    missing = {name: pa.nulls(rows.num_rows, TYPES[name]) for name in SCHEMA.names if name not in rows.column_names}
    rows = pa.table({name: rows[name] for name in rows.column_names} | missing)
    starts = rows["slot_start"].unique().to_pylist()
    for start in starts:
        path = folder / f"hats-0-{re.sub('[^0-9]', '', start[:19])}.parquet"
        part = path.with_suffix(".part")
        pq.write_table(rows.filter(pc.equal(rows["slot_start"], start)), part)
        part.replace(path)
    return starts


class Used(NamedTuple):
    """What a run took: all that asked of the server and of the yardstick, and what each process worked."""

    clients: list[Client]
    plain: list[Client]
    cpu_s: float
    plain_cpu_s: float
    rss_mb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("--rate", 200), ("--seconds", 30), ("--places", 1_000), ("--slots", 168)):
        parser.add_argument(name, type=int, default=value)
    asked = parser.parse_args()
    used = _run(made_up(asked.places, asked.slots + asked.seconds), asked.slots, asked.rate, asked.seconds)
    failed = sum(client.failed for client in (*used.clients, *used.plain))
    print(f"{asked.rate * asked.seconds:,} requests at {asked.rate} a second, {failed} failed; ", end="")
    print(f"{asked.places:,} places x {asked.slots} slots; {used.rss_mb:.0f} MB")
    last = _told("served", used.clients, used.cpu_s)
    plain_last = _told(f"{YARDSTICK_BYTES:,} fixed bytes", used.plain, used.plain_cpu_s)
    return int(failed > 0 or last > plain_last + LATE_MS)


def _run(rows: pa.Table, many: int, rate: int, seconds: int) -> Used:
    """Of a folder with so many slots, and a further one every few seconds."""
    starts = rows["slot_start"].unique().to_pylist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slots = write_slots(rows.filter(pc.is_in(rows["slot_start"], pa.array(starts[:many]))), folder)
        command = ("-m", "pipelines.cli", "serve", "--output", name, "--port", "0")
        with serving(*command) as (process, port), serving("-c", _YARDSTICK) as (yardstick, plain_port):
            begin = time.monotonic() + 0.5
            clients = _clients(CLIENTS, port, begin, rate, seconds, slots, PATHS)
            plain = _clients(YARDSTICK_CLIENTS, plain_port, begin, YARDSTICK_RATE, seconds, slots, _FIXED)
            before, plain_before = _cpu_s(process), _cpu_s(yardstick)
            for client in (*clients, *plain):
                client.start()
            for start in starts[many : many + int(seconds / NEW_EVERY_S)]:
                time.sleep(NEW_EVERY_S)
                write_slots(rows.filter(pc.equal(rows["slot_start"], start)), folder)
            for client in (*clients, *plain):
                client.join()
            took = _cpu_s(process) - before, _cpu_s(yardstick) - plain_before
            return Used(clients, plain, *took, process.memory_info().rss / 1e6)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _clients(
    many: int, port: int, begin: float, rate: int, seconds: int, slots: list[str], paths: Sequence[tuple[str, bool]]
) -> list[Client]:
    """So many that ask at a rate together."""
    times = [begin + number / rate for number in range(rate * seconds)]
    return [Client(port, times[index::many], slots, index, paths) for index in range(many)]


def _told(what: str, clients: Sequence[Client], cpu_s: float) -> float:
    """Prints how long answers took; the longest but of one in a hundred, in milliseconds."""
    took = np.array([ms for client in clients for ms in client.took_ms])
    quantiles = np.quantile(took, [0.5, 0.9, 0.99, 1])
    print("{}, ms: half {:.1f}, nine in ten {:.1f}, 99 % {:.1f}, longest {:.0f}; ".format(what, *quantiles), end="")
    print(f"the server works {1_000 * cpu_s / took.size:.1f} an answer")
    return float(quantiles[2])


if __name__ == "__main__":
    sys.exit(main())
