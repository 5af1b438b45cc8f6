"""What is released of a stage: noisy integers, and what they say in weights and km/h."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpops.levels.bounded import Float64s, Rows, Sums, coefficients, sum_up
from dpops.levels.groups import Level
from dpops.levels.stages import Stage
from dpops.types import Int64s

if TYPE_CHECKING:
    from dpops.noise import Noise


@dataclass(frozen=True, kw_only=True)
class ReleasedLevel:
    """The noisy sums of one level, float64 (level.size,) each.

    weights: W_q = sum over vehicle-days of s w_q. speeds: S_q = sum of s v_q, km/h: weighted speeds less their centres.
    weight_sd, speed_sd: standard deviation of the noise in each; infinite where the level had no share of it, and 0
    for weights under public counts.
    """

    level: Level
    weights: Float64s = field(repr=False)
    speeds: Float64s = field(repr=False)
    weight_sd: float
    speed_sd: float


@dataclass(frozen=True, kw_only=True)
class ReleasedStage:
    """What one look at a day says, in the order of the stage's levels."""

    stage: Stage
    levels: tuple[ReleasedLevel, ...]


def release(sums: Sums, stage: Stage, noise: "Noise") -> Int64s:
    """Adds noise to the sums, all drawn at once: int64 (2 * stage.groups,), weights of all levels, then speeds.

    A level without a share gets zeros, and weights under public counts are exact. sums: from `sum_up`.
    """
    exact = np.concatenate(sums)
    noisy = np.flatnonzero(np.concatenate([_has_noise(stage, speeds=False), _has_noise(stage, speeds=True)]))
    gaussian = noise.rounded_gaussian if stage.accounting == "gdp" else noise.gaussian
    draw = gaussian if stage.kind == "gaussian" else noise.laplace
    exact[noisy] += draw([stage.spread] * noisy.size)
    return exact


def release_rows(rows: Rows, stage: Stage, noise: "Noise") -> ReleasedStage:
    """Releases a whole stage in one step, for simulation."""
    return read(release(sum_up(rows, stage), stage, noise), stage)


def read(integers: Sequence[int] | Int64s, stage: Stage) -> ReleasedStage:
    """Reads weights and km/h from noisy integers: post-processing.

    Raises ValueError for another number of integers than the stage has.
    """
    whole = np.array(integers, np.float64)
    if whole.size != 2 * stage.groups:
        raise ValueError(f"a release of {whole.size} integers does not fit a stage of {2 * stage.groups}")
    start, levels = 0, []
    for level in stage.levels:
        weight, speed = coefficients(level, stage)
        parts = slice(start, start + level.size), slice(stage.groups + start, stage.groups + start + level.size)
        weight_noise = 0.0 if stage.counts_public else stage.noise_sd
        levels.append(
            ReleasedLevel(
                level=level,
                weights=_in_units(whole[parts[0]], weight),
                speeds=_in_units(whole[parts[1]], speed),
                weight_sd=weight_noise / weight if weight else np.inf,
                speed_sd=stage.noise_sd / speed if speed else np.inf,
            )
        )
        start += level.size
    return ReleasedStage(stage=stage, levels=tuple(levels))


def _has_noise(stage: Stage, *, speeds: bool) -> "np.typing.NDArray[np.bool_]":
    parts = []
    for level in stage.levels:
        weights = 0 if stage.counts_public else level.weight_share
        share = (level.speed_share if stage.has_speeds else 0) if speeds else weights
        parts.append(np.full(level.size, share > 0))
    return np.concatenate(parts)


def _in_units(integers: Float64s, steps: float) -> Float64s:
    return integers / steps if steps else np.zeros(integers.size)
