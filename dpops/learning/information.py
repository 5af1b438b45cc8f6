"""What linear observations say about effects, kept as sparsely as they are: it adds up over days."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dpops.types import Float64s

if TYPE_CHECKING:
    from dpops.learning.layout import EffectLayout


@dataclass(frozen=True, slots=True)
class Wide:
    """Observations that touch many families, one a row. local: (rows, places). border: (rows, border).

    precisions, values: (rows,).
    """

    local: Float64s
    border: Float64s
    precisions: Float64s
    values: Float64s

    def scaled(self) -> "Wide":
        """Scales rows to means: with the city's number once in each."""
        size = np.maximum(self.border[:, 0], 1e-100)
        return Wide(
            self.local / size[:, None], self.border / size[:, None], self.precisions * size**2, self.values / size
        )

    def __add__(self, other: "Wide") -> "Wide":
        """Merges scaled rows of the same groups, weighted by precision: exact where they are the same."""
        total = np.maximum(self.precisions + other.precisions, 1e-300)
        one, another = self.precisions / total, other.precisions / total
        return Wide(
            one[:, None] * self.local + another[:, None] * other.local,
            one[:, None] * self.border + another[:, None] * other.border,
            self.precisions + other.precisions,
            one * self.values + another * other.values,
        )


@dataclass(frozen=True, slots=True)
class Information:
    """The precision that observations bring, and precision times value.

    families: flat, the matrices of all families' own effects. mixed: (places, border). corner: (border, border).
    local: (places,) and border: (border,), precision times value. wide: by a key that says which groups they are of.
    """

    families: Float64s
    mixed: Float64s
    corner: Float64s
    local: Float64s
    border: Float64s
    wide: Mapping[bytes, Wide] = field(default_factory=dict)

    @staticmethod
    def none(layout: "EffectLayout") -> "Information":
        places, border = layout.local.size, layout.border.size
        return Information(
            np.zeros(int(layout.entries[-1])),
            np.zeros((places, border)),
            np.zeros((border, border)),
            np.zeros(places),
            np.zeros(border),
        )

    def __add__(self, other: "Information") -> "Information":
        wide = dict(self.wide)
        for key, rows in other.wide.items():
            wide[key] = wide[key] + rows if key in wide else rows
        return Information(
            self.families + other.families,
            self.mixed + other.mixed,
            self.corner + other.corner,
            self.local + other.local,
            self.border + other.border,
            wide,
        )

    def times(self, part: float) -> "Information":
        """Makes observations count for that part of what they were."""
        wide = {key: replace(rows, precisions=part * rows.precisions) for key, rows in self.wide.items()}
        return Information(
            part * self.families, part * self.mixed, part * self.corner, part * self.local, part * self.border, wide
        )

    def cost(self, layout: "EffectLayout", effects: Float64s) -> float:
        """Computes effects' information effects - 2 vector' effects, up to a constant."""
        local, border = effects[layout.local], effects[layout.border]
        row, column = layout.pair_places
        cost = float(np.sum(self.families * local[row] * local[column]))
        cost += float(2 * local @ self.mixed @ border + border @ self.corner @ border)
        cost -= float(2 * (self.local @ local + self.border @ border))
        for rows in self.wide.values():
            cost += float(rows.precisions @ (rows.values - rows.local @ local - rows.border @ border) ** 2)
        return cost
