"""What a Beam job leaves behind: the road's counters, or the reason for which a step of ours ended it."""

import re
from collections import Counter

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import Finished
from transforms import counters
from transforms.errors import StepError
from transforms.ledger import AccountRefusal, LedgerError

_KINDS = {
    "transforms.errors.StepError": StepError,
    "transforms.ledger.head.LedgerError": LedgerError,
    "transforms.ledger.ledger._Passing": LedgerError,
    "transforms.ledger.spending.AccountRefusal": AccountRefusal,
}
_RAISED = re.compile(rf"^({'|'.join(map(re.escape, _KINDS))}): (.+?)(?: \[while running .*)?$", re.MULTILINE)
"""How Python tells our own errors, whose sentences show nothing of the input."""


def reason_of(text: str) -> Exception | None:
    """Tells what a step raised, if it was an error of ours: other texts may hold what was read."""
    raised = _RAISED.findall(text)
    if not raised:
        return None
    kind, sentence = raised[-1]
    return _KINDS[kind](sentence)


def finished(result: PipelineResult) -> Finished:
    """Reads what a job counted, and the texts that it told."""
    metrics = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    counts = Counter[str]()
    for counter in metrics["counters"]:
        counts[counter.key.metric.name] += counter.result or 0  # None: a job server told 0
    told: dict[str, frozenset[str]] = {}
    for texts in metrics["string_sets"]:
        name = texts.key.metric.name
        told[name] = told.get(name, frozenset()) | texts.result
    return Finished(counts, told)
