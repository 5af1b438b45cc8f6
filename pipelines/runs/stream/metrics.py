"""Stream health as Prometheus metrics, from health lines.

Under add-remove they are for the operator only (docs/guarantee.md): bind a private address.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from pipelines.specification import Specification
from transforms.public import Summary

NAMESPACE = "hatstream"
_METRIC_BY_COUNTER = {  # numbers of a health line since the line before, with their metric and what it means
    "rows": ("rows", "Rows that came in."),
    "duplicates": ("rows_duplicate", "Rows that were there already."),
    "units_lost_to_the_limit": ("units_lost_to_the_limit", "Units not recorded: the account's limit was reached."),
    "units_changed": ("units_changed", "Units drawn again from other input or by other code; operator only."),
    "units_redrawn": ("units_redrawn", "Units drawn again after a restart; the first values stand."),
}


class MetricsError(Exception):
    """The metrics cannot be served at their address."""


class Metrics:
    """Callback that turns health lines into Prometheus metrics."""

    def __init__(self, spec: Specification) -> None:
        self.registry = CollectorRegistry()
        self._slot_s = spec.timetable.slot_s
        gauge = partial(Gauge, namespace=NAMESPACE, registry=self.registry)
        counter = partial(Counter, namespace=NAMESPACE, registry=self.registry)
        info = gauge("stream_info", "1; the labels say which specification is streamed.", ["name", "spec_id"])
        info.labels(spec.name, spec.spec_id).set(1)
        self._running = gauge("stream_running", "1 while the engine says that the job runs, else 0.")
        self._ledger = gauge("ledger_reachable", "1 while the ledger answers, else 0.")
        self._ledger.set(1)
        self._overdue = gauge("slots_overdue", "Slots that are not whole in the ledger though they are due.")
        self._lag = gauge("slot_lag_seconds", "Seconds from the end of the newest slot until it was recorded.")
        self._end = gauge("newest_slot_end_timestamp_seconds", "End of the newest recorded slot, since 1970 UTC.")
        self._slots = counter("slots_recorded", "Slots that were recorded whole.")
        self._empty = counter("slots_without_data", "Of them, slots that were sealed without a report.")
        self._refused = counter("rows_refused", "Refused rows, by stage and reason.", ["reason"])
        self._counted = {fact: counter(*metric) for fact, metric in _METRIC_BY_COUNTER.items()}

    def __call__(self, line: Summary) -> None:
        """Updates the metrics from a health line."""
        facts: Mapping[str, Any] = line.whole().opened()  # the operator's part too
        if "state" in facts:
            self._running.set(facts["state"] == "RUNNING")
        if "ledger" in facts:
            self._ledger.set(facts["ledger"] == "answers")
        if "overdue" in facts:
            self._overdue.set(facts["overdue"])
        if "slot" in facts:
            self._slots.inc()
            self._empty.inc("no_data" in facts)
            self._lag.set(facts["lag_s"])
            self._end.set(datetime.fromisoformat(facts["slot"]).timestamp() + self._slot_s)
        for name, counter in self._counted.items():
            counter.inc(facts.get(name, 0))
        for reason, rows in facts.get("refused", {}).items():
            self._refused.labels(reason).inc(rows)


@contextmanager
def served(metrics: Metrics, address: str) -> Iterator[int]:
    """Serves the metrics over HTTP at `host:port`; yields the port. Raises MetricsError."""
    host, _, port = address.rpartition(":")  # the host of IPv6 is in brackets
    try:
        server, thread = start_http_server(int(port), host.removeprefix("[").removesuffix("]"), metrics.registry)
    except (OSError, OverflowError, ValueError) as error:
        raise MetricsError(f"--metrics {address}: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
