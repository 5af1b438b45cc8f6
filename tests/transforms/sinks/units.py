"""Recorded units of a slot, for tests of sinks."""

from fractions import Fraction

import numpy as np
from msgspec import structs

from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid
from tests.transforms.ledger import entries
from transforms.recorded.units import Released
from transforms.releases.hats.release import estimates_of

PLAN = ArrayAverage().plan(
    CountsKnown.all_of(np.array([3, 2, 2])), Grid(step=Fraction(1, 100), upper_steps=6500), Fraction(1)
)


def unit(*integers, shard=0):
    released = [
        Released(
            f"87283082{i:x}ffffff", "mean", "array-average", *((None, None) if n is None else (PLAN.public(), [n]))
        )
        for i, n in enumerate(integers, start=8)
    ]
    of_day = entries.unit(epsilon="7/2", digest="", spec_id="0123456789abcdef", period="2026-05-01", shard=shard)
    start, end = "2026-05-01T10:00:00-05:00", "2026-05-01T11:00:00-05:00"
    return structs.replace(of_day, slot_start=start, slot_end=end, released=released)


def slot_of(*units, statistics=("mean",)):
    return estimates_of(units, statistics)
