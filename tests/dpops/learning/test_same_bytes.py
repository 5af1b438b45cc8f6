"""Published numbers do not depend on how a machine adds up: other kernels and threads of its linear algebra."""

import hashlib
import os
import subprocess
import sys

from dpops.learning import learned, published
from dpops.learning.hats import RECENT
from tests.dpops.learning.city import after
from tests.dpops.learning.hats import UPPER, known_after


def digest() -> str:
    estimates = published(learned(after(3, 0.5)).estimate(), 65)
    model, means, _ = known_after(RECENT + 1, 15.0)
    hats = model.belief(model.days[-1], means, UPPER)
    columns = (
        estimates.values,
        estimates.sd,
        estimates.lower95,
        estimates.upper95,
        estimates.vehicles,
        estimates.status,
        *hats[:3],
    )
    return hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest()


def test_kernels_and_threads_change_no_byte() -> None:
    settings = [{"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott"}, {"OPENBLAS_NUM_THREADS": "2"}]
    code = "from tests.dpops.learning.test_same_bytes import digest; print(digest())"
    digests = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | more, capture_output=True, check=True).stdout
        for more in settings
    }
    assert digests == {digest().encode() + b"\n"}
