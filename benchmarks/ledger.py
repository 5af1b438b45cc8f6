"""Guards how many releases a second a ledger records: units of one HAT, in transactions of 1, 24 and 1,000.

.venv/bin/python -m benchmarks.ledger [postgresql://user@host:port/empty_database]
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.transforms.ledger.entries import opened, record, unit

LIMIT = 1_000_000


def main() -> None:
    for url in sys.argv[1:] or [None]:
        with tempfile.TemporaryDirectory() as folder:
            measure(url or f"sqlite:///{folder}/ledger.sqlite", Path(folder) / "key.head")


def measure(url: str, head: Path) -> None:
    ledger = opened(url, head, limit=str(LIMIT))
    print(f"{url.partition(':')[0]}: transactions of n units, units a second")
    first = 0
    for batch, transactions in ((1, 200), (24, 50), (1000, 10)):
        started = time.perf_counter()
        for _ in range(transactions):
            units = [unit(slot_s, integer=slot_s, period=f"period {first}") for slot_s in range(first, first + batch)]
            record(ledger, *units, limit=LIMIT)
            first += batch
        spent = time.perf_counter() - started
        print(f"  {batch:5,} {batch * transactions / spent:10,.0f}   ({spent / transactions * 1000:.1f} ms each)")
    started = time.perf_counter()
    length = ledger.verify().entries
    print(f"  verify: {length / (time.perf_counter() - started):,.0f} entries a second")


if __name__ == "__main__":
    main()
