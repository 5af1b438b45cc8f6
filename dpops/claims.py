"""Adjacency, the privacy claim of a mechanism, and how claims add up over HATs, slots and periods."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

Adjacency = Literal["counts-public", "add-remove"]


@dataclass(frozen=True, slots=True)
class PureDP:
    """P(M(D) in Y) <= exp(epsilon) P(M(D') in Y) for all neighbours D, D' and all sets Y."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be >= 0, got {self.epsilon}")


def compose(claims: Iterable[PureDP]) -> PureDP:
    """Sequential composition: the epsilons of what one vehicle takes part in add up."""
    return PureDP(sum((claim.epsilon for claim in claims), Fraction(0)))


class Composition(Protocol):
    """How the epsilon of a specification becomes the epsilon of one HAT."""

    @property
    def epsilon(self) -> Fraction: ...

    def hat(self, most_cells: int, slots: int) -> Fraction:
        """Epsilon of each HAT of a slot.

        most_cells: the most HATs of this slot that one vehicle takes part in, >= 1; slots: slots of the whole period.
        """
        ...


@dataclass(frozen=True, slots=True)
class PerHat:
    """Each HAT gets epsilon; what a vehicle spends follows from where it drove, and is reported."""

    epsilon: Fraction

    def hat(self, most_cells: int, slots: int) -> Fraction:  # noqa: ARG002 - the interface of Composition
        return self.epsilon


@dataclass(frozen=True, slots=True)
class PerPeriod:
    """A vehicle spends at most epsilon in the whole period: divided over its slots, then over the cells it keeps."""

    epsilon: Fraction

    def hat(self, most_cells: int, slots: int) -> Fraction:
        return self.epsilon / slots / most_cells


def slot_debit(hat_epsilon: Fraction, most_cells: int) -> Fraction:
    """The most that any vehicle spends in a slot. Source: S2, composition max over users of sum over its grids."""
    return compose([PureDP(hat_epsilon)] * most_cells).epsilon
