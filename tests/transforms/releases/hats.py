"""A slot and a day of a few HATs, planned and drawn without noise."""

from fractions import Fraction

import numpy as np

from dpops.allocation import Allocation
from dpops.mechanisms.baseline import Baseline
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from tests.dpops.reference import Silent
from transforms.releases import SlotFacts
from transforms.releases.hats.draw import Policy, draw_releases, weights_of
from transforms.value import Value
from transforms.wire import Tally

GRID = Grid(step=Fraction(1, 100), upper_steps=6500)
FACTS = SlotFacts("2026-05-01", "2026-05-01T10:00:00-05:00", "2026-05-01T11:00:00-05:00", (3600,), 24)
CELLS = [0x872830828FFFFFF, 0x872830829FFFFFF, 0x87283082AFFFFFF]
DAY = {
    slot_s: SlotFacts("2026-05-01", f"2026-05-01T{hour}:00:00-05:00", "later", (3600, 7200), 1)
    for slot_s, hour in ((3600, 10), (7200, 11))
}


def policy(epsilon=1, per="hat", scope="slot", most_hats=None, clip_user=False, **changes):
    statistics = changes.get("statistics", (RequestedStatistic("mean", Baseline(), Fraction(1)),))
    suppress = weights_of(GRID, statistics) if clip_user else None
    usual = {
        "spec_id": "spec",
        "value": Value(GRID),
        "statistics": statistics,
        "allocation": Allocation(
            epsilon=Fraction(epsilon), per=per, scope=scope, most_hats=most_hats, suppress=suppress
        ),
        "shards": 1,
        "region": None,
        "digest_key": b"k",
    }
    return Policy(**(usual | changes))


def tally_of(*rows, slot_s=3600):
    """rows: (vehicle, cell index, kept, total, dropped); a vehicle's samples are all alike."""
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.zeros(0, np.int64)] * 5
    vehicle, cell, kept, total, dropped = columns
    cell = np.array([CELLS[i] for i in cell], np.int64)
    square = total * total // np.maximum(kept, 1)
    sums = {"sums": total, "squares": square}
    return Tally(np.full(kept.size, slot_s), vehicle, cell, kept, dropped, sums=sums)


def drawn_unit(table, noise=None, shard=0, **changes):
    ((unit, _),) = draw_releases({(3600, shard): table}, {3600: FACTS}, policy(**changes), noise or Silent())
    return unit
