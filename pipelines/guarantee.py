"""The guarantee of a release in one sentence that a newspaper could print."""

import math
from fractions import Fraction

from dpops.privacy import PerPeriod
from pipelines.spec import Specification

LITTLE_PROTECTION = 10
"""An epsilon above which the sentence says what the number means."""

_SPAN = {"vehicle-day": " about one day", "vehicle-week": " about one week", "vehicle-ever": ""}


def sentence(spec: Specification, hat: Fraction, spent: Fraction) -> str:
    """hat: the largest epsilon of a HAT in the release. spent: bounds what a vehicle spent in any period of it."""
    period = max(spec.composition.epsilon, spent) if isinstance(spec.composition, PerPeriod) else spent
    return (
        f"No single figure of this release changes the odds of any guess about the speeds of one vehicle by more than "
        f"a factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures that the account has "
        f"released{_SPAN[spec.account.unit]} changes them by at most a factor of {_factor(period)} "
        f"(epsilon {float(period):g}{', which is little protection' if period > LITTLE_PROTECTION else ''}); "
        "that a vehicle drove, when and where is treated as public."
    )


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
