"""The console script `hatstream`."""

import hatstream  # noqa: F401  # isort: skip - so that our own packages are found

from pipelines.cli import run

__all__ = ["run"]
