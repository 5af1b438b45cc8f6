"""A shelf: where steps of one process leave bytes that would be shuffled in memory otherwise."""

from typing import Protocol


class Shelf(Protocol):
    """Holds bytes for steps of its own process."""

    def put(self, data: bytes) -> bytes:
        """Gives what can be shuffled in place of the data."""
        ...

    def get(self, put: bytes) -> bytes:
        """Gives the data back."""
        ...
