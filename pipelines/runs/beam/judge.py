"""Verdict on a whole input, and debits by period.

A fact is JSON: counters of rows, or a period's DemandFact. All facts have one key, 0, so that one worker judges them
together; it consents to all periods or to none. `needed`: periods that must have observations, or None.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from apache_beam.metrics.metric import Metrics

from dpops.accountant import Accountant
from dpops.claims import claim_of
from pipelines.outcome import Outcome, Spend, count_in
from transforms import counters
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.units import Debit, UnitKey, debits_by_slot
from transforms.records import CONSENT, SPENDING, KeyedUnit, SlotShard, UnitSpending
from transforms.wire import unpack_exposure

VERDICT = "verdict"  # the metric by which an engine hands it back
OF_PERIOD, UNREADABLE = "period/", "unreadable/"  # prefixes of counters: observations, and why a file is unreadable

KeyedFact = tuple[int, bytes]  # an encoded fact; all have the same key
Wanted = Mapping[str, Sequence[Debit]]  # debits by period
Needed = Collection[str] | None


class DemandFact(NamedTuple):
    """Debits and spending of a period. wanted: (specification, slot, shard, claim)."""

    period: str
    wanted: list[tuple[str, int, int | None, str]]
    spent: tuple[str, ...]  # fields of `Spend`, as fractions


class Verdict(NamedTuple):
    """Verdict on an input. read_error: first file's, or empty. consents: units may be recorded."""

    outcome: Outcome
    read_error: str = ""
    consents: bool = False


def verdict_on(facts: Iterable[bytes], files: int, needed: Needed, excess: Callable[[Wanted], list[str]]) -> Verdict:
    """Decides from all facts of an input whether units may be recorded.

    files: number in the input. excess: lists the periods whose debits exceed the account's limit.
    """
    outcome, counts, wanted = Outcome(), Counter[str](), dict[str, list[Debit]]()  # wanted: by period
    decoded = [msgspec.json.decode(fact, type=dict[str, int] | DemandFact) for fact in facts]
    for numbers in decoded:
        counts.update(numbers if isinstance(numbers, dict) else {})
    for request in sorted(fact for fact in decoded if isinstance(fact, DemandFact)):  # by period: workers have no order
        debits = [Debit(UnitKey(spec, slot_s, shard), claim_of(claim)) for spec, slot_s, shard, claim in request.wanted]
        wanted[request.period] = debits
        outcome.debits[request.period] = sum(debits_by_slot(debits).values(), Accountant())  # a slot's: largest shard's
        outcome.spent[request.period] = Spend(*map(Fraction, request.spent))
    count_in(outcome, counts)
    read_error = min((name.removeprefix(UNREADABLE) for name in counts if name.startswith(UNREADABLE)), default="")
    outcome.is_unreadable = bool(outcome.left_out) and len(outcome.left_out) >= files  # left_out: undecodable files
    if read_error or outcome.is_unreadable:  # then nothing is known of any vehicle
        return Verdict(outcome, read_error)
    outcome.periods_empty = [period for period in needed or () if OF_PERIOD + period not in counts]  # no observation
    if needed is not None and (outcome.periods_empty or outcome.unusable):
        return Verdict(outcome)
    outcome.periods_refused = excess(wanted)
    return Verdict(outcome, consents=not outcome.periods_refused)


def encode_verdict(verdict: Verdict) -> str:
    """Encodes a verdict as JSON, fractions as texts."""
    return msgspec.json.encode(verdict, enc_hook=str, order="deterministic").decode()


def decode_verdict(text: str) -> Verdict:
    """Decodes a verdict from JSON."""
    return msgspec.json.decode(text, type=Verdict, dec_hook=lambda kind, text: kind(text))


def consents(
    group: tuple[int, Iterable[bytes]], account: LedgerAccount, files: int, periods: Sequence[str], needed: Needed
) -> Iterator[KeyedUnit]:
    """Judges the whole input; yields a consent per period, none after a refusal."""
    _, facts = group
    verdict = verdict_on(facts, files, needed, partial(account.open().excess, account.name, account.limit))
    # A metric is what every runner hands back to the process that started the job.
    Metrics.string_set(counters.NAMESPACE, VERDICT).add(encode_verdict(verdict))
    if verdict.consents:
        yield from ((period, CONSENT) for period in periods)


def demand_fact(group: tuple[str, Iterable[tuple[SlotShard, bytes]]], shares: Sequence[Fraction]) -> KeyedFact:
    """Encodes a period's debits and vehicles' spending. shares: of epsilon, by statistic."""
    period, elements = group
    # By slot: epsilon of a HAT; packed numbers of HATs by vehicle. wanted: units' (specification, slot, shard, claim).
    epsilons, wanted, packed = dict[int, Fraction](), [], dict[int, list[bytes]]()
    for (slot_s, kind), data in elements:  # kind: SPENDING of a unit, or EXPOSURE of its vehicles
        if kind == SPENDING:
            epsilon, unit, debit = msgspec.json.decode(data, type=UnitSpending)
            epsilons[slot_s] = Fraction(epsilon)
            wanted.append((*unit, debit))
        else:
            packed.setdefault(slot_s, []).append(data)
    slots = [(epsilon, unpack_exposure(packed.get(slot_s, ()), len(shares))) for slot_s, epsilon in epsilons.items()]
    vehicles = np.unique(np.concatenate([exposure.vehicle for _, exposure in slots]))
    denominator = math.lcm(*((epsilon * share).denominator for epsilon in epsilons.values() for share in shares))
    spent = np.zeros(vehicles.size, object)  # over drawn HATs; exact, as Python integers: multiples of 1 / denominator
    for epsilon, exposure in slots:  # exposure.drawn: numbers of HATs, (vehicles, statistics)
        prices = np.array([int(epsilon * share * denominator) for share in shares], object)  # of a HAT, (statistics,)
        np.add.at(spent, np.searchsorted(vehicles, exposure.vehicle), exposure.drawn.astype(object) @ prices)
    ordered = np.sort(spent) if spent.size else np.zeros(1, object)
    ranks = (ordered.size - 1, (ordered.size - 1) // 2, -(-9 * ordered.size // 10) - 1)  # maximum, median, 90 %
    spend = tuple(str(Fraction(int(ordered[rank]), denominator)) for rank in ranks)  # fields of `Spend`
    return 0, msgspec.json.encode(DemandFact(period, wanted, spend))
