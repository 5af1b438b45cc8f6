"""A sparse positive definite matrix factorised front by front: its inverse times columns, and where it has entries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpops.learning.elimination import Elimination
from dpops.types import Float64s

_SMALL = 100


@dataclass(frozen=True, slots=True)
class Factored:
    """inverses: of what is left of each front's own matrix after those before it. gains: (own, met) of each front,
    that inverse times what ties the front to what it meets."""

    elimination: Elimination
    inverses: Sequence[Float64s]
    gains: Sequence[Float64s]

    def solved(self, of: Float64s) -> Float64s:
        """Multiplies the matrix's inverse by columns, (places, n)."""
        solution, fronts = of[self.elimination.order], self.elimination.fronts
        for front, gain in zip(fronts, self.gains, strict=True):
            if front.meets.size:
                solution[front.meets] -= gain.T @ solution[front.own]
        for front, inverse, gain in zip(reversed(fronts), reversed(self.inverses), reversed(self.gains), strict=True):
            own = inverse @ solution[front.own]
            if front.meets.size:
                own -= gain @ solution[front.meets]
            solution[front.own] = own
        return solution[self.elimination.rank]

    def selected(self, size: int) -> Float64s:
        """Computes the inverse where the matrix has its numbers, (size,) (Takahashi, Fagan and Chen 1973)."""
        numbers, fronts = np.zeros(size), self.elimination.fronts
        covariances: dict[int, Float64s] = {}
        for index in reversed(range(len(fronts))):
            front, gain = fronts[index], self.gains[index]
            whole = np.empty((front.width, front.width))
            own, met = slice(front.size), slice(front.size, None)
            whole[own, own] = self.inverses[index]
            if front.meets.size:
                above = covariances[front.above][front.into[:, None], front.into]
                onward = gain @ above
                whole[own, own] += onward @ gain.T
                whole[own, met], whole[met, own], whole[met, met] = -onward, -onward.T, above
            numbers[front.numbers] = whole.ravel()[front.flat]
            covariances[index] = whole
        return numbers


def factored(elimination: Elimination, numbers: Float64s) -> Factored:
    """Factorises a matrix front by front. numbers: of the matrix, as the elimination was told them."""
    inverses: list[Float64s] = []
    gains: list[Float64s] = []
    left: dict[int, Float64s] = {}
    for index, front in enumerate(elimination.fronts):
        matrix = np.zeros((front.width, front.width))
        matrix.ravel()[front.flat] = numbers[front.numbers]
        for below in front.below:
            into = elimination.fronts[below].into
            matrix[into[:, None], into] += left.pop(below)
        onward = matrix[: front.size, front.size :]
        inverses.append(_positive_inverse(matrix[: front.size, : front.size]))
        gains.append(inverses[index] @ onward)
        left[index] = matrix[front.size :, front.size :] - onward.T @ gains[index]
    return Factored(elimination, inverses, gains)


def _positive_inverse(matrix: Float64s) -> Float64s:
    """Inverts a symmetric positive definite matrix, half by half: products are faster than a factorisation."""
    size = matrix.shape[0]
    if size <= _SMALL:
        return inverse_of(matrix)
    half = size // 2
    first = _positive_inverse(matrix[:half, :half])
    gain = first @ matrix[:half, half:]
    rest = _positive_inverse(matrix[half:, half:] - matrix[half:, :half] @ gain)
    across = gain @ rest
    return np.block([[first + across @ gain.T, -across], [-across.T, rest]])


def inverse_of(matrix: Float64s) -> Float64s:
    inverse: Float64s = np.linalg.inv(matrix).astype(np.float64, copy=False)
    return inverse
