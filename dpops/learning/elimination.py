"""In which order local effects are eliminated: a city is cut in two along cells, and each half again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

MOST_TOGETHER = 64
"""So many effects are not cut any more: steps of Python cost more than their arithmetic."""


@dataclass(frozen=True, slots=True)
class Front:
    """Effects that are eliminated together: those at [start, stop) in the order of elimination.

    meets: int64, ascending, the later ones that they touch once all before them are eliminated; they stand behind the
    front's own in its matrix. above: the index of the front that takes over what is left for them, -1 where there is
    none; into: where they stand in its matrix. below: the fronts whose rest this one takes over. numbers: which of a
    matrix's numbers stand in this front's, and flat: at which of its places, row by row.
    """

    start: int
    stop: int
    meets: Int64s
    above: int
    into: Int64s
    below: Sequence[int]
    numbers: Int64s
    flat: Int64s

    @property
    def own(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def size(self) -> int:
        """How many effects are eliminated here."""
        return self.stop - self.start

    @property
    def width(self) -> int:
        return self.size + self.meets.size


@dataclass(frozen=True, slots=True)
class Elimination:
    """order: int64 (places,), the place of each effect that is eliminated; rank: int64 (places,), when each is."""

    order: Int64s
    rank: Int64s
    fronts: Sequence[Front]


def elimination(family: Int64s, neighbours: Int64s, row: Int64s, column: Int64s) -> Elimination:
    """Finds the order (nested dissection, George 1973), and what each front touches.

    family: int64 (places,); effects of one family touch one another. neighbours: int64 (2, pairs), places that touch as
    well. row, column: the places of a system's numbers.
    """
    apart = neighbours[:, family[neighbours[0]] != family[neighbours[1]]]
    pairs = np.concatenate([apart, apart[::-1]], axis=1)
    parts = list(_Town(np.arange(family.size), family, pairs).fronts())
    order, bounds = np.concatenate(parts), np.concatenate([[0], np.cumsum([part.size for part in parts])])
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return Elimination(order, rank, _fronts(bounds, rank[row], rank[column]))


@dataclass(frozen=True, slots=True)
class _Town:
    """Places, their families, and pairs of them in different families that touch, (2, pairs) in both directions, as
    positions among these places."""

    places: Int64s
    family: Int64s
    pairs: Int64s

    def fronts(self) -> Iterator[Int64s]:
        """Yields the places of each front; those of a cut come after those of both its sides."""
        names, family = np.unique(self.family, return_inverse=True)
        if self.places.size <= MOST_TOGETHER or names.size == 1:
            yield self.places
            return
        order = _by_distance(names.size, family[self.pairs])
        so_far = np.cumsum(np.bincount(family)[order])
        middle = int(np.clip(np.searchsorted(so_far, so_far[-1] / 2), 1, names.size - 1))
        is_near = np.isin(family, order[:middle])
        crossing = self.pairs[:, is_near[self.pairs[0]] & ~is_near[self.pairs[1]]]
        cut = min(np.unique(crossing[0]), np.unique(crossing[1]), key=len)
        sides = is_near, ~is_near
        for side in sides:
            side[cut] = False
            if side.any():
                yield from self._only(side).fronts()
        if cut.size:
            yield self.places[cut]

    def _only(self, taken: NDArray[np.bool_]) -> "_Town":
        index = np.cumsum(taken) - 1
        return _Town(self.places[taken], self.family[taken], index[self.pairs[:, taken[self.pairs].all(axis=0)]])


def _by_distance(count: int, pairs: Int64s) -> Int64s:
    """Orders families by their distance from an outermost one, part by part of a town in several parts."""
    ends = np.divmod(np.unique(pairs[0] * count + pairs[1]), count)
    starts = np.searchsorted(ends[0], np.arange(count + 1))
    others = [ends[1][start:stop].tolist() for start, stop in pairwise(starts.tolist())]
    order: list[int] = []
    seen: set[int] = set()
    for family in range(count):
        if family not in seen:
            order += _reached(_reached(family, others)[-1], others)
            seen.update(order[len(seen) :])
    return np.array(order)


def _reached(first: int, others: Sequence[Sequence[int]]) -> list[int]:
    """Lists all families that can be reached from one, the nearest first."""
    nearest_first, reached = [first], {first}
    for family in nearest_first:
        more = [other for other in others[family] if other not in reached]
        nearest_first += more
        reached.update(more)
    return nearest_first


def _fronts(bounds: Int64s, row: Int64s, column: Int64s) -> list[Front]:
    """Makes the fronts of a system. row, column: ranks of its numbers.

    A number belongs to the front that first eliminates one of both.
    """
    of_rank = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    of_number = of_rank[np.minimum(row, column)]
    by_front = np.argsort(of_number, kind="stable")
    numbers = np.split(by_front, np.searchsorted(of_number[by_front], np.arange(1, bounds.size - 1)))
    below: list[list[int]] = [[] for _ in numbers]
    met: list[Int64s] = []
    for index, own in enumerate(numbers):
        reached = np.unique(np.concatenate([row[own], column[own], *(met[before] for before in below[index])]))
        met.append(reached[reached >= bounds[index + 1]])
        if met[index].size:
            below[of_rank[met[index][0]]].append(index)
    fronts = []
    for index, (own, meets) in enumerate(zip(numbers, met, strict=True)):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        above = int(of_rank[meets[0]]) if meets.size else -1
        into = _inner(meets, int(bounds[above]), int(bounds[above + 1]), met[above]) if meets.size else meets
        one, other = (_inner(ranks[own], start, stop, meets) for ranks in (row, column))
        flat = one * (stop - start + meets.size) + other
        fronts.append(Front(start, stop, meets, above, into, below[index], own, flat))
    return fronts


def _inner(ranks: Int64s, start: int, stop: int, meets: Int64s) -> Int64s:
    """Finds where ranks stand in the matrix of a front."""
    return np.where(ranks < stop, ranks - start, stop - start + np.searchsorted(meets, ranks))
