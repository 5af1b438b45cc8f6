"""What the ledger's entries teach of places: how each differs from its cell. No data is seen."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpops.levels import Differences
from dpops.levels.stages import CENTRE_STEP_KMH
from transforms.recorded.units import StageEntry
from transforms.releases.periods.learned import MARGIN_KMH, learned_from
from transforms.releases.periods.stages import LevelsPolicy

_WEIGHT_STEPS = 1_000


def learned_differences(entries: Sequence[StageEntry], policy: LevelsPolicy) -> Differences:
    """Around what the next stage looks at places. entries: those of the day's other stages are the last ones.

    Raises ValueError where the policy has no places.
    """
    if policy.places is None:
        raise ValueError("the policy has no places")
    places = policy.places.places
    weight = learned_from(entries, policy).estimate().larger
    return Differences(
        cell=places.cell,
        steps=np.zeros(places.cell.size, np.int64),
        lowest=int(MARGIN_KMH / CENTRE_STEP_KMH),
        highest=int((policy.grid.upper - MARGIN_KMH) / CENTRE_STEP_KMH),
        day_weight=Fraction(round(_WEIGHT_STEPS * min(max(weight, 0.01), 100.0)), _WEIGHT_STEPS),
    )
