"""Memory that was freed is kept."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from transforms.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def batch():
    return [np.ones(500_000) for _ in range(10)]
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of glibc")
def test_columns_of_the_next_batch_take_the_memory_of_the_last():
    faults = {
        how: int(subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True).stdout)
        for how in ("kept", "given back")
    }
    assert faults["kept"] < faults["given back"] / 20
