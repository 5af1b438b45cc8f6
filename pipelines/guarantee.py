"""The guarantee of a release in one sentence that a newspaper could print."""

import math
from fractions import Fraction

from dpops.privacy import PerPeriod
from pipelines.spec import Specification

_SPAN = {"vehicle-day": "of one day ", "vehicle-week": "of one week ", "vehicle-ever": ""}


def sentence(spec: Specification, hat: Fraction, spent: Fraction) -> str:
    """hat: the largest epsilon of a HAT in the release. spent: the most that any vehicle spends in a period of it."""
    period = spec.composition.epsilon if isinstance(spec.composition, PerPeriod) else spent
    return (
        f"Whatever is known beforehand, no single published figure changes the odds of any guess about the speeds of "
        f"one vehicle by more than a factor of {_factor(hat)} (epsilon {float(hat):g}), and all figures "
        f"{_SPAN[spec.account.unit]}in this release together by no more than {_factor(period)} "
        f"(epsilon {float(period):g}); that a vehicle drove, when and where is treated as public."
    )


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
