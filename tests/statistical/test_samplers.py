"""Noise of every kind follows its exact law at every spread, and a sampler that does not is rejected.

False-alarm rate of the whole module: below 2e-6 a run. It makes 80 tests on fresh entropy at 1e-8 each; with at least
20 draws expected in a cell, the chi-square law understates a tail of 1e-6 by a factor of 1.3 (simulated); 2 is allowed.
Power: every wrong sampler named here is rejected with probability above 1 - 1e-5 at the stated number of draws.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from dpops.noise import Noise, words
from dpops.types import Int64s
from tests.statistical import checks
from tests.statistical.checks import Cells, gaussian_fit, independent, laplace_below, laplace_fit, laplace_mass, seeded

ALARM = 1e-8
DRAWS = 120_000


@dataclass(frozen=True, eq=False)
class Law:
    """A kind of noise, its check, spreads at which it is checked, and the largest spread that is drawn.

    A spread is the scale of Laplace noise and the variance of Gaussian noise.
    """

    draw: Callable[[Noise, Sequence[Fraction]], Int64s]
    fit: Callable[[Int64s, Fraction], float]
    spreads: list[Fraction]
    largest: Fraction

    def sample(self, spread: Fraction, noise: Noise, draws: int = DRAWS) -> Int64s:
        return self.draw(noise, [spread] * draws)

    def is_right(self, sample: Int64s, spread: Fraction) -> bool:
        return self.fit(sample, spread) > ALARM


LAPLACE = Law(
    Noise.laplace,
    laplace_fit,
    [*map(Fraction, ("1/3", "1", "22/7", "50/3", "1000/7", "123456/5", "3000001/3"))],
    Fraction(2**50 - 1),
)
VEHICLE_DAY = Fraction(3_750_883_862_600), Fraction(3_301_122_184_211)
"""Variances of a vehicle-day at a total of 2.64: of discrete and of rounded noise."""
GAUSSIAN = Law(
    Noise.gaussian,
    gaussian_fit,
    [*map(Fraction, ("1/9", "1", "22/7", "50000/3", "123456789/5", "3000000000001/3")), VEHICLE_DAY[0]],
    Fraction(2**98 - 1),
)
ROUNDED = Law(
    Noise.rounded_gaussian,
    partial(gaussian_fit, below_of=checks.rounded_below),
    [*map(Fraction, ("1", "22/7", "50000/3", "3000000000001/3")), VEHICLE_DAY[1]],
    Fraction(2**98 - 1),
)
LAWS = {"laplace": LAPLACE, "gaussian": GAUSSIAN, "rounded": ROUNDED}
OFF = Fraction(105, 100), Fraction(95, 100)

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
every_spread = pytest.mark.parametrize(
    ("law", "spread"),
    [
        pytest.param(law, spread, id=f"{name}-{spread}", marks=[pytest.mark.slow] * (place % 2))
        for name, law in LAWS.items()
        for place, spread in enumerate(law.spreads)
    ],
)
"""Alone; the quick run draws half of them so, and all of them in one call."""


@every_spread
def test_noise_follows_the_exact_law(law, spread):
    """False-alarm rate 1e-8 for each spread, on fresh entropy of the operating system."""
    assert law.is_right(law.sample(spread, Noise()), spread)


@every_law
def test_the_largest_spread_draws_without_overflow(law):
    assert law.is_right(law.sample(law.largest, Noise(), 20_000), law.largest)


@every_law
def test_each_entry_has_its_own_spread(law):
    """All spreads interleaved in one call. Power: as of 5 % too much, were two entries confused."""
    spreads = [*law.spreads, Fraction(0)]
    drawn = law.draw(Noise(), spreads * 30_000).reshape(-1, len(spreads))
    for column, spread in enumerate(law.spreads):
        assert law.is_right(drawn[:, column], spread)
    assert not drawn[:, -1].any()


@every_law
def test_entries_are_independent(law):
    """Sign and size of neighbours, false-alarm rate 1e-8 each; a correlation of 3 % would be seen (109 against 32)."""
    drawn = law.sample(law.spreads[4], Noise())
    positive, large = drawn > 0, np.abs(drawn) > np.median(np.abs(drawn))
    for lag in (1, 2, DRAWS // 2):
        for one, other in ((positive, positive), (large, large), (positive, large)):
            assert independent(one[lag:], other[:-lag]) > ALARM
    assert independent(positive, large) > ALARM


def test_a_repeated_draw_is_not_independent():
    drawn = np.repeat(seeded(24).laplace([Fraction(10)] * 5_000), 2) > 0
    assert independent(drawn[1:], drawn[:-1]) < ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("law", "spread"),
    [*((GAUSSIAN, variance) for variance in GAUSSIAN.spreads[:4]), *((ROUNDED, v) for v in ROUNDED.spreads[:3])],
)
def test_the_digits_that_decide_close_cases_follow_the_law_alone(law, spread, monkeypatch):
    """Every comparison is called close, so that no float decides anything."""
    monkeypatch.setattr(words, "_FLOAT_DOUBT", 2.0)
    assert law.is_right(law.sample(spread, Noise(), 4_000), spread)


# the checks on wrong samplers


@pytest.mark.few(4)
@pytest.mark.parametrize("scale", LAPLACE.spreads)
@pytest.mark.parametrize("off", OFF)
def test_a_scale_five_percent_off_is_rejected_twenty_times_of_twenty(scale, off):
    """Power: the noncentrality is above 250 at 44 degrees or fewer, threshold 120, so one miss in 1e6 or rarer.

    One sample of the twenty is drawn by the sampler; the others are the cell counts that its law would give.
    """
    cells = checks.laplace_cells(scale, DRAWS)
    law = _masses(cells, scale * off)
    assert DRAWS * ((law - cells.masses) ** 2 / cells.masses).sum() > 250
    drawn = np.random.default_rng(21).multinomial(DRAWS, law, size=19)
    counts = [cells.counts(LAPLACE.sample(scale * off, seeded(22))), *drawn]
    assert sum(cells.p_value(count) < ALARM for count in counts) == 20


def _masses(cells: Cells, scale: Fraction) -> NDArray[np.float64]:
    """The probabilities of the cells under noise of another scale."""
    edges = cells.edges.tolist()
    inner = [laplace_mass(low, high - 1, scale) for low, high in pairwise(edges)]
    return np.array([laplace_below(edges[0], scale), *inner, laplace_below(1 - edges[-1], scale)])


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize(
    ("law", "variance"),
    [
        pytest.param(law, variance, marks=[pytest.mark.slow] * (place > 1))
        for law, variances in ((GAUSSIAN, GAUSSIAN.spreads), (ROUNDED, ROUNDED.spreads[1:]))
        for place, variance in enumerate(variances)
    ],
)
def test_a_spread_five_percent_off_is_rejected(law, variance, off):
    assert not law.is_right(law.sample(variance * off * off, seeded(31)), variance)


Rng = np.random.Generator


def _shifted(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    return law.sample(spread, Noise(rng.bytes)) + 1


def _one_sided(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    return np.abs(law.sample(spread, Noise(rng.bytes)))


def _cut_tail(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    drawn = law.sample(spread, Noise(rng.bytes), 2 * DRAWS)
    return drawn[np.abs(drawn) < (6 * spread if law is LAPLACE else 3 * math.sqrt(spread))][:DRAWS]


def _unfair_sign(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    drawn = law.sample(spread, Noise(rng.bytes))
    return np.where(rng.random(DRAWS) < 0.15, np.abs(drawn), drawn)


def _two_zeros(_: Law, scale: Fraction, rng: Rng) -> Int64s:
    p = math.exp(-float(1 / scale))
    return (rng.geometric(1 - p, DRAWS) - 1) * rng.choice([-1, 1], DRAWS)


def _continuous_laplace(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    scale = float(spread) if law is LAPLACE else math.sqrt(spread / 2)
    return np.rint(rng.laplace(0, scale, DRAWS)).astype(np.int64)


def _continuous_gaussian(law: Law, spread: Fraction, rng: Rng) -> Int64s:
    sigma = math.sqrt(2) * float(spread) if law is LAPLACE else math.sqrt(spread)
    return np.rint(rng.normal(0, sigma, DRAWS)).astype(np.int64)


def _sum_of_six(_: Law, variance: Fraction, rng: Rng) -> Int64s:
    return np.rint((rng.random((DRAWS, 6)).sum(1) - 3) * math.sqrt(2 * variance)).astype(np.int64)


def _discrete(_: Law, variance: Fraction, rng: Rng) -> Int64s:
    return GAUSSIAN.sample(variance, Noise(rng.bytes))


def _cut_down(_: Law, variance: Fraction, rng: Rng) -> Int64s:
    """Forgets the digit that rounds."""
    return np.trunc(rng.normal(0, math.sqrt(variance), DRAWS)).astype(np.int64)


def _without_part(_: Law, variance: Fraction, rng: Rng) -> Int64s:
    """Proposes whole numbers alone, and rounds by a coin."""
    size = np.floor(np.abs(rng.normal(0, math.sqrt(variance), DRAWS))) + (rng.random(DRAWS) < 0.5)
    return np.where(rng.random(DRAWS) < 0.5, -size, size).astype(np.int64)


SMALL = slice(3)  # spreads at which a difference shows that vanishes with 1 / spread


@pytest.mark.few(11)
@pytest.mark.parametrize(
    ("law", "wrong", "part"),
    [
        (LAPLACE, _continuous_laplace, SMALL), (LAPLACE, _two_zeros, SMALL), (LAPLACE, _shifted, SMALL),
        (LAPLACE, _one_sided, slice(None)), (GAUSSIAN, _continuous_gaussian, slice(2)),
        (GAUSSIAN, _continuous_laplace, slice(None)), (GAUSSIAN, _shifted, SMALL), (ROUNDED, _discrete, slice(1)),
        (ROUNDED, _cut_down, slice(1)), (ROUNDED, _one_sided, slice(1)), (ROUNDED, _without_part, slice(1)),
        (LAPLACE, _unfair_sign, slice(None)), (LAPLACE, _cut_tail, slice(1, None)),
        (LAPLACE, _continuous_gaussian, slice(None)), (GAUSSIAN, _one_sided, slice(None)),
        (GAUSSIAN, _cut_tail, slice(3, None)), (GAUSSIAN, _sum_of_six, slice(3, None)),
    ],
)  # fmt: skip
def test_a_wrong_sampler_is_rejected(law, wrong, part):
    """Power above 1 - 1e-6 for each sampler and spread, by their noncentralities; the seed is fixed."""
    for spread in law.spreads[part]:
        assert not law.is_right(wrong(law, spread, np.random.default_rng(23)), spread)
