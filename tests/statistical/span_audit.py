"""An audit of 28 released days under one total, from tallies to what is recorded: copies as in levels_audit.py.

A copy is a cell in which one vehicle drives on each of 28 days, or nobody on any. The first day is released in two
stages, each later one in one; each has a 28th of the total, as a specification with `span_days = 28` gives it.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpops.claims import rho_within
from dpops.levels.defaults import spread_of
from dpops.levels.stages import Kind
from dpops.types import Int64s
from pipelines.specification.levels import SpanTotal
from tests.statistical import levels_audit as of_a_day
from tests.statistical.levels_audit import released, statistics

DAYS, TOTAL, DELTA = 28, Fraction(10), Fraction(1, 10**6)
MU = float(2 * rho_within(TOTAL, DELTA)) ** 0.5


def likelihoods(kind: Kind, *, served: int = DAYS) -> tuple[Int64s, Int64s]:
    """The best statistic of each copy over all days. served: among so many days the total is divided."""
    span = SpanTotal(DAYS, served, TOTAL, None if kind == "laplace" else DELTA)
    epsilon, rho = span.of_a_day()
    spread = spread_of(kind, epsilon if rho is None else rho)
    audited = of_a_day.policy(kind)
    first = replace(audited, first=tuple(replace(stage, spread=spread) for stage in audited.first))
    later = replace(first, first=(replace(first.first[1], share=Fraction(1)),))
    whole = sum(statistics(*released(kind, how), kind) for how in (first, *[later] * (DAYS - 1)))
    return of_a_day.in_steps(np.asarray(whole))
