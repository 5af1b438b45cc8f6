"""What the console script settles before anything of ours is imported."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("said", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4")])
def test_linear_algebra_takes_one_thread_unless_somebody_says_otherwise(said: dict[str, str], threads: str) -> None:
    """Threads beside it take five times the CPU where the cores have other work."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | said
    ask = "import os, sys, hatstream.command; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [threads, "False"]
