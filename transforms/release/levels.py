"""A period's `levels` release: the plan of each stage, and the unit that the ledger keeps of it.

The unit of stage k has the period's first slot and stands in the place of shard k: the stages of a period share one
debit, as shards do.
"""

import base64
import hmac
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import h3
import h3.api.basic_int as h3_int
import msgspec
import numpy as np

from dpops.claims import ZCDP, PureDP, claim_of
from dpops.levels import (
    Fleet,
    Hats,
    Kind,
    LiveSettings,
    ReleasedStage,
    Rows,
    Settings,
    Stage,
    Sums,
    level,
    read,
    release,
    sum_up,
)
from dpops.levels.stages import FIRST_CENTRE, UNIT
from dpops.noise import Noise
from dpops.statistics import SUMS
from dpops.types import Grid, Int64s
from transforms.count.wire import Tally
from transforms.release.policy import SlotFacts
from transforms.release.products import PARENT, Product
from transforms.release.recorded import LEVELS, Released, Sealed
from transforms.release.state_file import StateFile

MECHANISM = LEVELS
COLUMNS = (SUMS,)
"""What a tally carries beside counts."""
GRANDPARENT = 2
"""How many resolutions coarser."""


@dataclass(frozen=True)
class LevelsPolicy:
    """How a specification's periods are released as levels. All of it is public but the key.

    total: what a vehicle spends in a period, as the ledger writes it; epsilon, delta: the same as people read it.
    first, later: the stages of a period before which nothing of the specification is recorded, and of all others.
    live: what slots get while a period lasts; `later` has the rest of the total. region: sorted cells. products: what
    is published of a period besides its HATs. kept: a cache of what earlier entries taught, which changes nothing.
    """

    spec_id: str
    kind: Kind
    total: str
    epsilon: Fraction
    delta: Fraction | None
    spread: Fraction
    first: tuple[Settings, ...]
    later: tuple[Settings, ...]
    exponent: Fraction
    region: tuple[int, ...]
    grid: Grid
    fleet: Fleet
    counts_public: bool
    digest_key: bytes = field(repr=False)
    live: LiveSettings | None = None
    products: tuple[Product, ...] = ()
    kept: StateFile | None = field(default=None, compare=False)

    def costs(self, share: Fraction) -> str:
        """What a share of the total is, as the ledger writes it."""
        whole = claim_of(self.total)
        return str(ZCDP(whole.rho * share) if isinstance(whole, ZCDP) else PureDP(Fraction(self.total) * share))

    def cost_of_period(self, stages: int) -> str:
        """What a period's end, of so many stages, is debited: all of the total, or what live slots leave of it."""
        settings = self.first if stages == len(self.first) else self.later
        return self.costs(sum((stage.share for stage in settings), Fraction(0)))


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
    rests_on: int
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


def hats_of(region: Sequence[int], hours: Sequence[int]) -> Hats:
    """The HATs of a region's cells, in their order, in slots that begin in these local hours."""
    return Hats(parents=_ancestors(region, PARENT), grandparents=_ancestors(region, GRANDPARENT), hours=tuple(hours))


def _ancestors(region: Sequence[int], above: int) -> tuple[int, ...]:
    """The coarser cell that each cell lies in, numbered from 0 by ascending index. There is none above resolution 0."""
    resolution = max(h3.get_resolution(h3.int_to_str(region[0])) - above, 0)
    coarser = [h3_int.cell_to_parent(cell, resolution) for cell in region]
    number = {cell: at for at, cell in enumerate(sorted(set(coarser)))}
    return tuple(number[cell] for cell in coarser)


def stage_plan(
    policy: LevelsPolicy, stages: Sequence[Settings], stage: int, hours: Sequence[int], centres: Int64s, rests_on: int
) -> StagePlan:
    settings = stages[stage]
    return StagePlan(
        kind=policy.kind,
        stage=stage,
        stages=len(stages),
        share=str(settings.share),
        spread=str(policy.spread),
        bound_kmh=str(settings.bound_kmh),
        alpha=str(settings.alpha),
        exponent=str(policy.exponent),
        step_kmh=str(policy.grid.step),
        counts_public=policy.counts_public,
        levels=[(name, str(share), str(share)) for name, share in settings.shares],
        hours=list(hours),
        rests_on=rests_on,
        centres=pack_centres(centres),
    )


def pack_centres(centres: Int64s) -> str:
    return base64.b64encode(zlib.compress(centres.astype("<u2").tobytes(), 9)).decode()


def unpack_centres(packed: str, shape: tuple[int, int]) -> Int64s:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u2").reshape(shape).astype(np.int64)


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
    sums: Sums, plan: StagePlan, slots: Sequence[SlotFacts], slot_s: int, policy: LevelsPolicy, noise: Noise
) -> Sealed:
    """Draws a stage's noise. slots: of the period, in order; slot_s: the start of the first."""
    integers = release(sums, plan.read(policy.region), noise)
    where = f"{policy.spec_id}/{slot_s}/{plan.stage}/".encode()
    exact = b"".join(column.astype("<i8").tobytes() for column in sums)
    return Sealed(
        spec_id=policy.spec_id,
        period=slots[0].period,
        slot_s=slot_s,
        slot_start=slots[0].start,
        slot_end=slots[-1].end,
        shard=plan.stage,
        epsilon_hat=policy.total,
        epsilon_slot=policy.total,
        unit="km/h",
        released=[Released("", "mean", MECHANISM, as_stored(plan), integers.tolist())],
        digest=hmac.digest(policy.digest_key, where + exact, "sha256").hex(),
        scope="stage",
        debit=policy.cost_of_period(plan.stages),
        epsilon_total=policy.total,
    )


def as_stored(plan: StagePlan) -> dict[str, Any]:
    """The plan as it will be read from the ledger, with lists in the place of tuples: equal plans are equal."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan))
    return found


def plan_of(unit: Sealed) -> StagePlan:
    return msgspec.convert(unit.released[0].plan, StagePlan)


def read_unit(unit: Sealed, region: Sequence[int]) -> ReleasedStage:
    """What a recorded stage says."""
    return read(unit.released[0].integers or [], plan_of(unit).read(region))
