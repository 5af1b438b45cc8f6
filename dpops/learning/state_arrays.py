"""What is kept of older days as plain arrays, so that it can be stored and taken up again."""

from collections.abc import Mapping
from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpops.learning.design import Smoothness
from dpops.learning.information import Information, Wide
from dpops.learning.means import DayInformation
from dpops.learning.releases import DayValues
from dpops.learning.starts import FitStart, Start
from dpops.learning.state import State
from dpops.learning.whole import NoisyTotals

Arrays = Mapping[str, NDArray[Any]]

VERSION = 13
"""Of what arrays mean, and of how they are made of releases: those of another version are not taken up."""

_INFORMATION = ("families", "mixed", "corner", "local", "border")
_WIDE = ("local", "border", "precisions", "values")


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Writes into arrays what the days say that are not kept as released any more."""
    arrays = _of_information("counts", state.counts)
    if state.means is not None:
        arrays |= _of_information("means", state.means.information) | {"means.days": np.array(state.means.days)}
    if state.start is not None:
        counts, means = state.start
        arrays |= {"start.effects": counts.effects, "start.totals": np.array(astuple(counts.totals))}
        arrays |= {"start.counts": np.array(astuple(counts.smoothness)), "start.means": np.array(astuple(means))}
    return arrays


def taken_up(new: State, days: int, recent: tuple[DayValues, ...], arrays: Arrays) -> State:
    """Restores the state after so many days that gave these arrays. new: before the first day. recent: the last days.

    Raises KeyError or ValueError for arrays that are none of a state.
    """
    means = None
    if "means.days" in arrays:
        means = DayInformation(_information("means", arrays), float(arrays["means.days"]))
    return replace(
        new, days=days, recent=recent, counts=_information("counts", arrays), means=means, start=_start(new, arrays)
    )


def _start(new: State, arrays: Arrays) -> FitStart | None:
    if "start.effects" not in arrays:
        return None
    names = [field.name for field in fields(Smoothness)]
    counts, means = (
        Smoothness(**dict(zip(names, arrays[of].tolist(), strict=True))) for of in ("start.counts", "start.means")
    )
    effects = arrays["start.effects"]
    if effects.shape != (new.rows.counts.layout.width,):
        raise ValueError("the effects are of another city")
    return FitStart(Start(effects, counts, NoisyTotals(*arrays["start.totals"].tolist())), means)


def _of_information(of: str, information: Information) -> dict[str, NDArray[Any]]:
    arrays = {f"{of}.{name}": getattr(information, name) for name in _INFORMATION}
    for index, (key, rows) in enumerate(information.wide.items()):
        arrays[f"{of}.{index}.key"] = np.frombuffer(key, np.uint8)
        arrays |= {f"{of}.{index}.{name}": getattr(rows, name) for name in _WIDE}
    return arrays


def _information(of: str, arrays: Arrays) -> Information:
    wide: dict[bytes, Wide] = {}
    while f"{of}.{len(wide)}.key" in arrays:
        prefix = f"{of}.{len(wide)}"
        across, beside, precisions, values = (arrays[f"{prefix}.{name}"] for name in _WIDE)
        wide[arrays[f"{prefix}.key"].tobytes()] = Wide(across, beside, precisions, values)
    families, mixed, corner, local, border = (arrays[f"{of}.{name}"] for name in _INFORMATION)
    return Information(families, mixed, corner, local, border, wide)
