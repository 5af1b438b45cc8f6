"""State of learning, its arrays, and public fleet facts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpops.learning.city import speed_layout, weight_layout
from dpops.learning.effects import EffectLayout, Start
from dpops.learning.releases import DayValues, Design

RECENT = 2  # least number of days kept as released; older ones are folded into their mean day


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts about a fleet; weights in typical vehicle-days.

    Attributes:
        vehicles: expected on a day.
        hat_weight: weight of one of a vehicle's HATs.
        hats_in_hour, hats_in_cell: HATs of one vehicle in an hour that it drives in, and in a cell that it comes to.
        standing: ratio of what a typical vehicle's reports weigh to those of one that stands all day.
    """

    vehicles: float
    hat_weight: float
    hats_in_hour: float = 1.0
    hats_in_cell: float = 1.0
    standing: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.vehicles, self.hat_weight) > 0:
            raise ValueError("a fleet's facts must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Summary of earlier releases.

    Attributes:
        days: number of days in it.
        older: mean days of those folded in, one for each kind of hours.
        recent: the last days as released, at least `least_recent`; None keeps all.
        start: initial values of fits, once days are folded.
    """

    design: Design
    weight_layout: EffectLayout
    speed_layout: EffectLayout
    facts: Facts
    days: int = 0
    older: tuple[DayValues, ...] = ()
    recent: tuple[DayValues, ...] = ()
    least_recent: int | None = RECENT
    start: Start | None = None

    @staticmethod
    def new(design: Design, facts: Facts, least_recent: int | None = RECENT) -> "State":
        """Makes the state before the first day."""
        weights, speeds = weight_layout(design), speed_layout(design)
        return State(design=design, weight_layout=weights, speed_layout=speeds, facts=facts, least_recent=least_recent)


Arrays = Mapping[str, NDArray[Any]]

VERSION = 24  # version of the model and of its arrays' meaning; arrays of another version are not restored


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Writes the state of folded days as arrays."""
    return dict(_flattened("older", state.older)) | dict(_flattened("start", state.start))


def _flattened(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the arrays and numbers in a value, named by path, such as older.0.hours."""
    if isinstance(value, np.ndarray | float | bool):
        yield name, np.asarray(value)
    elif value is not None:
        items = dict(enumerate(value)) if type(value) is tuple else value  # a NamedTuple has fields
        if not isinstance(items, Mapping):
            items = {field: getattr(value, field) for field in get_type_hints(type(value))}
        for step, item in items.items():
            yield from _flattened(f"{name}.{step}", item)


def restore_state(state: State, days: int, recent: tuple[DayValues, ...], arrays: Arrays) -> State:
    """Restores a state from arrays that `arrays_of` made. Raises KeyError or ValueError.

    state: the one before the first day, of the same city. days, recent: as in `State`, from the ledger.
    """
    older = _restored("older", tuple[DayValues, ...], arrays)
    start = _restored("start", Start, arrays) if "start.effects.local" in arrays else None  # no day is folded in yet
    shapes = [array.shape for array in state.weight_layout.zeros(days=0)]  # of effects that all days share
    if start is not None and [array.shape for array in start.effects] != shapes:
        raise ValueError("the effects are of another city")
    return replace(state, days=days, recent=recent, older=older, start=start)


def _restored(name: str, kind: Any, arrays: Arrays) -> Any:
    """Builds a value of this type from arrays whose paths begin with `name`."""
    if get_origin(kind) is tuple:
        # Paths are older.0.hours, older.0.stages.0.centre ..: the step after the name is an item's number.
        numbers = {path.split(".")[name.count(".") + 1] for path in arrays if path.startswith(f"{name}.")}
        return tuple(_restored(f"{name}.{step}", get_args(kind)[0], arrays) for step in range(len(numbers)))
    if get_origin(kind) is Mapping:
        return {path.removeprefix(f"{name}."): value for path, value in arrays.items() if path.startswith(f"{name}.")}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(**{step: _restored(f"{name}.{step}", hint, arrays) for step, hint in hints.items()})
    return kind(arrays[name]) if kind in (float, bool) else arrays[name]
