"""Live slots: what each slot of a period may spend of a vehicle-day's total while the period lasts, and on what."""

import math
from dataclasses import replace
from fractions import Fraction

from dpops.levels.defaults import Profile
from dpops.levels.stages import Kind, Part, Shares, Stage

LIVE_BOUND_KMH, LIVE_ALPHA = Fraction(9), Fraction(9, 10)


def live_stage(kind: Kind, spread: Fraction, epsilon: Fraction, share: Fraction | None = None) -> Stage:
    """Makes one stage of all live slots of a period, by the total. share: instead of the default; its end has the rest.

    Raises ValueError. Source: docs/released.md, "Live slots".
    """
    if share is not None and not 0 < share < 1:
        raise ValueError("share must be above 0 and below 1: the period's end needs the rest")
    part, speeds, weights = _DEFAULTS[kind, epsilon >= 10]
    nothing = Fraction(0)
    of_speeds, of_weights = dict(speeds), dict(weights)
    return Stage(
        kind=kind,
        spread=spread,
        parts=tuple(
            Part(name, of_speeds.get(name, nothing), of_weights.get(name, nothing)) for name in of_speeds | of_weights
        ),
        share=Fraction(part) if share is None else share,
        bound_kmh=LIVE_BOUND_KMH,
        alpha=LIVE_ALPHA,
    )


def of_slot(live: Stage, slots: int) -> Stage:
    """Takes one of a period's live slots. slots: that the period really has, 23 or 25 where the clock changes."""
    return replace(live, share=live.share / slots)


def _shares(**parts: str) -> Shares:
    return tuple((name.replace("_", "-"), Fraction(part)) for name, part in parts.items())


_DEFAULTS: dict[tuple[Kind, bool], tuple[str, Shares, Shares]] = {
    ("gaussian", False): (".3", _shares(hour=".3", parent_hour=".3", cell_hour=".4"), _shares(hour="1")),
    ("gaussian", True): (
        ".7",
        _shares(hour=".1", parent_hour=".2", cell_hour=".7"),
        _shares(hour=".3", cell_hour=".7"),
    ),
    ("laplace", False): (".4", _shares(hour=".8", parent_hour=".2"), _shares(hour="1")),
    ("laplace", True): (".3", _shares(hour=".5", parent_hour=".5"), _shares(hour="1")),
}
"""By noise, and whether the total is 10 or more."""


def slot_weight(stage: Stage, profile: Profile) -> float:
    """Estimates what a typical vehicle's HAT weighs in a live slot, times all HATs of its day: in a day's units.

    By the public profile, before clipping: so many HATs in each hour that it drives.
    """
    hats = max(profile.hats / profile.hours, 1.0)
    if stage.kind == "laplace":
        return profile.hats / hats
    touched = {"hour": 1.0, "cell-hour": hats, "parent-hour": min(hats, max(2 * profile.parents / profile.hours, 1.0))}
    mixed = [
        float(stage.alpha * level.speed_share + (1 - stage.alpha) * level.weight_share) / touched[level.name]
        for level in stage.levels
    ]
    return profile.hats / hats / math.sqrt(sum(mixed))
