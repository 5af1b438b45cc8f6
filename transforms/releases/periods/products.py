"""Coarser products of a period: groups with names."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from dpops.types import Int64s
from transforms.time.calendar import DAY_MINUTES

if TYPE_CHECKING:
    from dpops.levels.stages import Groups

ProductName = Literal[
    "days", "cell-part", "parent-hour", "city-hour", "place-standing", "place-day", "place-part", "place-slot"
]
PRODUCTS: tuple[ProductName, ...] = get_args(ProductName)

PERCENTILES = tuple(f"{name}{end}" for name in ("p15", "p50", "p85") for end in ("", "_lower95", "_upper95"))
DISTRIBUTION = (*PERCENTILES, "distribution_status")  # further columns of a mean's row that say how values are spread

Part = tuple[int, int]  # a part of the day: local minutes of its start and of its end


@dataclass(frozen=True)
class Product:
    """A product: cell, parent, city or place, by time."""

    name: ProductName
    parts: tuple[Part, ...] = ()  # of the day, of cell-part and place-part

    @property
    def is_of_places(self) -> bool:
        """Whether rows are of places."""
        return self.name.startswith("place-")

    @property
    def has_distributions(self) -> bool:
        """Whether rows describe value distributions."""
        return self.name in ("days", "cell-part")


class ProductGroups(NamedTuple):
    """Groups of cells and slots, with names and spans."""

    groups: "Groups"
    places: list[str]  # by group of cells: a cell or CITY
    spans: list[tuple[int, int] | None]  # by group of slots: first and last index, or None without row
    geometries: Sequence[Any] = ()  # GeoJSON, by place; of H3 cells none


def product_of(name: ProductName, parts: Sequence[str], slot_minutes: int, service: Part) -> Product:
    """Makes a product; service: (start, end) minutes. Raises ValueError for unsuitable parts."""
    if bool(parts) != name.endswith("-part"):
        raise ValueError(f"the product {name} needs parts of the day" if not parts else f"{name} takes no parts")
    intervals = list[Part]()
    for text in parts:
        match = re.fullmatch(r"(\d\d):([0-5]\d)-(\d\d):([0-5]\d)", text, re.ASCII)
        if match is None:
            raise ValueError(f'a part of the day must look like "06:00-10:00"; it is {text[:20]!r}')
        start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
        start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
        if not service[0] <= start < end <= min(service[1], DAY_MINUTES):
            raise ValueError(f"a part of the day must start before it ends, within slot.service; it is {text}")
        if start % slot_minutes or end % slot_minutes:
            raise ValueError(f"a part of the day must lie on slots of {slot_minutes} minutes; it is {text}")
        intervals.append((start, end))
    intervals.sort()
    if any(start < end for (_, end), (start, _) in pairwise(intervals)):
        raise ValueError("parts of the day must not overlap")
    return Product(name, tuple(intervals))


def grouping(product: Product, parents: Int64s, cells: Sequence[int], starts: Sequence[str]) -> ProductGroups:
    """Groups cells (all, by `parents` (cells,), or singly) and slots, by local start."""
    from dpops.levels.stages import Groups
    from transforms.places.ground import CITY, parent_texts, texts_of

    times = [_time(product, start) for start in starts]
    number = {time: index for index, time in enumerate(dict.fromkeys(times))}  # of a group of slots, by its first one
    of_slot = np.array([number[time] for time in times], np.int64)
    slots = ((time, np.flatnonzero(of_slot == group)) for time, group in number.items())
    # A group's slots are one after another; slots outside all parts of the day have the time None, and no row.
    spans = [None if time is None else (int(inside[0]), int(inside[-1])) for time, inside in slots]
    if product.name == "city-hour":
        return ProductGroups(Groups(cells=0 * parents, slots=of_slot), [CITY], spans)
    if product.name == "parent-hour":
        names = parent_texts(cells)  # of each cell's parent; below, a parent has the one at its first cell
        parent_names = [names[int(np.argmax(parents == parent))] for parent in range(int(parents.max()) + 1)]
        return ProductGroups(Groups(cells=parents, slots=of_slot), parent_names, spans)
    return ProductGroups(Groups(cells=np.arange(len(cells)), slots=of_slot), texts_of(cells), spans)


def _time(product: Product, start: str) -> Hashable:
    """Makes a slot's group of time; None outside all parts of the day."""
    # starts look like 2026-03-01T06:00:00+01:00: [:10] is the date, [:13] its hour, [19:] the offset
    if product.name == "place-standing":  # one row for the period
        return ""
    if product.name == "place-slot":
        return start
    if product.name in ("days", "place-day"):
        return start[:10]
    if not product.parts:
        return start[:13], start[19:]  # a clock change repeats an hour at another offset
    minute = int(start[11:13]) * 60 + int(start[14:16])
    part = next((part for part in product.parts if part[0] <= minute < part[1]), None)
    return part and (start[:10], part)
