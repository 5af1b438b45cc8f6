"""Normal equations made of what parts of the past say: of each day, or of several days together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpops.learning.design import HOURS, both_kinds
from dpops.learning.information import Information, Wide
from dpops.learning.layout import EffectLayout
from dpops.learning.system import OwnHours, System
from dpops.types import Float64s

_ROUNDING = 1e-9
"""Rows that differ by less are the same: rounding alone tells them apart."""


@dataclass(frozen=True, slots=True)
class PartInformation:
    """A day's information (or that of several days together). days: of how many days it is, which have a deviation by
    hour of their own; None where there is none."""

    information: Information
    days: float | None = None


def system_of(layout: EffectLayout, prior: Float64s, prior_value: Float64s, parts: Sequence[PartInformation]) -> System:
    """Adds up what is system. prior, prior_value: precision of the lasting border (its hours' smoothness comes on top),
    and precision times value."""
    lasting, own = layout.border.size, list(_own(layout.border.size, parts))
    size = lasting + HOURS * sum(hours is not None for hours in own)
    columns, corner, border = np.zeros((layout.local.size, size)), np.zeros((size, size)), np.zeros(size)
    corner[:lasting, :lasting], border[:lasting] = np.diag(prior), prior_value
    families, local = np.zeros(int(layout.entries[-1])), np.zeros(layout.local.size)
    clock = both_kinds()
    for part, hours in zip(parts, own, strict=True):
        one = part.information
        families += one.families
        local += one.local
        columns[:, :lasting] += one.mixed
        corner[:lasting, :lasting] += one.corner
        border[:lasting] += one.border
        if hours is not None:
            columns[:, hours.span] = one.mixed[:, layout.hours] @ clock
            corner[:lasting, hours.span] = one.corner[:, layout.hours] @ clock
            corner[hours.span, :lasting] = corner[:lasting, hours.span].T
            corner[hours.span, hours.span] = clock.T @ corner[layout.hours, hours.span]
            border[hours.span] = clock.T @ one.border[layout.hours]
    system = System(layout, families, columns, corner, local, border, own)
    for alike in _alike(layout, size, parts, own):
        system = _with_rows(system, *_joined(alike))
    return system


def _own(column: int, parts: Sequence[PartInformation]) -> Iterator[OwnHours | None]:
    for part in parts:
        if part.days is None:
            yield None
        else:
            yield OwnHours(slice(column, column + HOURS), part.days)
            column += HOURS


@dataclass(frozen=True, slots=True)
class _Alike:
    """Rows of the same groups in several parts that say the same of local effects. wide: with all columns of the border
    but helpers'."""

    wide: list[Wide]

    def takes(self, rows: Wide) -> bool:
        return np.allclose(rows.local, self.wide[0].local, rtol=_ROUNDING, atol=0)


def _alike(
    layout: EffectLayout, size: int, parts: Sequence[PartInformation], own: Sequence[OwnHours | None]
) -> list[_Alike]:
    by_key: dict[bytes, list[_Alike]] = {}
    for part, hours in zip(parts, own, strict=True):
        for key, rows in part.information.wide.items():
            border = np.zeros((rows.values.size, size))
            border[:, : layout.border.size] = rows.border
            if hours is not None:
                border[:, hours.span] = rows.border[:, layout.hours] @ both_kinds()
            whole, of_key = replace(rows, border=border), by_key.setdefault(key, [])
            same = next((alike for alike in of_key if alike.takes(whole)), None)
            if same is None:
                of_key.append(_Alike([whole]))
            else:
                same.wide.append(whole)
    return [alike for of_key in by_key.values() for alike in of_key]


def _joined(alike: _Alike) -> tuple[Wide, Float64s, Float64s]:
    """Makes one row of several; tells what they say beside it of the border alone: corner and right-hand side.

    The squares of what rows miss, each times its precision, are that of their mean times all precision, and those of
    what each misses beside the mean, in which local effects do not stand any more.
    """
    first, size = alike.wide[0], alike.wide[0].border.shape[1]
    corner, right = np.zeros((size, size)), np.zeros(size)
    if len(alike.wide) == 1:
        return first, corner, right
    precisions: Float64s = np.sum([rows.precisions for rows in alike.wide], axis=0)
    shares = [rows.precisions / np.maximum(precisions, 1e-300) for rows in alike.wide]
    border: Float64s = np.sum(
        [share[:, None] * rows.border for share, rows in zip(shares, alike.wide, strict=True)], axis=0
    )
    values: Float64s = np.sum([share * rows.values for share, rows in zip(shares, alike.wide, strict=True)], axis=0)
    for rows in alike.wide:
        beside = rows.border - border
        corner += beside.T @ (rows.precisions[:, None] * beside)
        right += beside.T @ (rows.precisions * (rows.values - values))
    return Wide(first.local, border, precisions, values), corner, right


def _with_rows(system: System, rows: Wide, corner: Float64s, right: Float64s) -> System:
    """Adds a helper for each row to the border, which observes it; corner, right: and this."""
    root, size = np.sqrt(rows.precisions), rows.border.shape[1]
    before, helpers = system.border.size, root.size
    across = np.zeros((before, helpers))
    across[:size] = (root[:, None] * rows.border).T
    whole = np.block([[system.corner, across], [across.T, -np.eye(helpers)]])
    whole[:size, :size] += corner
    border = np.concatenate([system.border, root * rows.values])
    border[:size] += right
    columns = np.concatenate([system.columns, (root[:, None] * rows.local).T], axis=1)
    return replace(system, columns=columns, corner=whole, border=border)
