"""Live slots: their share of the total, and levels."""

import math
from dataclasses import replace
from fractions import Fraction

from dpops.levels.defaults import Profile
from dpops.levels.stages import Kind, Part, Shares, Stage, shares_of

LIVE_BOUND_KMH, LIVE_ALPHA = Fraction(9), Fraction(9, 10)


def live_stage(kind: Kind, spread: Fraction, epsilon: Fraction, share: Fraction | None = None) -> Stage:
    """Makes a period's stage of live slots (docs/released.md)."""
    if share is not None and not 0 < share < 1:
        raise ValueError("share must be above 0 and below 1: the period's end needs the rest")
    part, speeds, weights = _DEFAULTS[kind, epsilon >= 10]
    of_speeds, of_weights, nothing = dict(speeds), dict(weights), Fraction(0)
    names = of_speeds | of_weights
    return Stage(
        kind=kind,
        spread=spread,
        parts=tuple(Part(name, of_speeds.get(name, nothing), of_weights.get(name, nothing)) for name in names),
        share=Fraction(part) if share is None else share,
        bound_kmh=LIVE_BOUND_KMH,
        alpha=LIVE_ALPHA,
    )


def of_slot(live: Stage, slots: int) -> Stage:
    """Derives a slot's stage from that of all slots."""
    return replace(live, share=live.share / slots)


_HOURS = shares_of(hour="1")
_FINE = shares_of(hour=".1", parent_hour=".2", cell_hour=".7"), shares_of(hour=".3", cell_hour=".7")
_DEFAULTS: dict[tuple[Kind, bool], tuple[str, Shares, Shares]] = {
    ("gaussian", False): (".3", shares_of(hour=".3", parent_hour=".3", cell_hour=".4"), _HOURS),
    ("gaussian", True): (".7", *_FINE),
    ("laplace", False): (".4", shares_of(hour=".8", parent_hour=".2"), _HOURS),
    ("laplace", True): (".3", shares_of(hour=".5", parent_hour=".5"), _HOURS),
}
"""Shares by noise, and whether the total is 10 or more."""


def slot_weight(stage: Stage, profile: Profile) -> float:
    """Estimates a live HAT's unclipped weight times daily HATs."""
    hats = max(profile.hats / profile.hours, 1.0)
    if stage.kind == "laplace":
        return profile.hats / hats
    touched = {"hour": 1.0, "cell-hour": hats, "parent-hour": min(hats, max(2 * profile.parents / profile.hours, 1.0))}
    mixed = [
        float(stage.alpha * level.speed_share + (1 - stage.alpha) * level.weight_share) / touched[level.name]
        for level in stage.levels
    ]
    return profile.hats / hats / math.sqrt(sum(mixed))
