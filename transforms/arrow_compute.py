"""Arrow's compute functions, imported at the first call to save start-up time."""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    return getattr(pyarrow.compute, name)
