"""A made-up city whose true means are known, and noisy releases of it."""

from collections.abc import Callable
from functools import cache

import numpy as np

from dpops.learning import DayValues, Design, Facts, Field, Groups, LevelValues, StageValues, State, add_day, learned

HOURS = np.arange(24)
FACTS = Facts(vehicles=100, hat_weight=0.05)


def design(side: int = 6) -> Design:
    """A square of cells; parents are squares of 2 x 2."""
    cells = np.arange(side * side).reshape(side, side)
    pairs = [
        np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], 1),
        np.stack([cells[:-1].ravel(), cells[1:].ravel()], 1),
    ]
    row, column = np.divmod(np.arange(side * side), side)
    return Design(parents=(row // 2) * ((side + 1) // 2) + column // 2, neighbours=np.concatenate(pairs))


def truth(of: Design) -> tuple[np.ndarray, np.ndarray]:
    """True weights and means of every HAT, (cells, 24) each: smooth over cells and hours."""
    cell = np.linspace(-1, 1, of.cells)[:, None]
    hour = np.sin(2 * np.pi * HOURS / 24)[None, :]
    weights = np.exp(cell + hour)
    return weights * 100 / weights.sum(), 25 + 8 * cell - 6 * hour


def released_day(
    of: Design,
    noise: float,
    seed: int,
    centre: np.ndarray | None = None,
    pattern: float = 1.0,
    cells: np.ndarray | None = None,
) -> DayValues:
    """Cells' days and the city's hours, with Gaussian noise: sd `noise` in weights, 7 times that in speeds.

    pattern: 0 for a city where all HATs are alike. cells: weights, (cells,), of an hour.
    """
    rng = np.random.default_rng(seed)
    weights, means = truth(of)
    weights = weights if cells is None else np.repeat(cells[:, None], HOURS.size, axis=1)
    means = 25 + pattern * (means - 25)
    centre = np.full(weights.shape, 20.0) if centre is None else centre
    return DayValues(hours=HOURS, stages=(look(weights, means, noise, centre, lambda shape: rng.normal(size=shape)),))


def look(
    weights: np.ndarray,
    means: np.ndarray,
    noise: float,
    centre: np.ndarray,
    scores: Callable[[tuple[int, int]], np.ndarray] = np.zeros,
) -> StageValues:
    """Cells' days and the city's hours of HATs. scores: the noise's, of which none is drawn by default."""
    levels = []
    for of_cells, slots in ((np.arange(len(weights)), 0 * HOURS), (np.zeros(len(weights), np.int64), HOURS)):
        groups = Groups(cells=of_cells, slots=slots)
        levels.append(
            LevelValues(
                groups=groups,
                weights=groups.totals(weights) + noise * scores(groups.shape),
                speeds=groups.totals(weights * (means - centre)) + 7 * noise * scores(groups.shape),
                weight_variances=noise**2,
                speed_variances=49 * noise**2,
            )
        )
    return StageValues(centre=centre, levels=tuple(levels))


def counted(vehicles: float, sd: float = 1.0) -> StageValues:
    """A stage that counts the vehicles of a day."""
    centre = np.full((design().cells, HOURS.size), 20.0)
    level = LevelValues(
        groups=Groups.everything(*centre.shape),
        weights=np.array([[vehicles]]),
        speeds=np.zeros((1, 1)),
        weight_variances=sd**2,
        speed_variances=1e6,
    )
    return StageValues(centre=centre, levels=(level,), counts_vehicles=True)


def known_hats(shape: tuple[int, int], vehicles: float, kmh: float) -> StageValues:
    """Every HAT alone: so many vehicles, for certain, at about that speed."""
    weights = np.full(shape, float(vehicles))
    level = LevelValues(
        groups=Groups(cells=np.arange(shape[0]), slots=np.arange(shape[1])),
        weights=weights,
        speeds=weights * kmh,
        weight_variances=0.0,
        speed_variances=vehicles**2,
    )
    return StageValues(centre=np.zeros(shape), levels=(level,))


def error(field: Field, of: Design) -> float:
    """Mean absolute error, weighted by what the HATs weigh."""
    weights, means = truth(of)
    return float(np.sum(weights * np.abs(field.values - means)) / weights.sum())


@cache
def after(days: int, noise: float, seed: int = 0, pattern: float = 1.0) -> State:
    """What is known after so many released days."""
    if not days:
        return State.new(design(), FACTS)
    state = after(days - 1, noise, seed, pattern)
    centre = learned(state).forecast(HOURS).values
    return add_day(state, released_day(state.design, noise, seed * 100 + days - 1, centre, pattern))
