"""What linear observations say about effects: a matrix and a vector that add up over days."""

from dataclasses import dataclass

import numpy as np

from dpops.types import Float64s


@dataclass(frozen=True, slots=True)
class Information:
    """The precision (columns, columns) that observations bring, and precision times value (columns,)."""

    matrix: Float64s
    vector: Float64s

    def __add__(self, other: "Information") -> "Information":
        return Information(self.matrix + other.matrix, self.vector + other.vector)

    @staticmethod
    def none(columns: int) -> "Information":
        return Information(np.zeros((columns, columns)), np.zeros(columns))


def inverse(matrix: Float64s) -> Float64s:
    """Of a symmetric positive definite matrix."""
    found: Float64s = np.linalg.inv(matrix).astype(np.float64)
    return found


def solved(matrix: Float64s, target: Float64s) -> Float64s:
    found: Float64s = np.linalg.solve(matrix, target).astype(np.float64)
    return found
