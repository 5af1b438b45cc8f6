"""The public plan of one stage of a period, or of a live slot, as the ledger keeps it."""

import base64
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from dpops.claims import ZCDP, PureDP
from dpops.levels import (
    Kind,
    Stage,
    level,
)
from dpops.levels.stages import UNIT
from dpops.types import Int64s
from transforms.places.hierarchy import hats_of
from transforms.public import EntryNumber
from transforms.recorded.units import LiveUnit, StageUnit


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything public about one stage, or one live slot, as it is kept in the ledger. Numbers are rational text.

    stage, stages: which of how many; of a live slot the first of one. levels: name, share of the speeds, share of the
    weights. hours: the local hour in which each slot of the period begins, or the live slot. rests_on: the sequence
    number of the newest entry that the centres were made from, 0 for none. centres: of (cells, slots) in 0.01 km/h,
    packed.
    """

    kind: Kind
    stage: int
    stages: int
    share: str
    spread: str
    bound_kmh: str
    alpha: str
    exponent: str
    step_kmh: str
    counts_public: bool
    levels: list[tuple[str, str, str]]
    hours: list[int]
    rests_on: EntryNumber
    centres: str

    @property
    def claim(self) -> PureDP | ZCDP:
        """What the stage costs a vehicle: its share of a vector of norm UNIT under the noise that is drawn."""
        share, spread = Fraction(self.share), Fraction(self.spread)
        if self.kind == "laplace":
            return PureDP(share * UNIT / spread)
        return ZCDP(share * ZCDP.of_gaussian(Fraction(UNIT), spread).rho)

    def read(self, region: Sequence[int]) -> Stage:
        """The stage on a region's cells."""
        hats = hats_of(region, self.hours)
        return Stage(
            kind=self.kind,
            levels=tuple(
                level(name, hats, Fraction(speeds), Fraction(weights)) for name, speeds, weights in self.levels
            ),
            share=Fraction(self.share),
            spread=Fraction(self.spread),
            bound_kmh=Fraction(self.bound_kmh),
            alpha=Fraction(self.alpha),
            centres=unpack_centres(self.centres, (hats.cells, hats.slots)),
            step_kmh=Fraction(self.step_kmh),
            exponent=Fraction(self.exponent),
            counts_public=self.counts_public,
        )


def pack_centres(centres: Int64s) -> str:
    return base64.b64encode(zlib.compress(centres.astype("<u2").tobytes(), 9)).decode()


def unpack_centres(packed: str, shape: tuple[int, int]) -> Int64s:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u2").reshape(shape).astype(np.int64)


def as_stored(plan: StagePlan) -> dict[str, Any]:
    """The plan as it will be read from the ledger, with lists in the place of tuples: equal plans are equal."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan))
    return found


def plan_of(unit: StageUnit | LiveUnit) -> StagePlan:
    return msgspec.convert(unit.plan, StagePlan)
