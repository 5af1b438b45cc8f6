"""The guarantee of a release in one sentence that a newspaper could print."""

import math
from fractions import Fraction

from dpops.privacy import PerPeriod
from pipelines.spec import Specification

LITTLE_PROTECTION = 10
"""An epsilon above which the sentence says what the number means."""

_SPAN = {"vehicle-day": "of one day ", "vehicle-week": "of one week ", "vehicle-ever": ""}


def sentence(spec: Specification, hat: Fraction, spent: Fraction) -> str:
    """hat: the largest epsilon of a HAT in the release. spent: the most that any vehicle spends in a period of it."""
    period = spec.composition.epsilon if isinstance(spec.composition, PerPeriod) else spent
    return (
        f"No single published figure changes the odds of any guess about the speeds of one vehicle by more than a "
        f"factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures "
        f"{_SPAN[spec.account.unit]}in this release changes them by at most a factor of {_factor(period)} "
        f"(epsilon {float(period):g}{', which is little protection' if period > LITTLE_PROTECTION else ''}); "
        "that a vehicle drove, when and where is treated as public."
    )


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
