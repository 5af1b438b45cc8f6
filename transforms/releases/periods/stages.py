"""Plans of `levels` stages, and the units they record.

A stage's unit has the period's first slot; a period's stages share a debit, as a slot's shards do. A stage is laid on
HATs: it sums weights, and weights times (speed - centre), by the groups of its levels. Pieces are a cell's parts in
different places; rows of a region cut into pieces have a piece's index as cell. NOWHERE: no place, or no cell.
"""

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpops.claims import ZCDP, PureDP
from dpops.levels.bounded import ReleasedStage, Rows, Sums, read, release, sum_up
from dpops.levels.defaults import Fleet
from dpops.levels.parts import counted_first, rows_of_classes
from dpops.levels.stages import CLASS, FIRST_CENTRE, PLACE, Differences, Kind, Level, Stage, StageHats, scaled
from dpops.noise import Noise
from dpops.statistics import SUMS, Classes, Column
from dpops.types import Int64s
from transforms.order import changes
from transforms.places.ground import CITY, GRANDPARENT, NOWHERE, PARENT, Pieces, Places, parent_texts, texts_of
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import PartName, as_stored, hats_under, part_of, stage_of
from transforms.recorded.units import LiveEntry, LiveUnit, StageEntry, StageUnit
from transforms.releases import DayShares, SlotFacts
from transforms.releases.periods.products import Product
from transforms.time.calendar import recorded_hours
from transforms.time.trips import Trips
from transforms.value import Value
from transforms.wire import Tally

if TYPE_CHECKING:
    from transforms.releases.periods.states import StateFile

MARGIN_KMH = Fraction(3)  # centres stay so far from both ends of the grid
COLUMNS: tuple[Column, ...] = (SUMS,)  # what a tally carries beside counts, where no stage is about classes


@dataclass(frozen=True)
class LevelsPolicy:
    """Policy of `levels` releases, public but for the key.

    total, epsilon, delta: of a vehicle in a period. first, later: stages of the first period and of others, with shares
    of the total; count: stage that counts vehicles first; live: stage of all live slots, for which `later` leaves a
    share. by_day: days' shares, relative to the day with all of `total`; day_share: the one that `on` has applied.
    region: sorted cells, cut by places. trips: through them. cache_file: of states; no result depends on it.
    """

    spec_id: str
    total: PureDP | ZCDP
    epsilon: Fraction
    delta: Fraction | None
    first: tuple[Stage, ...]
    later: tuple[Stage, ...]
    region: Sequence[int]
    value: Value
    fleet: Fleet
    digest_key: bytes = field(repr=False)
    count: Stage | None = None
    live: Stage | None = None
    by_day: DayShares | None = None
    day_share: Fraction = Fraction(1)
    products: tuple[Product, ...] = ()
    places: Pieces | None = None
    trips: Trips | None = None
    cache_file: "StateFile | None" = field(default=None, compare=False)

    @property
    def kind(self) -> Kind:
        """The noise of all stages."""
        return self.first[0].kind

    def on(self, period: str) -> "LevelsPolicy":
        """Scales the total and stages to a period's share."""
        if self.by_day is None:
            return self
        share, epsilon = self.by_day.of(period)  # share: of `total`
        return replace(
            self,
            total=self.total.times(share),
            day_share=share,
            epsilon=epsilon,
            first=scaled(self.first, share),  # still parts of the unscaled total
            later=scaled(self.later, share),
            live=None if self.live is None else replace(self.live, share=share * self.live.share),
            by_day=None,  # `count` is not scaled: its noise is equal on all days, and others leave its share to it
        )

    @property
    def classes(self) -> Classes | None:
        """The classes of values that a stage is about."""
        return next((Classes(stage.classes) for stage in self.later if stage.classes), None)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies besides counts."""
        return COLUMNS if self.classes is None else (*COLUMNS, self.classes)

    @property
    def public_places(self) -> Places | None:
        """Places of place stages, or None."""
        return None if self.places is None else self.places.places

    def names_of(self, level: Level) -> tuple[list[str], Sequence[str]]:
        """Names a level's kinds (several: speed classes) and each cell group's cell or place."""
        region, names, grid = self.region, texts_of(self.region), self.value.standard
        if level.name == PLACE and self.public_places is not None:
            return [level.name], self.public_places.names
        if level.name == CLASS and self.classes is not None:
            edges = [f"{float(edge * grid.step):g}" for edge in (0, *self.classes.edges, grid.upper_steps)]
            kinds = [f"{level.name} {low} to {high}" for low, high in pairwise(edges)]
            return kinds, [name for name in names for _ in kinds]  # each cell for all its classes
        if level.name in ("city", "hour", "part"):
            return [level.name], [CITY]
        coarser = {"grandparent-day": GRANDPARENT} | dict.fromkeys(("parent", "parent-day", "parent-hour"), PARENT)
        names = parent_texts(region, coarser[level.name]) if level.name in coarser else names  # by cell
        # A group of cells has the name at its first one: that of its ancestor, or of the cell.
        return [level.name], [names[first] for first in np.unique(level.groups.cells, return_index=True)[1].tolist()]

    def lacks_places(self, products: Iterable[Product]) -> bool:
        """Checks for products of places where these are missing."""
        return self.places is None and any(product.is_of_places for product in products)

    def cost_of_period(self, is_first: bool) -> PureDP | ZCDP:
        """Computes a period's debit, without its live slots."""
        # Stages' shares are parts of the unscaled total: `on` has multiplied them and the total by `day_share`.
        return self.total.times(_whole(self.first if is_first else self.later) / self.day_share)

    def stages(self, *, is_first: bool, counts: bool) -> tuple[Stage, ...]:
        """Lists a period's stages, optionally counting vehicles first."""
        return counted_first(self.count if counts else None, self.first if is_first else self.later)


def _whole(stages: Sequence[Stage]) -> Fraction:
    """Sums stages' shares of a period; mutants of the debit replace it."""
    return sum((stage.share for stage in stages), Fraction(0))


def laid_stage(
    policy: LevelsPolicy,
    stages: Sequence[Stage],
    number: int,
    hours: Sequence[int],
    centres: Int64s,  # (cells, slots), in CENTRE_STEP_KMH
    rests_on: EntryNumber,  # the newest ledger entry behind the centres
    differences: Differences | None = None,  # of places from their cells, where HATs lie in places
) -> Stage:
    """Lays stage `number` of `stages` on HATs, whose slots begin at local `hours`."""
    stage = replace(stages[number], number=number, stages=len(stages))
    hats = hats_under(stage, policy.region, hours, policy.public_places)
    if stage.classes:  # no speeds are summed, and HATs are classes of cells
        centres = np.zeros((hats.cells, hats.slots), np.int64)
    return replace(stage, around=StageHats(hats, centres, policy.value.standard.step, rests_on, differences))


def first_centres(cells: int, slots: int) -> Int64s:
    """Creates centres of a first stage, which no entry has taught, int64 (cells, slots)."""
    return np.full((cells, slots), FIRST_CENTRE, np.int64)


def rows_of(tally: Tally, cell: Int64s, slots: Sequence[int]) -> Rows:
    """Sums rows by vehicle, cell or place, and slot, dropping NOWHERE.

    cell: index of each row's cell or place. slots: sorted starts, whose indices the result has.
    """
    slot = np.searchsorted(np.array(slots, np.int64), tally.slot_s)
    order = np.lexsort((slot, cell, tally.vehicle))
    order = order[cell[order] != NOWHERE]
    keys = [column[order] for column in (tally.vehicle, cell, slot)]
    first = np.flatnonzero(changes(*keys))
    counts_and_sums = (tally.kept, tally.sums["sums"])  # of reports, and of their values in grid steps
    return Rows(*(key[first] for key in keys), *(np.add.reduceat(column[order], first) for column in counts_and_sums))


def rows_by_class(tally: Tally, cell: Int64s, column: Classes) -> Rows:
    """Sums rows by vehicle, cell (an index by row) and speed class, dropping NOWHERE."""
    order = np.lexsort((cell, tally.vehicle))
    order = order[cell[order] != NOWHERE]
    counts = tally.sums[column.name][order]  # (rows, classes), of samples
    return rows_of_classes(tally.vehicle[order], cell[order], counts)


def add_up(tallies: Iterable[Tally], policy: LevelsPolicy, slots: Sequence[int], stage: Stage) -> Sums:
    """Sums vehicles' vectors, which is right as no vehicle is in two tallies."""
    pieces, region = policy.places, np.array(policy.region, np.int64)

    def sums_of(tally: Tally) -> Sums:
        """Sums a tally's vectors over the stage's cells or places, slots or classes."""
        if pieces is None:
            cell = np.searchsorted(region, tally.cell)
        else:
            cell = (pieces.place if stage.is_of_places else pieces.cell)[tally.cell]  # `tally.cell` is a piece then
        rows = rows_by_class(tally, cell, Classes(stage.classes)) if stage.classes else rows_of(tally, cell, slots)
        return sum_up(rows, stage)

    return reduce(lambda first, second: Sums(*map(np.add, first, second)), map(sums_of, tallies))


def draw_stage(
    sums: Sums,
    stage: Stage,
    slots: Sequence[SlotFacts],
    slot_s: int,
    policy: LevelsPolicy,
    noise: Noise,
    *,
    is_first: bool = False,
) -> StageUnit:
    """Draws a stage's noise for a period's slots.

    slot_s: start of the first of them, under which the unit is recorded. is_first: the specification's first period.
    """
    facts = drawn_facts(sums, stage, slots, slot_s, policy, noise, name=str(stage.number))
    return StageUnit(**facts, stage=stage.number, debit=policy.on(slots[0].period).cost_of_period(is_first))


def drawn_facts(
    sums: Sums, stage: Stage, slots: Sequence[SlotFacts], slot_s: int, policy: LevelsPolicy, noise: Noise, name: str
) -> dict[str, Any]:
    """Draws noise; returns stages' and live slots' common fields. name: of the stage."""
    prefix = f"{policy.spec_id}/{slot_s}/{name}/".encode()  # equal sums of another stage have another digest
    exact = b"".join(column.astype("<i8").tobytes() for column in sums)
    return {
        "spec_id": policy.spec_id,
        "period": slots[0].period,
        "slot_s": slot_s,
        "slot_start": slots[0].start,
        "slot_end": slots[-1].end,
        "unit": policy.value.unit,
        "plan": as_stored(stage),
        "integers": release(sums, stage, noise).tolist(),  # the sums with noise
        "digest": hmac.digest(policy.digest_key, prefix + exact, "sha256").hex(),
        "total": policy.on(slots[0].period).total,  # scaled to the period's share
    }


def read_unit(unit: StageUnit | LiveUnit, region: Sequence[int], places: Places | None = None) -> ReleasedStage:
    """Decodes a recorded stage's noisy sums."""
    return read(unit.integers, stage_of(unit, region, places))


def read_part(
    entries: Sequence[StageEntry] | Sequence[LiveEntry], policy: LevelsPolicy, part: PartName
) -> Iterator[tuple[ReleasedStage, list[int]]]:
    """Decodes stages of a part of periods, with local hours (weekends': 24 more)."""
    for unit in (entry.unit for entry in entries if part_of(entry.unit) == part):
        stage = read_unit(unit, policy.region, policy.public_places)
        yield stage, recorded_hours(unit.slot_start, unit.slot_end, stage.stage.laid.hats.hours)
