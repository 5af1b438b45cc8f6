"""What is kept of older days, as arrays and back; live values, of which today's are believed as noise allows.

Published numbers do not depend on how a machine adds up."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from dpops.learning import Groups, Learned, LevelValues, StageValues, State, learned, live, published
from dpops.learning.state import VERSION
from dpops.levels.defaults import RETAINED
from tests.dpops.learning.city import HOURS, after, design, truth


@pytest.fixture(scope="module")
def folded() -> State:
    """A state after more days than it keeps one by one."""
    return after(8, 0.5)


def test_a_state_changes_with_its_version_alone(folded: State) -> None:
    """Where this fails, released entries give other states than before: count VERSION up, and write what it is now."""
    arrays: list[np.ndarray] = []
    msgspec.to_builtins((folded.older, folded.start), enc_hook=lambda array: arrays.append(array))
    total = sum(float(np.abs(array).sum()) for array in arrays if array.dtype == np.float64)
    assert (VERSION, f"{total:.5g}") == (25, "52004")


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


# --- Live values: what today's slots say is believed as far as their noise allows, and nothing else of the day. -------


CELLS = design().cells


@pytest.fixture(scope="module")
def model() -> Learned:
    return learned(after(3, 0.3))


def slot(model: Learned, hour: int, factor: float, noise: float, weight: float = 1.0) -> StageValues:
    """The whole city's and the cells' sums in an hour of which all speeds are `factor` times the usual ones."""
    weights, means = (by_cell[:, [hour]] for by_cell in truth(design()))
    centre, levels = model.forecast(HOURS[[hour]]).values, []
    for cells in (np.zeros(CELLS, np.int64), np.arange(CELLS)):
        groups = Groups(cells=cells, slots=np.zeros(1, np.int64))
        levels.append(
            LevelValues(
                groups=groups,
                weights=weight * groups.totals(weights),
                speeds=weight * groups.totals(weights * (factor * means - centre)),
                weight_variances=noise**2,
                speed_variances=49 * noise**2,
            )
        )
    return StageValues(centre=centre, levels=tuple(levels))


def drop(model: Learned, slots: dict[int, StageValues], hour: int) -> float:
    """How much lower the live values are than the forecast, as a part of it, over the city."""
    weights, usual = truth(design())[0][:, hour], model.forecast(HOURS).values[:, hour]
    live_values = live(model, HOURS, slots).field.values[:, hour]
    return float(np.sum(weights * (usual - live_values)) / np.sum(weights * usual))


def test_a_storm_is_shown(model: Learned) -> None:
    slots = {hour: slot(model, hour, 0.6, 0.3) for hour in range(6, 9)}
    assert drop(model, slots, 8) > 0.32


def test_a_storm_is_not_overstated_where_nothing_tells_what_a_slot_weighs(model: Learned) -> None:
    """A slot is hardly clipped, so it weighs more than a day's released weights say."""
    storm = slot(model, 8, 0.6, 0.05, weight=1 / RETAINED)
    levels = tuple(replace(level, weight_variances=np.inf) for level in storm.levels)
    assert 0.3 < drop(model, {8: replace(storm, levels=levels)}, 8) < 0.45


def test_noise_hardly_moves_anything(model: Learned) -> None:
    today = live(model, HOURS, {8: slot(model, 8, 0.6, 1e6)})
    assert np.allclose(today.field.values, model.forecast(HOURS).values, atol=0.06)
    assert np.all(today.leans < 0.02)


def test_what_leans_on_the_day_grows_with_its_slots_and_falls_with_the_time_since(model: Learned) -> None:
    one = live(model, HOURS, {8: slot(model, 8, 0.8, 0.3)})
    two = live(model, HOURS, {7: slot(model, 7, 0.8, 0.3), 8: slot(model, 8, 0.8, 0.3)})
    assert np.all(two.leans[:, 8] >= one.leans[:, 8] - 1e-12)
    assert one.leans[:, 8].mean() > one.leans[:, 20].mean() > 0


@pytest.mark.slow
def test_the_order_in_which_slots_are_given_changes_nothing(model: Learned) -> None:
    slots = {hour: slot(model, hour, 0.7, 0.3) for hour in (6, 7, 8)}
    before = live(model, HOURS, {6: slots[6], 7: slots[7]}).field.values[:, 7]
    again = live(model, HOURS, {7: slots[7], 6: slots[6]}).field.values[:, 7]
    assert np.allclose(before, again)


@pytest.mark.slow
def test_a_profile_that_is_wrong_about_how_long_vehicles_drive_is_found_out(model: Learned) -> None:
    slots = {hour: slot(model, hour, 0.6, 0.1, weight=0.6) for hour in range(24)}
    assert drop(model, slots, 12) > 0.3
