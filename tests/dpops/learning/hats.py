"""Noisy means of single HATs of the made-up city, day after day."""

import numpy as np

from dpops.learning.hat_model import LearnedHats, learned_hats
from dpops.learning.hats import RECENT, HatErrors, HatMeans, HatState
from dpops.spread import USUAL as VARIANCES
from tests.dpops.learning.city import HOURS, design, truth

CELLS = np.arange(36) * 7 + 100
_, USUAL = truth(design())
UPPER = 65.0


def errors(noise_sd: float, bias_kmh: float = 0.0, pull_kmh: float = 0.0, *, is_clipped: bool = False) -> HatErrors:
    """Errors that are equal in every cell; one HAT's pull may be a third of the usual pull from it."""
    errors_of_cell = (noise_sd**2, bias_kmh, pull_kmh, pull_kmh / 3)
    return HatErrors(*(np.full(CELLS.size, number) for number in errors_of_cell), np.full(CELLS.size, is_clipped))


def slot(
    hour: int, noise_sd: float, rng: np.random.Generator, vehicles: int = 9, spread: float = 1.0
) -> tuple[HatMeans, np.ndarray]:
    """Every cell once, with its own mean around the usual one; and that mean. spread: of it, times the usual."""
    counts = np.full(CELLS.size, vehicles)
    own = VARIANCES.of(counts, 2 * counts, USUAL[:, hour])
    true = USUAL[:, hour] + spread * np.sqrt(own) * rng.normal(size=CELLS.size)
    means = HatMeans(
        cells=CELLS,
        hour=hour,
        vehicles=counts,
        reports=2 * counts,
        heaviest=np.full(CELLS.size, 4),
        values=true + noise_sd * rng.normal(size=CELLS.size),
        errors=errors(noise_sd),
    )
    return means, true


def after(
    days: int, noise_sd: float, keep: int | None = RECENT, vehicles: int = 9, spread: float = 1.0
) -> tuple[HatState, HatMeans, np.ndarray]:
    """The state after so many days, and the last slot with its true means."""
    rng, state = np.random.default_rng(days), HatState.new(keep)
    for day in range(days):
        for hour in HOURS.tolist():
            means, true = slot(hour, noise_sd, rng, vehicles, spread)
            state = state.after(f"day {day}", means)
    return state, means, true


def known_after(days: int, noise_sd: float) -> tuple[LearnedHats, HatMeans, np.ndarray]:
    state, means, true = after(days, noise_sd)
    return learned_hats(state, design()), means, true
