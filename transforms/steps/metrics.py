"""The road's counters as metrics of an engine."""

from apache_beam.metrics.metric import Metrics

from transforms import counters


def count(name: str, number: int = 1) -> None:
    """Adds to a counter, which is told as soon as it is there."""
    Metrics.counter(counters.NAMESPACE, name).inc(number)
