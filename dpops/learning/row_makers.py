"""The rows of groups of HATs in the two models, each kind made once."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from dpops.learning.design import Design
from dpops.learning.layout import EffectLayout, Layouts
from dpops.learning.means import columns_of
from dpops.learning.queries import GroupRows, Groups, RowsOf
from dpops.types import Int64s


class RowMakers(NamedTuple):
    """Makes the rows of each kind of groups once, of both models."""

    counts: RowsOf
    speeds: RowsOf

    @staticmethod
    def of(design: Design, layouts: Layouts) -> "RowMakers":
        counts = _row_maker(design.of_hats, layouts.counts)
        return RowMakers(counts, _row_maker(partial(columns_of, design), layouts.means))


def _row_maker(columns_of: Callable[[Int64s], Int64s], layout: EffectLayout) -> RowsOf:
    """Makes the rows of each kind of groups once."""
    made: dict[bytes, GroupRows] = {}

    def rows(groups: Groups, hours: Int64s) -> GroupRows:
        key = b"/".join((groups.cells.tobytes(), groups.slots.tobytes(), hours.tobytes()))
        if key not in made:
            made[key] = GroupRows(groups, columns_of(hours), layout, key)
        return made[key]

    return rows
