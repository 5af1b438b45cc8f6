"""The verdict on a whole input, before anything of it is recorded: made by one step of a bounded pipeline."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from dpops.claims import claim_of
from pipelines.outcome import Outcome, Spend, count_in, is_refused
from pipelines.runs.period_demand import Demand
from transforms import counters
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.units import Debit, UnitKey
from transforms.records import CONSENT, KeyedUnit

VERDICT = "verdict"
"""The name under which the engine hands it back, as a metric."""
OF_PERIOD, UNREADABLE = "period/", "unreadable/"
"""What names of counts begin with: observations of a period, and why a file could not be read."""

KeyedFact = tuple[int, bytes]
"""An encoded fact; all have the same key."""
Wanted = Mapping[str, Sequence[Debit]]


class CountFact(msgspec.Struct, tag=True, frozen=True):
    """Some of the road's counters, and those that only a verdict needs."""

    counts: dict[str, int]


class AskedFact(msgspec.Struct, tag=True, frozen=True):
    """What a period asks of the account. wanted: (specification, slot, shard, claim)."""

    period: str
    wanted: list[tuple[str, int, int | None, str]]
    spent: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """unreadable: files, each with the reason. outcome: what is known of the run before anything is recorded.

    consents: whether the units may be recorded.
    """

    outcome: Outcome
    unreadable: list[str] = field(default_factory=list)
    consents: bool = False


def of_counts(counts: Mapping[str, int]) -> KeyedFact:
    return 0, msgspec.json.encode(CountFact(dict(counts)))


def counts_in(fact: bytes) -> Mapping[str, int]:
    """Reads what `of_counts` wrote."""
    return msgspec.json.decode(fact, type=CountFact).counts


def of_asked(period: str, asked: Demand) -> KeyedFact:
    wanted = [(*debit.unit, str(debit.claim)) for debit in asked.wanted]
    return 0, msgspec.json.encode(AskedFact(period, wanted, tuple(map(str, asked.spent))))


def verdict_on(
    facts: Iterable[bytes], files: int, needed: Collection[str] | None, excess: Callable[[Wanted], list[str]]
) -> Verdict:
    """Judges an input. files: of it. needed: periods that must have rows; None where the input may not decide that.

    excess: periods over the limit.
    """
    outcome, counts, wanted = Outcome(), Counter[str](), {}
    decoded = [msgspec.json.decode(fact, type=CountFact | AskedFact) for fact in facts]
    for fact in decoded:
        if isinstance(fact, CountFact):
            counts.update(fact.counts)
    for asked in sorted((fact for fact in decoded if isinstance(fact, AskedFact)), key=lambda fact: fact.period):
        debits = [Debit(UnitKey(spec, slot_s, shard), claim_of(claim)) for spec, slot_s, shard, claim in asked.wanted]
        sums = Demand(debits, msgspec.convert(asked.spent, Spend, dec_hook=_from_text))
        wanted[asked.period] = debits
        outcome.debits[asked.period], outcome.spent[asked.period] = sums.total, sums.spent
    count_in(outcome, counts)
    unreadable = sorted(name.removeprefix(UNREADABLE) for name in counts if name.startswith(UNREADABLE))
    having = {name.removeprefix(OF_PERIOD) for name in counts if name.startswith(OF_PERIOD)}
    if unreadable or is_refused(outcome, files, needed, having):
        return Verdict(outcome, unreadable)
    outcome.periods_refused = excess(wanted)
    return Verdict(outcome, consents=not outcome.periods_refused)


def written(verdict: Verdict) -> str:
    return msgspec.json.encode(verdict, enc_hook=str, order="deterministic").decode()


def read_back(text: str) -> Verdict:
    return msgspec.json.decode(text, type=Verdict, dec_hook=_from_text)


def _from_text(kind: type, text: str) -> Any:
    """Reads a fraction, which travels as text."""
    return kind(text)


@dataclass
class Judge(beam.PTransform[PCollection[KeyedFact], PCollection[KeyedUnit]]):
    """All facts of an input, at least one -> the consent of each period, or nothing. The verdict is told as a metric.

    It comes by a group-by, which waits for the end of all that is read: so what waits for a consent waits for that.
    """

    account: LedgerAccount
    files: int
    periods: tuple[str, ...]
    needed: tuple[str, ...] | None

    def expand(self, facts: PCollection[KeyedFact]) -> PCollection[KeyedUnit]:
        grouped = facts | "all facts" >> beam.GroupByKey()
        consents: PCollection[KeyedUnit] = grouped | "verdict" >> beam.ParDo(_Judge(self)).with_output_types(KeyedUnit)
        return consents


class _Judge(beam.DoFn):
    def __init__(self, of: Judge) -> None:
        self._of = of

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[KeyedUnit]:
        account = self._of.account

        def excess(wanted: Wanted) -> list[str]:
            return account.open().excess(account.name, account.limit, wanted)

        verdict = verdict_on(group[1], self._of.files, self._of.needed, excess)
        Metrics.string_set(counters.NAMESPACE, VERDICT).add(written(verdict))
        if verdict.consents:
            yield from ((period, CONSENT) for period in self._of.periods)
