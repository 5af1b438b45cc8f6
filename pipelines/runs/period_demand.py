"""What a period asks of the account and what its vehicles spend, from its sealed units and their exposures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np

from dpops.accountant import Accountant
from pipelines.job import Job
from pipelines.outcome import Outcome, Spend
from transforms.recorded.codec import Spending
from transforms.recorded.units import Debit, debits_by_slot
from transforms.releases.base import Before
from transforms.wire import unpack_exposure


class Demand(NamedTuple):
    """wanted: the debits of a period's units. spent: exactly what its vehicles spend in them."""

    wanted: list[Debit]
    spent: Spend

    @property
    def total(self) -> Accountant:
        return sum(debits_by_slot(self.wanted).values(), Accountant())


def asked_of_the_account(job: Job) -> Outcome:
    """Asks what the periods will be debited, where no input decides that, and which of them the account refuses."""
    wanted = job.release.claims(Before(job.account))
    if wanted is None:
        return Outcome()
    return Outcome(
        debits={period: Accountant().compose(debit.claim for debit in debits) for period, debits in wanted.items()},
        periods_refused=job.account.open().excess(job.account.name, job.account.limit, wanted),
    )


def asked_of(
    sealed: Iterable[bytes], exposures: Callable[[int], Iterable[bytes]], shares: Sequence[Fraction]
) -> Demand:
    """Tells what a period asks for. sealed: its encoded units. exposures: those of a slot, by its start. shares: of a
    HAT's epsilon, by statistic."""
    units = [msgspec.json.decode(data, type=Spending) for data in sealed]
    rates = {unit.slot_s: unit.rate for unit in units}
    return Demand([unit.asked for unit in units], spend_of(rates, exposures, shares))


def spend_of(
    rates: Mapping[int, Fraction], exposures: Callable[[int], Iterable[bytes]], shares: Sequence[Fraction]
) -> Spend:
    """Adds up for each vehicle the sum of all that is drawn in its HATs. rates: the epsilon of a HAT, by slot."""
    rated = [(rate, unpack_exposure(exposures(slot_s), len(shares))) for slot_s, rate in rates.items()]
    vehicles = np.unique(np.concatenate([exposure.vehicle for _, exposure in rated]))
    parts = math.lcm(*((rate * share).denominator for rate in rates.values() for share in shares))
    spent = np.zeros(vehicles.size, object)  # in parts of 1, as Python integers
    for rate, exposure in rated:
        prices = np.array([int(rate * share * parts) for share in shares], object)
        np.add.at(spent, np.searchsorted(vehicles, exposure.vehicle), exposure.drawn.astype(object) @ prices)
    ordered = np.sort(spent) if spent.size else np.zeros(1, object)
    ranks = (ordered.size - 1, (ordered.size - 1) // 2, -(-9 * ordered.size // 10) - 1)
    return Spend(*(Fraction(int(ordered[rank]), parts) for rank in ranks))
