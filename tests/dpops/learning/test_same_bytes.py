"""Published numbers do not depend on how a machine adds up: other kernels and threads of its linear algebra."""

import hashlib
import os
import subprocess
import sys

import pytest

from dpops.learning import learned, published
from tests.dpops.learning.city import after


def digest() -> str:
    estimates = published(learned(after(3, 0.5)).estimate(), 65)
    columns = (
        estimates.values, estimates.sd, estimates.lower95, estimates.upper95, estimates.vehicles, estimates.status,
    )  # fmt: skip
    return hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest()


@pytest.mark.slow
def test_kernels_and_threads_change_no_byte() -> None:
    settings = [{"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott"}, {"OPENBLAS_NUM_THREADS": "2"}]
    code = "from tests.dpops.learning.test_same_bytes import digest; print(digest())"
    digests = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | more, capture_output=True, check=True).stdout
        for more in settings
    }
    assert digests == {digest().encode() + b"\n"}
