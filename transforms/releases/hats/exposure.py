"""What vehicles spend: counted from what is drawn in their HATs, and once more from what the plans of these claim."""

from collections.abc import Sequence
from fractions import Fraction
from operator import mul

import numpy as np

from dpops.accountant import Accountant
from dpops.claims import ZERO, Claim
from dpops.types import Int64s
from transforms.ledger.claims import ClaimedUnit
from transforms.order import places
from transforms.places.hierarchy import texts_of
from transforms.wire import Exposure, Tally


def exposure_of(rows: Tally, cell: Int64s, drawn: Int64s) -> Exposure:
    """Counts what is drawn of each vehicle of a slot.

    rows: of the slot. cell: int64 (HATs,), the HATs with vehicles, ascending. drawn: int64 (HATs, statistics), 1 or 0.
    """
    kept = rows.kept > 0
    vehicle, code = places(rows.vehicle[kept])
    return Exposure(vehicle, _added_up(code, drawn[np.searchsorted(cell, rows.cell[kept])]))


def most_spent(exposures: Sequence[Exposure], shares: Sequence[Fraction]) -> Fraction:
    """Finds what a vehicle spends in several slots at most, exactly. shares: what each statistic of a HAT costs."""
    if len(exposures) == 1:  # a vehicle is there once
        return _dearest(exposures[0].drawn, shares)
    vehicle = places(np.concatenate([exposure.vehicle for exposure in exposures])).of
    return _dearest(_added_up(vehicle, np.concatenate([of_slot.drawn for of_slot in exposures])), shares)


def most_claimed(units: Sequence[ClaimedUnit], rows: Tally, region: Sequence[int] | None = None) -> Fraction:
    """Finds what the plans of a vehicle's HATs claim together at most, whatever was counted before.

    units: of one plan and release shard, by slot. rows: theirs, by slot and cell. region: names its cells.
    """
    kept = rows.kept > 0
    slot_of, cell_of = rows.slot_s[kept], rows.cell[kept]
    first = np.flatnonzero((np.diff(slot_of, prepend=-1) != 0) | (np.diff(cell_of, prepend=-1) != 0))
    slot_s, cell = slot_of[first], cell_of[first]
    kinds: dict[tuple[Claim, ...], int] = {}  # a few
    kind_of: list[int] = []
    for claimed in units:
        numbers = [kinds.setdefault(claims, len(kinds)) for claims in claimed.kinds]
        texts = texts_of(region, cell[slot_s == claimed.unit.slot_s])
        kind_of += [numbers[claimed.kind[text]] for text in texts]
    kind = np.repeat(np.array(kind_of, np.int64), np.diff(first, append=cell_of.size))
    prices = [Accountant().compose(claims).pure for claims in kinds]
    vehicles, vehicle = places(rows.vehicle[kept])
    hats = np.bincount(vehicle * len(kinds) + kind, minlength=vehicles.size * len(kinds))
    return _dearest(hats.reshape(vehicles.size, len(kinds)), prices)


def _dearest(numbers: Int64s, prices: Sequence[Fraction]) -> Fraction:
    """Finds what a row costs at most. numbers: (rows, prices), of which a few rows differ."""
    sums = (sum(map(mul, counts, prices), ZERO) for counts in set(map(tuple, numbers.tolist())))
    return max(sums, default=ZERO)


def _added_up(code: Int64s, values: Int64s) -> Int64s:
    """Adds up the rows of values, small integers, by code."""
    columns = [np.bincount(code, column) for column in values.T]  # exact: below 2**53
    return np.stack(columns, axis=-1).astype(np.int64)
