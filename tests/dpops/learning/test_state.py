"""What is kept of older days, as arrays and back; published numbers do not depend on how a machine adds up."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from dpops.learning import State, learned, published
from dpops.learning.state import VERSION, arrays_of, restore_state
from tests.dpops.learning.city import FACTS, HOURS, after, design


@pytest.fixture(scope="module")
def folded() -> State:
    """A state after more days than it keeps one by one."""
    return after(8, 0.5)


@pytest.mark.slow
def test_a_state_is_taken_up_as_it_was(folded: State) -> None:
    again = restore_state(State.new(design(), FACTS), folded.days, folded.recent, arrays_of(folded))
    assert np.array_equal(learned(again).forecast(HOURS).values, learned(folded).forecast(HOURS).values)


def test_a_start_of_another_city_is_refused(folded: State) -> None:
    arrays = arrays_of(folded) | {"start.effects.local": np.zeros(3)}
    with pytest.raises(ValueError, match="another city"):
        restore_state(State.new(design(), FACTS), folded.days, folded.recent, arrays)


def test_what_the_arrays_hold_changes_with_their_version_alone(folded: State) -> None:
    """Where this fails, released entries give other arrays than before: count VERSION up, and write what it is now."""
    total = sum(float(np.abs(column).sum()) for column in arrays_of(folded).values() if column.dtype == np.float64)
    assert (VERSION, f"{total:.5g}") == (24, "52163")


def digest() -> str:
    estimates = published(learned(after(3, 0.5)).estimate(), 65)
    columns = (
        estimates.values, estimates.sd, estimates.lower95, estimates.upper95, estimates.vehicles, estimates.status,
    )  # fmt: skip
    return hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest()


@pytest.mark.slow
def test_kernels_and_threads_change_no_byte() -> None:
    settings = [{"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott"}, {"OPENBLAS_NUM_THREADS": "2"}]
    code = "from tests.dpops.learning.test_state import digest; print(digest())"
    digests = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | more, capture_output=True, check=True).stdout
        for more in settings
    }
    assert digests == {digest().encode() + b"\n"}
