"""A public list of keys in the place of a region's cells: routes, stops, or the pairs of two such lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dpops.types import Int64s

BETWEEN = "|"
"""Stands between the two parts of a pair's name."""
MOST_KEYS, MOST_LETTERS = 200_000, 256
BLOCK = 8
"""So many keys of one list, as they stand in it, are a group above them: those next to one another differ less."""


@dataclass(frozen=True)
class Keys(Sequence[int]):
    """Keys numbered from 0, which are counted as cells are. names: of each. groups: names of what lies above them;
    parents: which of these each key lies in.

    >>> Keys.of(["1", "2"], ["north", "south"]).names
    ('1|north', '1|south', '2|north', '2|south')
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    parents: tuple[int, ...]
    resolution: ClassVar[None] = None

    @classmethod
    def of(cls, keys: Sequence[str], inner: Sequence[str] | None = None) -> "Keys":
        """Makes keys of one list in its order, or all pairs of two, which lie in those of the first.

        Raises ValueError for a list that is empty, holds a key twice, or one that no row could have.
        """
        for listed in (keys, *([] if inner is None else [inner])):
            if not listed or len(set(listed)) < len(listed):
                raise ValueError("keys must be there, each once")
            wrong = next((key for key in listed if key != key.strip() or not 0 < len(key) <= MOST_LETTERS), None)
            if wrong is not None or (inner is not None and any(BETWEEN in key for key in listed)):
                raise ValueError(f"a key must be 1 to {MOST_LETTERS} letters without white space at its ends")
        number = len(keys) * (1 if inner is None else len(inner))
        if number > MOST_KEYS:
            raise ValueError(f"there are {number:,} keys; at most {MOST_KEYS:,}")
        if inner is None:
            parents = tuple(place // BLOCK for place in range(number))
            groups = tuple(BETWEEN.join((keys[first], "..")) for first in range(0, number, BLOCK))
            return cls(tuple(keys), groups, parents)
        names = tuple(f"{outer}{BETWEEN}{key}" for outer in keys for key in inner)
        return cls(names, tuple(keys), tuple(place for place in range(len(keys)) for _ in inner))

    @cached_property
    def number(self) -> dict[bytes, int]:
        """The number of each key, by its name as rows have it."""
        return {name.encode(): place for place, name in enumerate(self.names)}

    def keys(self, cells: Int64s, heading: Int64s | None = None) -> Int64s:  # noqa: ARG002 - of `ground.Ground`
        return cells

    def named(self, cells: Int64s) -> list[str]:
        return [self.names[cell] for cell in cells.tolist()]

    def __getitem__(self, place: Any) -> Any:
        return range(len(self.names))[place]

    def __len__(self) -> int:
        return len(self.names)
