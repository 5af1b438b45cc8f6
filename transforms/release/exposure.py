"""What vehicles spend: counted from what is drawn in their HATs, and once more from what the plans of these claim."""

from collections.abc import Sequence
from fractions import Fraction
from operator import mul

import numpy as np

from dpops.accountant import Accountant
from dpops.claims import ZERO, Claim
from dpops.types import Int64s
from transforms.count.wire import Exposure, Tally
from transforms.ledger.claims import claims_of
from transforms.observe.hexagons import cell_text
from transforms.release.recorded import Sealed


def exposure_of(rows: Tally, cell: Int64s, drawn: Int64s) -> Exposure:
    """What is drawn of each vehicle of a slot.

    rows: of the slot. cell: int64 (HATs,), the HATs with vehicles, ascending. drawn: int64 (HATs, statistics), 1 or 0.
    """
    kept = rows.kept > 0
    vehicle, code = np.unique(rows.vehicle[kept], return_inverse=True)
    return Exposure(vehicle, _added_up(code, drawn[np.searchsorted(cell, rows.cell[kept])]))


def most_spent(exposures: Sequence[Exposure], shares: Sequence[Fraction]) -> Fraction:
    """What a vehicle spends in several slots at most, exactly. shares: what each statistic of a HAT costs."""
    vehicle = np.unique(np.concatenate([each.vehicle for each in exposures]), return_inverse=True)[1]
    return _dearest(_added_up(vehicle, np.concatenate([each.drawn for each in exposures])), shares)


def most_claimed(units: Sequence[Sealed], rows: Tally) -> Fraction:
    """What the plans of a vehicle's HATs claim together at most, whatever was counted before.

    units: of one plan and release shard, by slot. rows: theirs, by slot and cell.
    """
    rows = rows.take(rows.kept > 0)
    first = np.flatnonzero((np.diff(rows.slot_s, prepend=-1) != 0) | (np.diff(rows.cell, prepend=-1) != 0))
    slot_s, cell = rows.slot_s[first], rows.cell[first]
    kinds: dict[tuple[Claim, ...], int] = {}  # a few
    found: list[int] = []
    for unit in units:
        claimed = claims_of(unit)
        known = [kinds.setdefault(claims, len(kinds)) for claims in claimed.kinds]
        found += [known[claimed.kind[cell_text(each)]] for each in cell[slot_s == unit.slot_s].tolist()]
    kind = np.repeat(np.array(found, np.int64), np.diff(first, append=rows.cell.size))
    prices = [Accountant().compose(claims).pure for claims in kinds]
    vehicle = np.unique(rows.vehicle, return_inverse=True)[1]
    vehicles = int(vehicle.max(initial=-1)) + 1
    hats = np.bincount(vehicle * len(kinds) + kind, minlength=vehicles * len(kinds)).reshape(vehicles, len(kinds))
    return _dearest(hats, prices)


def _dearest(numbers: Int64s, prices: Sequence[Fraction]) -> Fraction:
    """What a row costs at most. numbers: (rows, prices), of which a few rows differ."""
    sums = (sum(map(mul, each, prices), ZERO) for each in np.unique(numbers, axis=0).tolist())
    return max(sums, default=ZERO)


def _added_up(code: Int64s, values: Int64s) -> Int64s:
    """The rows of values by code."""
    found = np.zeros((int(code.max(initial=-1)) + 1, values.shape[1]), np.int64)
    np.add.at(found, code, values)
    return found
