"""What a specification says of distributions under a small total: speed classes, and what is spent on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from dpops.levels.class_stage import class_edges
from dpops.types import Grid
from pipelines.specification.numbers import from_toml
from pipelines.specification.types_schema import about

STATISTIC = "distribution"
SHARE = Fraction(1, 5)


class ClassOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the [[statistic]] of distributions, as written."""

    share: Annotated[Fraction, about("of each period's total; the mean keeps the rest")] = SHARE
    classes: Annotated[int, about("of speeds, 6 to 10: standing, and others of equal width up to the upper bound")] = 8


@dataclass(frozen=True)
class ClassesAsked:
    """Checked. edges: between the classes, in steps of the speed grid."""

    share: Fraction
    edges: tuple[int, ...]

    def text(self) -> dict[str, Any]:
        """Writes what decides the release, as plain values."""
        return {"share": str(self.share), "edges": list(self.edges)}


def classes_asked(options: Mapping[str, Any], grid: Grid) -> ClassesAsked:
    """Raises ValueError or msgspec.ValidationError, which name the option."""
    asked = msgspec.convert(dict(options), ClassOptions, dec_hook=from_toml)
    if not 0 < asked.share < 1:
        raise ValueError(f"share must be above 0 and below 1; it is {float(asked.share):g}")
    if not 6 <= asked.classes <= 10:
        raise ValueError(f"classes must be 6 to 10; it is {asked.classes}")
    return ClassesAsked(asked.share, class_edges(asked.classes, grid))
