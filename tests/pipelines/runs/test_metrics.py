"""Metrics of a stream, scraped as Prometheus does, and the dashboard that draws them."""

import json
import re
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.runs.stream.metrics import PREFIX, Metrics, MetricsError, served
from tests import city, levels_city
from transforms.public import Summary

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "hatstream.json"
SLOT = {"slot": "2022-01-01T08:00:00+05:30", "lag_s": 4.5}
COUNTS = {
    "rows": 40, "duplicates": 2, "refused": {"parse/bad-time": 3}, "units_lost_to_the_limit": 0, "units_changed": 1,
    "units_redrawn": 0,
}  # fmt: skip


@pytest.fixture
def spec(tmp_path):
    return city.loaded(tmp_path)


def scraped(metrics):
    """name{labels} -> value, as an HTTP client reads it."""
    with served(metrics, "127.0.0.1:0") as port, urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def names_of(metrics):
    return {name for name, *_ in scraped(metrics) if not name.endswith("_created")}


def test_what_health_says_is_what_is_scraped(spec):
    metrics = Metrics(spec)
    for facts in ({"job": "x", "spec_id": spec.spec_id, "from": "."}, {"state": "RUNNING"}, SLOT | COUNTS):
        metrics(Summary(facts))
    metrics(Summary(SLOT | {"slot": "2022-01-01T09:00:00+05:30", "no_data": "no row came in"} | COUNTS))
    samples = scraped(metrics)
    assert samples["hatstream_stream_info", "small-city", spec.spec_id] == 1
    assert samples["hatstream_stream_running",] == samples["hatstream_ledger_reachable",] == 1
    assert samples["hatstream_slots_recorded_total",] == 2
    assert samples["hatstream_slots_without_data_total",] == 1
    assert samples["hatstream_rows_total",] == 80
    assert samples["hatstream_rows_refused_total", "parse/bad-time"] == 6
    assert samples["hatstream_slot_lag_seconds",] == 4.5
    assert samples["hatstream_newest_slot_end_timestamp_seconds",] == 1641011400
    assert samples["hatstream_units_changed_total",] == 2


def test_a_ledger_that_is_away_slots_that_are_overdue_and_an_end_are_seen(spec):
    metrics = Metrics(spec)
    for facts in ({"state": "RUNNING"}, {"ledger": "refused"}, {"overdue": 3, "oldest": "."}, {"state": "FAILED"}):
        metrics(Summary(facts))
    samples = scraped(metrics)
    assert samples["hatstream_ledger_reachable",] == samples["hatstream_stream_running",] == 0
    assert samples["hatstream_slots_overdue",] == 3
    metrics(Summary({"ledger": "answers"}))
    metrics(Summary({"overdue": 0}))
    assert scraped(metrics)["hatstream_ledger_reachable",] == 1


def test_no_metric_names_a_vehicle_a_cell_or_a_slot(tmp_path):
    metrics = Metrics(city.loaded(tmp_path, levels_city.SPEC))
    metrics(Summary(SLOT | COUNTS))
    labels = {name for family in metrics.registry.collect() for s in family.samples for name in s.labels}
    assert labels == {"name", "spec_id", "reason"}


def test_an_address_in_use_is_said_in_one_sentence(spec):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(MetricsError, match=f"--metrics {address}: Address already in use"),
            served(Metrics(spec), address),
        ):
            pass


def test_the_dashboard_draws_metrics_that_exist_and_all_of_them(spec):
    board = json.loads(DASHBOARD.read_text())
    shown = {target["expr"] for panel in board["panels"] for target in panel.get("targets", ())}
    named = {name for expression in shown for name in re.findall(rf"{PREFIX}\w+", expression)}
    metrics = Metrics(spec)
    metrics(Summary(SLOT | COUNTS))
    assert named == names_of(metrics)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in board["panels"]})


def test_an_address_of_version_6_is_taken_and_what_is_none_is_refused(spec):
    with served(Metrics(spec), "[::1]:0") as port, urlopen(f"http://[::1]:{port}/metrics") as answer:
        assert answer.status == 200
    for address in ("abc", "127.0.0.1:abc", "127.0.0.1:99999", "no such host:1"):
        with pytest.raises(MetricsError, match="--metrics"), served(Metrics(spec), address):
            pass
