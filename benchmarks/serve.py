"""How `hatstream serve` answers so many requests a second, of a folder into which a slot comes every few seconds.

.venv/bin/python -m benchmarks.serve [--rate 200] [--seconds 30] [--places 1000] [--slots 168]

Exit code 1 where an answer fails, or one in a hundred takes longer than 200 ms.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.map import made_up
from pipelines.advice.pages.rows import TYPES
from transforms.sinks.rows import SCHEMA

CLIENTS, NEW_EVERY_S, LATE_MS = 16, 5.0, 200.0
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


class Client(threading.Thread):
    """Asks at its share of the rate, on one connection. took_ms: of each answer; failed: those that were none."""

    def __init__(self, port: int, starts: list[float], slots: list[str], seed: int) -> None:
        super().__init__()
        self.took_ms: list[float] = []
        self.failed = 0
        self._starts, self._slots, self._random = starts, slots, random.Random(seed)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._tags: dict[str, str] = {}

    def run(self) -> None:
        for start in self._starts:
            time.sleep(max(0.0, start - time.monotonic()))
            path, remembers = self._random.choice(PATHS)
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
def serving(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "pipelines.cli", "serve", "--output", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        port = int(found[1])
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("--rate", 200), ("--seconds", 30), ("--places", 1_000), ("--slots", 168)):
        parser.add_argument(name, type=int, default=value)
    asked = parser.parse_args()
    rows = made_up(asked.places, asked.slots + asked.seconds)
    starts = rows["slot_start"].unique().to_pylist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slots = write_slots(rows.filter(pc.is_in(rows["slot_start"], pa.array(starts[: asked.slots]))), folder)
        with serving(folder) as (process, port):
            begin = time.monotonic() + 0.5
            times = [begin + at / asked.rate for at in range(asked.rate * asked.seconds)]
            clients = [Client(port, times[at::CLIENTS], slots, at) for at in range(CLIENTS)]
            before = process.cpu_times()
            for client in clients:
                client.start()
            for start in starts[asked.slots : asked.slots + int(asked.seconds / NEW_EVERY_S)]:
                time.sleep(NEW_EVERY_S)
                write_slots(rows.filter(pc.equal(rows["slot_start"], start)), folder)
            for client in clients:
                client.join()
            used = process.cpu_times()
            cpu_s = used.user + used.system - before.user - before.system
            rss_mb = process.memory_info().rss / 1e6
    took = np.array([ms for client in clients for ms in client.took_ms])
    failed, seconds = sum(client.failed for client in clients), asked.seconds
    what = f"{asked.places:,} places x {asked.slots} slots"
    print(f"{took.size:,} requests at {asked.rate} a second, {failed} failed; {what}")
    quantiles = np.quantile(took, [0.5, 0.9, 0.99, 1])
    print("ms: half {:.1f}, nine in ten {:.1f}, 99 % {:.1f}, longest {:.0f}".format(*quantiles))
    print(f"the server: {cpu_s / seconds:.2f} cores, {rss_mb:.0f} MB")
    return int(failed > 0 or np.quantile(took, 0.99) > LATE_MS)


if __name__ == "__main__":
    sys.exit(main())
