"""The console script `hatstream`."""

import hatstream  # noqa: F401  # isort: skip - so that our own packages are found

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is: on matrices of ours threads wait for one another

from pipelines.cli import run

__all__ = ["run"]
