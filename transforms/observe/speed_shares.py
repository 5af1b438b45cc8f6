"""Shares of implausible speeds in a feed, for its operator."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from transforms.observe.parse import Rules
from transforms.observe.vehicle_ids import vehicle_ids
from transforms.value import SPEED

MOVED_M, STEP_S = 50.0, 300
"""A vehicle has moved if two consecutive positions, at most STEP_S seconds apart, are so many metres apart."""
_M_PER_DEGREE = 111_195.0
_MOST_M_S = 50  # faster is a wrong position
_COUNTER_PREFIX = "speeds/"  # begins the names of counters
_RARE, _COMMON = 0.01, 0.1  # shares above which an honest feed is unlikely


class SpeedShares(NamedTuple):
    """Counts of reports with implausible speeds."""

    reports: int = 0
    below_zero: int = 0
    above_bound: int = 0
    commonest: int = 0  # with the most frequent speed other than 0
    moving: int = 0  # pairs of consecutive positions of a moving vehicle
    standing: int = 0  # of these pairs, those with speed 0 at both ends

    @property
    def sentences(self) -> list[str]:
        """Lists suspicious shares as sentences; no speed is shown."""
        of_reports = {  # number, and the share above which it is named
            "are below 0, and count as 0": (self.below_zero, 0),
            "are above speed.upper_kmh, and count as it": (self.above_bound, _RARE),
            "are one and the same number": (self.commonest, _COMMON),
        }
        words = [
            f"{number / self.reports:.1%} of the speeds {fault}"
            for fault, (number, limit) in of_reports.items()
            if number > limit * self.reports
        ]
        if self.standing > max(_COMMON * self.moving, 1):  # one pair of positions alone shows nothing
            words.append(f"{self.standing / self.moving:.1%} of the speeds of vehicles that move are 0")
        return words


def counts_of(table: pa.RecordBatch, rules: Rules) -> dict[str, int]:
    """Counts implausible speeds among a batch's complete rows, for `shares_in`."""
    if rules.derived is not None or rules.keys is not None or not rules.is_speed:
        return {}  # the feed has no speeds, or no positions to compare them with
    units = rules.units
    ids, time = vehicle_ids(table.column("vehicle"), rules.vehicle_form), units.instants(table.column("time"))
    lat, lon = units.numbers(table.column("lat")), units.longitudes(table.column("lon"))
    value = units.numbers(table.column(SPEED))
    fits = ~(ids.missing | ids.bad) & time.valid & lat.valid & lon.valid & value.valid
    fits &= ~np.isin(value.values.astype(np.float32), np.array(rules.no_value, np.float32))  # feeds may hold float32
    order = np.flatnonzero(fits)[np.lexsort((time.us[fits], ids.code[fits]))]
    step_s, degrees, speed = np.diff(time.us[order]) / 1e6, lat.values[order], value.values[order]
    east = np.diff(lon.values[order]) * np.cos(np.radians(degrees[:-1]))
    metres = np.hypot(np.diff(degrees), east) * _M_PER_DEGREE
    moves = (np.diff(ids.code[order].astype(np.int64)) == 0) & (step_s > 0) & (step_s <= STEP_S) & (metres >= MOVED_M)
    moves &= metres <= _MOST_M_S * step_s
    repeats = np.unique(speed[speed != 0], return_counts=True)[1]  # how often each speed but 0 occurs
    shares = SpeedShares(
        reports=speed.size,
        below_zero=int((speed < 0).sum()),
        above_bound=int((speed > float(rules.grid.upper / units.value_per_unit)).sum()),
        commonest=int(repeats.max(initial=0)) if repeats.sum() > 1 else 0,  # a single row repeats nothing
        moving=int(moves.sum()),
        standing=int((moves & (speed[:-1] == 0) & (speed[1:] == 0)).sum()),
    )
    return {f"{_COUNTER_PREFIX}{name}": number for name, number in shares._asdict().items()}


def shares_in(counts: Mapping[str, int]) -> SpeedShares:
    """Makes shares from the counts of `counts_of`, added up over batches."""
    return SpeedShares(**{name: counts.get(f"{_COUNTER_PREFIX}{name}", 0) for name in SpeedShares._fields})
