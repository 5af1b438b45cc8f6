"""Live slots: what each slot of a period may spend of a vehicle-day's total while the period lasts, and on what."""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpops.levels.defaults import Profile, Shares
from dpops.levels.stages import Kind, Stage


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """share: of the total, for all slots of a period together; the period's end has the rest.

    speeds, weights: how a slot's part is divided over levels of its HATs; each adds up to 1. bound_kmh, alpha: see
    `Stage`.
    """

    share: Fraction
    speeds: Shares
    weights: Shares
    bound_kmh: Fraction = Fraction(9)
    alpha: Fraction = Fraction(9, 10)

    def of_slot(self, slots: int) -> Fraction:
        """The share of one of a period's slots. slots: that the period really has, 23 or 25 where the clock changes."""
        return self.share / slots

    @property
    def levels(self) -> list[tuple[str, Fraction, Fraction]]:
        """Names with their shares of the speeds and of the weights."""
        speeds, weights = dict(self.speeds), dict(self.weights)
        return [(name, speeds.get(name, Fraction(0)), weights.get(name, Fraction(0))) for name in speeds | weights]


def live_settings(kind: Kind, epsilon: Fraction, share: Fraction | None = None) -> LiveSettings:
    """By the total. share: instead of the default. Raises ValueError. Source: docs/levels.md, "Live slots"."""
    if share is not None and not 0 < share < 1:
        raise ValueError("share must be above 0 and below 1: the period's end needs the rest")
    part, speeds, weights = _DEFAULTS[kind, epsilon >= 10]
    return LiveSettings(share=Fraction(part) if share is None else share, speeds=speeds, weights=weights)


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
    """What a typical vehicle's HAT weighs in a live slot, times all HATs of its day: so in units of a day's weights.

    By the public profile, before clipping: so many HATs in each hour that it drives.
    """
    hats = max(profile.hats / profile.hours, 1.0)
    if stage.kind == "laplace":
        return profile.hats / hats
    touched = {"hour": 1.0, "cell-hour": hats, "parent-hour": min(hats, max(2 * profile.parents / profile.hours, 1.0))}
    mixed = [
        float(stage.alpha * each.speed_share + (1 - stage.alpha) * each.weight_share) / touched[each.name]
        for each in stage.levels
    ]
    return profile.hats / hats / math.sqrt(sum(mixed))
