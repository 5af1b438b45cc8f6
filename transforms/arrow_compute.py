"""Arrow's functions, imported when the first is called: who decodes typed columns calls none, and begins sooner."""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    return getattr(pyarrow.compute, name)
