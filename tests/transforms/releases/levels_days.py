"""A small region and its day, and how its periods are released as levels with live slots."""

from dataclasses import replace
from fractions import Fraction

import h3
import numpy as np

from dpops.claims import ZCDP, PureDP, rho_within
from dpops.levels.bounded import Sums, sum_up
from dpops.levels.defaults import Fleet, spread_of
from dpops.levels.parts import live_stage
from dpops.levels.stages import UNIT, Kind, Stage, alike
from dpops.noise import Noise
from dpops.types import Grid
from tests.dpops.levels.cities import rows
from transforms.recorded.units import LiveUnit, StageUnit
from transforms.releases import SlotFacts
from transforms.releases.live.release import draw_live, live_slot
from transforms.releases.periods.stages import LevelsPolicy, draw_stage, laid_stage
from transforms.value import Value

EPSILON, DELTA = Fraction(66, 25), Fraction(1, 10**6)
PARENTS = sorted(h3.grid_disk(h3.latlng_to_cell(21.17, 72.83, 6), 1))[:2]
REGION = tuple(
    sorted(h3.str_to_int(cell) for cell in [*h3.cell_to_children(PARENTS[0])[:2], h3.cell_to_center_child(PARENTS[1])])
)
HOURS = (7, 8, 12, 13)
ENTRY = 1  # number of the newest entry


def policy(kind: Kind, live: Stage | None = None, *, rest: Fraction | None = None) -> LevelsPolicy:
    """Of the defaults. rest: what the period's end takes, against what live slots leave of the total."""
    spread = spread_of(kind, EPSILON if kind == "laplace" else rho_within(EPSILON, DELTA))
    live = live_stage(kind, spread, EPSILON) if live is None else replace(live, spread=spread)
    claim = PureDP(UNIT / spread) if kind == "laplace" else ZCDP.of_gaussian(Fraction(UNIT), spread)
    shares = (("cell", Fraction(1, 2)), ("hour", Fraction(1, 5)), ("parent", Fraction(3, 10)))
    later = Stage(
        kind=kind,
        spread=spread,
        parts=alike(shares),
        share=1 - live.share if rest is None else rest,
        bound_kmh=Fraction(7),
        alpha=Fraction(9, 10),
    )
    return LevelsPolicy(
        spec_id="a",
        total=claim,
        epsilon=EPSILON,
        delta=None if kind == "laplace" else DELTA,
        first=(replace(later, share=Fraction(1, 4)), replace(later, share=Fraction(3, 4))),
        later=(later,),
        region=REGION,
        value=Value(Grid(step=Fraction(1, 100), upper_steps=6_500)),
        fleet=Fleet(),
        digest_key=b"key",
        live=live,
    )


def _edges(slot: int) -> tuple[str, str]:
    """Of a slot of a Friday, as text."""
    hour = HOURS[slot % len(HOURS)]
    return f"2026-05-01T{hour:02}:00:00+00:00", f"2026-05-01T{hour + 1:02}:00:00+00:00"


def facts(slot: int) -> SlotFacts:
    return SlotFacts("day 1", *_edges(slot), tuple(3600 * hour for hour in range(len(HOURS))), len(HOURS))


def nobody(stage: Stage) -> Sums:
    return sum_up(rows([]), stage)


def live_unit(how: LevelsPolicy, slot: int, slots: int = len(HOURS)) -> LiveUnit:
    stage = live_slot(how, slots, HOURS[slot % 4], np.full((3, 1), 2_000), ENTRY)
    return draw_live(nobody(stage), stage, facts(slot), slot * 3600, how, Noise())


def day_unit(how: LevelsPolicy, number: int = 0, *, first: bool = False) -> StageUnit:
    planned = how.first if first else how.later
    stage = laid_stage(how, planned, number, HOURS, np.full((3, len(HOURS)), 2_000), 1)
    slots = [facts(slot) for slot in range(len(HOURS))]
    return draw_stage(nobody(stage), stage, slots, 0, how, Noise(), is_first=first)
