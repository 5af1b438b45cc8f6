"""A period's `levels` release: the plan of each stage, and the unit that the ledger keeps of it.

The unit of a stage has the period's first slot; the stages of a period share one debit, as the shards of a slot do.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

import numpy as np

from dpops.claims import ZCDP, PureDP
from dpops.levels import (
    Fleet,
    Kind,
    ReleasedStage,
    Rows,
    Stage,
    Sums,
    read,
    release,
    sum_up,
)
from dpops.levels.stages import FIRST_CENTRE
from dpops.noise import Noise
from dpops.statistics import SUMS
from dpops.types import Grid, Int64s
from transforms.places.hierarchy import hats_of
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import as_stored, stage_of
from transforms.recorded.units import LiveUnit, StageUnit
from transforms.releases.periods.products import Product
from transforms.releases.slots import SlotFacts
from transforms.releases.state_file import StateFile
from transforms.wire import Tally

MECHANISM = "levels"
COLUMNS = (SUMS,)
"""What a tally carries beside counts."""


@dataclass(frozen=True)
class LevelsPolicy:
    """How a specification's periods are released as levels. All of it is public but the key.

    total: what a vehicle spends in a period; epsilon, delta: the same as people read it.
    first, later: the stages of a period before which nothing of the specification is recorded, and of all others.
    live: what slots get while a period lasts; `later` has the rest of the total. region: sorted cells. products: what
    is published of a period besides its HATs. kept: a cache of what earlier entries taught, which changes nothing.
    """

    spec_id: str
    total: PureDP | ZCDP
    epsilon: Fraction
    delta: Fraction | None
    first: tuple[Stage, ...]
    later: tuple[Stage, ...]
    region: tuple[int, ...]
    grid: Grid
    fleet: Fleet
    digest_key: bytes = field(repr=False)
    live: Stage | None = None
    products: tuple[Product, ...] = ()
    kept: StateFile | None = field(default=None, compare=False)

    @property
    def kind(self) -> Kind:
        """The noise of all stages."""
        return self.first[0].kind

    def costs(self, share: Fraction) -> PureDP | ZCDP:
        """A share of the total."""
        if isinstance(self.total, ZCDP):
            return ZCDP(self.total.rho * share)
        return PureDP(self.total.epsilon * share)

    def cost_of_period(self, stages: int) -> PureDP | ZCDP:
        """What a period's end, of so many stages, is debited: all of the total, or what live slots leave of it."""
        own = self.first if stages == len(self.first) else self.later
        return self.costs(sum((stage.share for stage in own), Fraction(0)))


def laid_stage(
    policy: LevelsPolicy,
    stages: Sequence[Stage],
    number: int,
    hours: Sequence[int],
    centres: Int64s,
    rests_on: EntryNumber,
) -> Stage:
    """One of a period's stages, laid on its HATs. hours: the local hour in which each slot begins."""
    stage = replace(stages[number], number=number, stages=len(stages))
    return stage.on(hats_of(policy.region, hours), centres, policy.grid.step, rests_on)


def first_centres(cells: int, slots: int) -> Int64s:
    return np.full((cells, slots), FIRST_CENTRE, np.int64)


def rows_of(tally: Tally, region: Sequence[int], slots: Sequence[int]) -> Rows:
    """What vehicles did in the region's cells and a period's slots, in canonical order. tally: in any order."""
    order = np.lexsort((tally.slot_s, tally.cell, tally.vehicle))
    cell = np.searchsorted(np.array(region, np.int64), tally.cell[order])
    slot = np.searchsorted(np.array(slots, np.int64), tally.slot_s[order])
    return Rows(tally.vehicle[order], cell, slot, tally.kept[order], tally.sums["sums"][order])


def add_up(tallies: Iterable[Tally], region: Sequence[int], slots: Sequence[int], stage: Stage) -> Sums:
    """The sum of all vehicles' vectors in a stage. tallies: at least one, and of a vehicle all rows in one of them."""
    parts = (sum_up(rows_of(tally, region, slots), stage) for tally in tallies)
    return reduce(lambda one, other: Sums(one.weights + other.weights, one.speeds + other.speeds), parts)


def seal_stage(
    sums: Sums, stage: Stage, slots: Sequence[SlotFacts], slot_s: int, policy: LevelsPolicy, noise: Noise
) -> StageUnit:
    """Draws a stage's noise. slots: of the period, in order; slot_s: the start of the first."""
    integers = release(sums, stage, noise)
    where = f"{policy.spec_id}/{slot_s}/{stage.number}/".encode()
    exact = b"".join(column.astype("<i8").tobytes() for column in sums)
    return StageUnit(
        spec_id=policy.spec_id,
        period=slots[0].period,
        slot_s=slot_s,
        slot_start=slots[0].start,
        slot_end=slots[-1].end,
        stage=stage.number,
        unit="km/h",
        plan=as_stored(stage),
        integers=integers.tolist(),
        digest=hmac.digest(policy.digest_key, where + exact, "sha256").hex(),
        debit=policy.cost_of_period(stage.stages),
        total=policy.total,
    )


def read_unit(unit: StageUnit | LiveUnit, region: Sequence[int]) -> ReleasedStage:
    """What a recorded stage says."""
    return read(unit.integers, stage_of(unit, region))
