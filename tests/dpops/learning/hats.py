"""Noisy means of single HATs of the made-up city, day after day."""

import numpy as np

from dpops.learning.hats import RECENT, HatMeans, HatState, LearnedHats, learned_hats, own_variance
from tests.dpops.learning.city import HOURS, design, truth

CELLS = np.arange(36) * 7 + 100
_, USUAL = truth(design())
UPPER = 65.0


def slot(hour: int, noise_sd: float, rng: np.random.Generator, vehicles: int = 9) -> tuple[HatMeans, np.ndarray]:
    """Every cell once, with its own mean around the usual one; and that mean."""
    true = USUAL[:, hour] + np.sqrt(own_variance(np.array(vehicles))) * rng.normal(size=CELLS.size)
    means = HatMeans(
        cells=CELLS,
        hour=hour,
        vehicles=np.full(CELLS.size, vehicles),
        values=true + noise_sd * rng.normal(size=CELLS.size),
        variances=np.full(CELLS.size, noise_sd**2),
        bias_kmh=np.zeros(CELLS.size),
        upper_kmh=UPPER,
    )
    return means, true


def after(days: int, noise_sd: float, keep: int | None = RECENT) -> tuple[HatState, HatMeans, np.ndarray]:
    """The state after so many days, and the last slot with its true means."""
    rng, state = np.random.default_rng(days), HatState.new(keep)
    for day in range(days):
        for hour in HOURS.tolist():
            means, true = slot(hour, noise_sd, rng)
            state = state.after(f"day {day}", means)
    return state, means, true


def known_after(days: int, noise_sd: float) -> tuple[LearnedHats, HatMeans, np.ndarray]:
    state, means, true = after(days, noise_sd)
    return learned_hats(state, design()), means, true
