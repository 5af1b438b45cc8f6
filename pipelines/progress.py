"""What long work calls to say how far it is."""

from collections.abc import Callable

Report = Callable[[str, int, int | None], None]
"""Called with a phase, what is done of it, and its whole if that is known. Never sees a vehicle's data."""


def unheard(_phase: str, _done: int, _whole: int | None) -> None:
    """Ignores progress that nobody wants to see."""
