"""Private choices without floats, by an exact exponential mechanism.

Proposals come from integer weights that lie just above the exponential ones; each is accepted with exactly the ratio of
the two, so the law is the textbook one whatever the rounding of the weights (docs/adr/0006). A candidate's proposal
weighs about 2**32 exp(-rate cost); its coin, a random integer of _COIN_BITS bits, accepts it below the bound `low` of
the acceptance times 2**_COIN_BITS, refuses from `high` on, and in between gets more bits.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpops.noise import Noise
from dpops.noise.words import exp_floor
from dpops.types import Int64s

MOST_CANDIDATES = 1 << 30  # of one choice: all its proposal weights then add up to at most 2**62

_TOP_BITS = 32  # the proposal weight of the best candidate is 2**32
_COIN_BITS = 62  # of the random number that a proposal's acceptance is compared with


class Chosen(NamedTuple):
    """Drawn entry and candidate offset of each choice, int64."""

    entry: Int64s
    offset: Int64s


def choose(widths: Int64s, costs: Int64s, first: Int64s, rates: Sequence[Fraction], noise: Noise) -> Chosen:
    """Draws candidates with probability proportional to exp(-rate * cost).

    An entry holds candidates of equal cost. widths, costs: int64 (entries,), candidates (0 allowed) and cost >= 0.
    first: int64 (choices,), first entry of each, ascending. If neighbours move costs by at most s, it is (2 rate s)-DP.
    Source: McSherry and Talwar 2007, "Mechanism Design via Differential Privacy".
    Raises ValueError for a choice without candidates or with more than MOST_CANDIDATES.
    """
    chosen = Chosen(np.zeros(first.size, np.int64), np.zeros(first.size, np.int64))
    if first.size == 0:
        return chosen
    sizes = np.diff(first, append=widths.size)
    candidates = np.add.reduceat(widths, first) if np.all(sizes > 0) else np.zeros(1)  # 0: refused below
    if np.any(widths < 0) or np.any(candidates < 1) or np.any(candidates > MOST_CANDIDATES):
        raise ValueError(f"a private choice needs between 1 and {MOST_CANDIDATES} candidates")
    min_cost = np.minimum.reduceat(np.where(widths > 0, costs, np.iinfo(np.int64).max), first)
    above: Int64s = np.maximum(costs - np.repeat(min_cost, sizes), 0)  # only differences matter, exactly
    number_by_rate = {rate: number for number, rate in enumerate(dict.fromkeys(rates))}
    rate_number = np.repeat(np.array([number_by_rate[rate] for rate in rates], np.int64), sizes)
    weight, low, high = np.zeros((3, widths.size), np.int64)  # a coin below low accepts, from high on refuses
    for rate, number in number_by_rate.items():
        rows = np.flatnonzero(rate_number == number)
        table = _table(rate, 1 << int(above[rows].max()).bit_length())  # up to a power of 2: few lengths to cache
        weight[rows], low[rows], high[rows] = table[:, above[rows]]
    entry_weight = widths * weight
    # Proposes an entry by its candidates' weights and one of these, until each choice has accepted one.
    undecided, entries = np.arange(first.size), np.arange(widths.size)
    while undecided.size:
        weights = entry_weight[entries]
        open_sizes = sizes[undecided]
        start = np.cumsum(open_sizes) - open_sizes
        drawn = noise.below(np.add.reduceat(weights, start))
        # The running sum may wrap; differences modulo 2**64 are right, as each choice's own sum is at most 2**62.
        running = np.cumsum(weights.astype(np.uint64))
        weight_below = running[start] - weights[start].astype(np.uint64)
        weight_through = (running - np.repeat(weight_below, open_sizes)).astype(np.int64)
        # The drawn entry, as an index of `entries`, and how far into its weight the drawn number lies.
        position = start + np.add.reduceat(weight_through <= np.repeat(drawn, open_sizes), start)
        weight_offset = drawn - (weight_through[position] - weights[position])
        entry = entries[position]
        coin = noise.below(np.full(undecided.size, 1 << _COIN_BITS, np.int64))
        accepted = coin < low[entry]
        for proposal in np.flatnonzero(~accepted & (coin < high[entry])).tolist():  # the coin does not decide yet
            proposed = int(entry[proposal])
            odds = rates[undecided[proposal]], int(above[proposed]), int(weight[proposed])
            accepted[proposal] = _accepts(*odds, int(coin[proposal]), _COIN_BITS, noise)
        choices = undecided[accepted]
        chosen.entry[choices] = entry[accepted]
        chosen.offset[choices] = weight_offset[accepted] // weight[entry[accepted]]  # an entry's candidates weigh alike
        entries = entries[np.repeat(~accepted, sizes[undecided])]
        undecided = undecided[~accepted]
    return chosen


@lru_cache(maxsize=256)
def _table(rate: Fraction, length: int) -> Int64s:
    """Tabulates a proposal's weight, and its acceptance's two bounds, by cost, (3, length).

    The weight is an integer >= 2**32 exp(-rate cost) and >= 1, the acceptance 2**32 exp(-rate cost) over it.
    """
    bits = 192  # of fixed-point numbers: products of a table's length leave far more than 62 exact
    low_step, high_step = exp_minus(rate, bits)
    table = np.empty((3, length), np.int64)
    low = high = 1 << bits  # bounds of 2**bits exp(-rate cost)
    for cost in range(length):
        weight = -(-high >> bits - _TOP_BITS)  # rounded up
        table[:, cost] = weight, *_acceptance(low, high, weight, bits, _COIN_BITS)
        if table[2, cost] <= 1:  # acceptance is below 2**-62, and so for every higher cost
            table[:, cost:] = table[:, cost : cost + 1]
            break
        low, high = low * low_step >> bits, -(-high * high_step >> bits)
    return table


def _acceptance(low: int, high: int, weight: int, bits: int, coin_bits: int) -> tuple[int, int]:
    """Bounds an acceptance by integers over 2**coin_bits; low, high: bounds of 2**bits exp(-rate cost)."""
    shift = _TOP_BITS + coin_bits
    return (low << shift) // (weight << bits), -((-high << shift) // (weight << bits))


def _accepts(rate: Fraction, cost: int, weight: int, coin: int, coin_bits: int, noise: Noise) -> bool:
    """Draws further bits of a coin until exp(-rate * cost) decides on acceptance.

    coin: a uniform integer of `coin_bits`. weight: of the proposal; it is accepted with 2**32 exp(-rate cost) / weight.
    """
    while True:
        coin = coin << 32 | int(noise.below(np.array([1 << 32], np.int64))[0])
        coin_bits += 32
        bits = 2 * (coin_bits + 64)  # of exp, many more than the coin's: low and high hardly ever lie more than 1 apart
        low, high = _acceptance(*exp_minus(rate * cost, bits), weight, bits, coin_bits)
        if coin < low:
            return True
        if coin >= high:
            return False


def exp_minus(rate: Fraction, bits: int) -> tuple[int, int]:
    """Bounds 2**bits * exp(-rate) by integers. Raises ValueError."""
    if rate < 0:
        raise ValueError(f"a rate must be >= 0, got {rate}")
    floor = exp_floor(rate, bits)  # off by 1 at most
    return max(floor - 1, 0), min(floor + 2, 1 << bits)
