"""The guarantee of a release: in one sentence that a newspaper could print, and translated from unit to unit."""

import math
from fractions import Fraction

from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease

LITTLE_PROTECTION = 10
"""An epsilon above which the sentence says what the number means."""

NOT_PROTECTED = (
    "Not protected under counts-public: that a vehicle reported, when, where, how often, and whether a report carried "
    "a speed. Only the speeds are."
)


_SPAN = {"vehicle-day": " about one day", "vehicle-week": " about one week", "vehicle-ever": ""}


def sentence(spec: Specification, hat: Fraction, spent: Fraction) -> str:
    """hat: the largest epsilon of a HAT in the release. spent: bounds what a vehicle spent in any period of it."""
    total = spec.privacy.allocation.total
    period = spent if total is None else max(total, spent)
    return (
        f"No single figure of this release changes the odds of any guess about the speeds of one vehicle by more than "
        f"a factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures that the account has "
        f"released{_SPAN[spec.account.unit]} changes them by at most a factor of {_factor(period)} "
        f"(epsilon {float(period):g}{', which is little protection' if period > LITTLE_PROTECTION else ''}); "
        "that a vehicle drove, when and where is treated as public."
    )


def levels_sentence(spec: Specification, levels: LevelsRelease) -> str:
    """Of a release that gives a vehicle and period one total."""
    what = "the speeds of one vehicle" if spec.counts_are_public else "one vehicle"
    hidden = (
        "that a vehicle drove, when and where is treated as public"
        if spec.counts_are_public
        else "that it drove at all, when, where and how fast included"
    )
    delta = "" if levels.delta is None else f", but for a chance of {float(levels.delta):g} (delta)"
    total = f"(epsilon {float(levels.epsilon):g}{_warning(levels)}){delta}"
    return (
        f"All figures of this release{_SPAN[spec.account.unit]} together change the odds of any guess about {what} by "
        f"at most a factor of {_factor(levels.epsilon)} {total}; {hidden}."
    )


def _warning(levels: LevelsRelease) -> str:
    return ", which is little protection" if levels.epsilon > LITTLE_PROTECTION else ""


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
