"""Recorded units of a slot, for tests of sinks."""

from fractions import Fraction

import numpy as np

from dpops.claims import PureDP
from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid
from transforms.recorded.units import HatUnit, Released
from transforms.releases.hats.release import estimates_of

PLAN = ArrayAverage().plan(
    CountsKnown.all_of(np.array([3, 2, 2])), Grid(step=Fraction(1, 100), upper_steps=6500), Fraction(1)
)


def unit(*integers, shard=0):
    return HatUnit(
        spec_id="0123456789abcdef",
        period="2026-05-01",
        slot_s=0,
        slot_start="2026-05-01T10:00:00-05:00",
        slot_end="2026-05-01T11:00:00-05:00",
        shard=shard,
        per_hat=PureDP(Fraction(1)),
        spent=PureDP(Fraction(7, 2)),
        debit=PureDP(Fraction(7, 2)),
        unit="km/h",
        released=[
            Released(
                f"87283082{i:x}ffffff",
                "mean",
                "array-average",
                None if n is None else PLAN.public(),
                None if n is None else [n],
            )
            for i, n in enumerate(integers, start=8)
        ],
        digest="",
    )


def slot_of(*units, statistics=("mean",)):
    return estimates_of(units, statistics)
