"""What is public about a slot, whatever is released of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SlotFacts:
    """What is public about a slot before any data. start, end: as text. plan: the slots that are planned together with
    it, itself included, ascending. plans: how many such plans share what a vehicle may spend in the whole period."""

    period: str
    start: str
    end: str
    plan: tuple[int, ...]
    plans: int
