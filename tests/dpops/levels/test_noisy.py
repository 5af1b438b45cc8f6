"""A stage draws the noise that its claim is about."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.claims import ZCDP, Accounting, GaussianDP
from dpops.levels.bounded import release, sum_up
from dpops.levels.stages import UNIT
from dpops.noise import Noise
from dpops.types import Int64s
from tests.dpops.levels.cities import rows, stage


class _Named(Noise):
    """Notes which law was asked for, and with which variances."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, set[Fraction]]] = []

    def gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        self.asked.append(("discrete", {*variances}))
        return super().gaussian(variances)

    def rounded_gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        self.asked.append(("rounded", {*variances}))
        return super().rounded_gaussian(variances)


@pytest.mark.parametrize(("accounting", "law"), [("zcdp", "discrete"), ("gdp", "rounded")])
def test_the_accounting_decides_the_law_of_the_noise(accounting: Accounting, law: str) -> None:
    """A claim in mu holds of rounded normal numbers alone (tests/statistical/test_noise.py)."""
    planned, noise = replace(stage("gaussian"), accounting=accounting), _Named()
    sums = sum_up(rows([[(0, 0, 3, 3_000)]]), planned)
    drawn = release(sums, planned, noise)
    assert noise.asked == [(law, {planned.spread})]
    assert np.count_nonzero(drawn - np.concatenate(sums)) > planned.groups


def test_a_stage_claims_what_its_share_of_a_vector_costs_under_its_noise() -> None:
    planned = stage("gaussian", share=Fraction(3, 10))
    rho = Fraction(3, 10) * UNIT * UNIT / (2 * planned.spread)
    assert planned.claim == ZCDP(rho)
    assert replace(planned, accounting="gdp").claim == GaussianDP(rho)
