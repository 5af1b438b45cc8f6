"""Grids of cases: the quick run takes a diagonal of them, the slow form all."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def grid(*axes: Sequence[Any]) -> list[Any]:
    """Lists all combinations; but for as many as the longest axis has, in which each value occurs, they are slow."""
    quick = {tuple(turn % len(axis) for axis in axes) for turn in range(max(map(len, axes)))}
    return [
        pytest.param(*(axis[place] for axis, place in zip(axes, places, strict=True)), marks=marks)
        for places in product(*(range(len(axis)) for axis in axes))
        for marks in [() if places in quick else pytest.mark.slow]
    ]
