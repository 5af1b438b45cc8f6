"""An audit of levels from tallies to what is recorded, over two stages: ten thousand copies of each neighbour at once.

A copy is a cell of its own in which one vehicle drives, or nobody. The level is `cell` alone, so that a copy's integers
tell nothing of another copy.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import h3
import numpy as np

from dpops.claims import NOISE_CLAIMS, Accounting, PureDP
from dpops.levels.bounded import sum_up
from dpops.levels.defaults import Fleet, spread_of
from dpops.levels.stages import Kind, Stage, alike
from dpops.noise import Noise
from dpops.types import Float64s, Grid, Int64s
from tests.dpops.levels.cities import rows
from tests.statistical.audit import binomial_lower, binomial_upper
from transforms.public import EntryNumber
from transforms.recorded.units import Sequenced, StageUnit
from transforms.releases import SlotFacts
from transforms.releases.periods.release import CountRelease
from transforms.releases.periods.stages import LevelsPolicy, add_up, draw_stage, first_centres, laid_stage
from transforms.value import Value
from transforms.wire import Tally

COPIES = 10_000  # of each neighbour

EPSILON, DELTA = Fraction(66, 25), Fraction(1, 10**6)
LEAST = 0.4  # part of the claim that the bound must reach to say anything

ALPHA = 1e-6
FIRST_S, SLOT_S = 1_640_995_200, 3_600
REGION = tuple(
    sorted(
        h3.str_to_int(cell)
        for parent in h3.cell_to_children(h3.latlng_to_cell(0, 0, 3), 4)[:2]
        for cell in h3.cell_to_children(parent, 9)
    )
)[: 2 * COPIES]
EDGES = "2022-01-01T00:00:00+00:00", "2022-01-01T02:00:00+00:00"
SLOTS = {slot_s: SlotFacts("day", *EDGES, (FIRST_S, FIRST_S + SLOT_S), 1) for slot_s in (FIRST_S, FIRST_S + SLOT_S)}


def mu_claimed(accounting: Accounting = "zcdp") -> float:
    """What a Gaussian release of the total claims."""
    return float(2 * NOISE_CLAIMS[accounting].within(EPSILON, DELTA).rho) ** 0.5


def policy(kind: Kind, *, noise: Fraction = Fraction(1), accounting: Accounting = "zcdp") -> LevelsPolicy:
    """noise: what the noise is multiplied by, against what is claimed."""
    budget = EPSILON if kind == "laplace" else NOISE_CLAIMS[accounting].within(EPSILON, DELTA).rho
    first = Stage(
        kind=kind,
        spread=spread_of(kind, budget) * (noise if kind == "laplace" else noise * noise),
        parts=alike((("cell", Fraction(1)),)),
        share=Fraction(3, 10),
        bound_kmh=Fraction(14),
        alpha=Fraction(1, 2),
        accounting=accounting,
    )
    return LevelsPolicy(
        spec_id="audit",
        total=PureDP(Fraction(0)),
        epsilon=EPSILON,
        delta=None if kind == "laplace" else DELTA,
        first=(first, replace(first, share=1 - first.share, alpha=Fraction(4, 5))),
        later=(),
        region=REGION,
        value=Value(Grid(step=Fraction(1, 100), upper_steps=6_500)),
        fleet=Fleet(),
        digest_key=b"",
    )


def released(kind: Kind, how: LevelsPolicy) -> tuple[list[StageUnit], Int64s]:
    """The recorded stages of a day, and which integers of a copy's vehicle they hide: (stages, weight and speed)."""
    driven = np.array(REGION[:COPIES], np.int64)
    one = np.ones(2 * COPIES, np.int64)
    tally = Tally(
        np.repeat([FIRST_S, FIRST_S + SLOT_S], COPIES),
        np.tile(np.arange(COPIES), 2),
        np.tile(driven, 2),
        2 * one,
        0 * one,
        sums={"sums": 2 * 3_400 * one},  # 34 km/h: as far from the centre as the bound, so that nothing is clipped
    )
    units: list[StageUnit] = []
    for stage in range(len(how.first)):
        entries = [Sequenced(number + 1, unit) for number, unit in enumerate(units)]
        plan = CountRelease(how, {}, "UTC").plan(entries, "day", stage, [8, 9])[0]  # whose centres are constant
        units.append(_one_stage(tally, plan, how))
    return units, _alone(kind, how)


def _one_stage(tally: Tally, stage: Stage, how: LevelsPolicy) -> StageUnit:
    shards = (tally.take(tally.vehicle % 3 == shard) for shard in range(3))
    slots = SLOTS[FIRST_S].joint_slots_s
    sums = add_up(shards, how, slots, stage)
    return draw_stage(sums, stage, [SLOTS[slot_s] for slot_s in slots], FIRST_S, how, Noise())


def _alone(kind: Kind, how: LevelsPolicy) -> Int64s:
    """What one vehicle alone adds to its cell's weight and speed in each stage, (stages, 2)."""
    values = []
    for number, planned in enumerate(how.first):
        stage = laid_stage(how, how.first, number, [8, 9], first_centres(len(REGION), 2), EntryNumber(0))
        assert planned.share == stage.share
        sums = sum_up(rows([[(0, 0, 2, 3_400), (0, 1, 2, 3_400)]]), stage)
        values.append([sums.weights[0], sums.speeds[0]])
    assert kind == how.kind
    return np.array(values, np.int64)


def likelihoods(units: Sequence[StageUnit], alone: Int64s, kind: Kind) -> tuple[Int64s, Int64s]:
    """The best statistic of each copy, with the vehicle and without it: (COPIES,) each, in small steps."""
    return in_steps(statistics(units, alone, kind))


def statistics(units: Sequence[StageUnit], alone: Int64s, kind: Kind) -> Float64s:
    """What a day tells of whether a copy's vehicle drove, (2 COPIES,): it did in the first half."""
    whole = np.zeros(2 * COPIES)
    for unit, shifts in zip(units, alone, strict=True):
        integers = np.array(unit.integers, np.float64).reshape(2, -1)
        for values, shift in zip(integers, shifts.tolist(), strict=True):
            whole += np.abs(values) - np.abs(values - shift) if kind == "laplace" else values * shift / 2**20
    return whole


def in_steps(whole: Float64s) -> tuple[Int64s, Int64s]:
    steps = np.rint(whole / np.abs(whole).max() * 10**9).astype(np.int64)
    return steps[:COPIES], steps[COPIES:]


def mu_bound(first: Int64s, second: Int64s) -> float:
    """A lower bound on the mu of Gaussian privacy, rho = mu^2 / 2; wrong with probability ALPHA at most.

    Of all events, one between the two laws says most of mu; a fifth of the copies chooses it.
    """
    part = first.size // 5
    threshold = np.median(np.concatenate([first[:part], second[:part]]))
    likely, rare = sorted((first, second), key=lambda drawn: -float(drawn[:part].mean()))
    tested = first.size - part
    low = binomial_lower(int((likely[part:] >= threshold).sum()), tested, ALPHA / 2)
    high = binomial_upper(int((rare[part:] >= threshold).sum()), tested, ALPHA / 2)
    law = NormalDist()
    return law.inv_cdf(low) - law.inv_cdf(high)
