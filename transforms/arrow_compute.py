"""Arrow's compute functions, imported lazily to save start-up time."""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    return getattr(pyarrow.compute, name)
