"""Guards how many releases a second a ledger records: units of one HAT, in transactions of 1, 24 and 1,000.

.venv/bin/python -m benchmarks.ledger [postgresql://user@host:port/empty_database]
"""

import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from dpops.accountant import PureLimit
from dpops.claims import PureDP
from transforms.ledger.head import Head
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import Account
from transforms.recorded.units import HatUnit, Released

ACCOUNT = Account(
    name="bench",
    unit="vehicle-day",
    since=None,
    until=None,
    timezone="UTC",
    adjacency="counts-public",
    limit="1000000",
    key_check="00",
)


def unit(slot_s: int, period: str) -> HatUnit:
    return HatUnit(
        spec_id="bench",
        period=period,
        slot_s=slot_s,
        slot_start="",
        slot_end="",
        shard=0,
        per_hat=PureDP(Fraction(1)),
        spent=PureDP(Fraction(1)),
        debit=PureDP(Fraction(1)),
        unit="km/h",
        released=[Released("872830828ffffff", "mean", "baseline", {"epsilon": "1", "scale": "6500"}, [slot_s])],
        digest="0" * 64,
    )


def main() -> None:
    for url in sys.argv[1:] or [None]:
        with tempfile.TemporaryDirectory() as folder:
            measure(url or f"sqlite:///{folder}/ledger.sqlite", Path(folder) / "key.head")


def measure(url: str, head: Path) -> None:
    Head(head).create()
    ledger = Ledger(url, head)
    ledger.create()
    ledger.open_account(ACCOUNT)
    print(f"{url.partition(':')[0]}: transactions of n units, units a second")
    first = 0
    for batch, transactions in ((1, 200), (24, 50), (1000, 10)):
        started = time.perf_counter()
        for _ in range(transactions):
            units = [unit(slot_s, f"period {first}") for slot_s in range(first, first + batch)]
            ledger.record("bench", PureLimit(Fraction(1_000_000)), "bench", "{}", units)
            first += batch
        spent = time.perf_counter() - started
        print(f"  {batch:5,} {batch * transactions / spent:10,.0f}   ({spent / transactions * 1000:.1f} ms each)")
    started = time.perf_counter()
    length = ledger.verify().entries
    print(f"  verify: {length / (time.perf_counter() - started):,.0f} entries a second")


if __name__ == "__main__":
    main()
