"""The health of a stream: one line a slot, what was counted since, and a clear word when it ends by itself."""

import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.engine import EngineError
from pipelines.runs.flink.engine import Cluster
from pipelines.runs.stream import health
from pipelines.runs.stream.metrics import NAMESPACE, Metrics, MetricsError, served
from tests import city, levels_city
from transforms.ledger.head import LedgerError
from transforms.public import Operator, Summary

START_S = 1_640_997_000  # 2022-01-01T06:00+05:30
BAD = "refused/parse/bad-time"


class Clock:
    monotonic = staticmethod(time.monotonic)

    def __init__(self, now_s):
        self._now_s = now_s

    def time(self):
        return self._now_s


class Hat(NamedTuple):
    plan: object


class Unit(NamedTuple):
    slot_s: int
    released: list[Hat]


class Servers:
    """A job and a ledger that show one state after the other, and then stop the watch."""

    id, cluster = "job", Cluster("here:1")

    def __init__(self, stop, states, slots=(), counters=(), with_data=()):
        self._with_data = with_data
        self._stop, self._states, self._slots, self._counters = stop, list(states), list(slots), list(counters)

    def state(self):
        state = self._states.pop(0)
        if not self._states:
            self._stop.set()
        return state

    def recorded_slots(self, _account, _spec, _from_s, _to_s, *, is_live):
        assert not is_live
        shards = self._slots.pop(0) if self._slots else {}
        if isinstance(shards, LedgerError):
            raise shards
        return {(slot_s, shard) for slot_s, number in shards.items() for shard in range(number)}

    def released_of(self, _spec, slots):
        return [Unit(slot_s, [Hat({} if slot_s in self._with_data else None)]) for slot_s in slots]

    def counters(self):
        counted = self._counters.pop(0)
        if isinstance(counted, OSError):
            raise counted
        return Operator(counted)


@pytest.fixture
def attend(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0)
    spec = city.loaded(tmp_path)

    def run(*states, now_s=START_S, end_s=1 << 40, shown=lambda line: line.whole().opened(), **more):
        monkeypatch.setattr(health, "time", Clock(now_s))
        stop, said = threading.Event(), []
        servers = Servers(stop, states, **more)
        health.attend(spec, (START_S, end_s), servers, servers, stop, said.append)
        return [shown(line) for line in said]

    return run


def test_a_slot_is_said_once_with_what_was_counted_since_the_line_before(attend):
    said = attend(
        "RUNNING", "RUNNING", "RUNNING",
        slots=[{}, {START_S: 1}, {START_S: 1}, {START_S: 1, START_S + 3600: 1}],
        counters=[{"rows": 10, BAD: 2}, {"rows": 25, BAD: 2, "duplicates": 1}],
    )  # fmt: skip
    assert said[0] == {"state": "RUNNING"}
    first, second = said[1:]
    assert (first["rows"], first["refused"], first["duplicates"]) == (10, {"parse/bad-time": 2}, 0)
    assert (second["rows"], second["refused"], second["duplicates"]) == (15, {}, 1)
    assert [line["slot"] for line in (first, second)] == ["2022-01-01T06:00:00+05:30", "2022-01-01T07:00:00+05:30"]


def test_what_is_counted_from_rows_is_the_operators_in_every_line(attend):
    said = attend("RUNNING", slots=[{}, {START_S: 1}], counters=[{"rows": 10, BAD: 2}], shown=lambda line: line)
    assert [line.public for line in said] == [{"state": "RUNNING"}, {"slot": "2022-01-01T06:00:00+05:30"}]
    assert "rows" in said[-1].whole().opened()
    assert "10" not in str(said)


def test_counters_that_begin_again_after_a_restart_count_from_nothing(attend):
    said = attend(
        "RUNNING", "RUNNING", slots=[{}, {START_S: 1}, {START_S + 3600: 1}], counters=[{"rows": 9}, {"rows": 4}]
    )
    assert [line["rows"] for line in said if "slot" in line] == [9, 4]


def test_counters_are_said_alike_whether_an_engine_keeps_the_spaces_of_their_names_or_not(attend):
    told = [
        {"units redrawn": 3, "messages behind the watermark": 2},
        {"units_redrawn": 3, "messages_behind_the_watermark": 2},
    ]
    spaces, none = (attend("RUNNING", slots=[{}, {START_S: 1}], counters=[counted])[-1] for counted in told)
    assert {**spaces, "lag_s": 0} == {**none, "lag_s": 0}
    assert (none["units_redrawn"], none["messages_behind_the_watermark"]) == (3, 2)


def test_a_slot_is_said_also_while_the_counters_cannot_be_had(attend):
    said = attend("RUNNING", slots=[{}, {START_S: 1}], counters=[OSError()])
    assert said[-1].keys() == {"slot", "lag_s", "no_data"}


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        ({"rows": 0}, "no row came in"),
        ({"rows": 9, BAD: 4, "refused/lateness/late": 5}, "every row that came in was refused"),
        ({"rows": 9, BAD: 4}, "quiet: rows of other slots came in"),
        (OSError(), "not known: the counters cannot be had"),
    ],
)
def test_a_slot_without_data_says_whether_the_source_was_silent_or_wrong_or_the_hour_quiet(attend, counted, why):
    assert attend("RUNNING", slots=[{}, {START_S: 1}], counters=[counted])[-1]["no_data"] == why


def test_a_ledger_that_is_away_is_said_once_and_waited_for(attend):
    away = LedgerError("the ledger is not usable: connection refused")
    said = attend(
        "RUNNING", "RUNNING", "RUNNING", "RUNNING", slots=[{}, away, away, {START_S: 1}, {START_S: 1}], counters=[{}]
    )
    assert said[:3] == [{"state": "RUNNING"}, {"ledger": str(away)}, {"ledger": "answers"}]
    assert [line["slot"] for line in said[3:]] == ["2022-01-01T06:00:00+05:30"]


def test_slots_that_the_accounts_limit_loses_are_said_though_nothing_is_recorded(attend, monkeypatch):
    monkeypatch.setattr(health, "LOSSES_EVERY", 1)
    said = attend("RUNNING", "RUNNING", counters=[{health.LOST: 2}, {health.LOST: 2}, {health.LOST: 2}])
    assert [line[health.LOST] for line in said[1:]] == [2]


def test_no_slot_is_overdue_that_begins_after_the_accounts_end(attend):
    eight = START_S + 2 * 3600
    said = attend("RUNNING", slots=[{}, {eight: 1}], counters=[{}], end_s=eight + 3600, now_s=eight + 9 * 3600)
    assert [line for line in said if "overdue" in line] == []


def test_slots_that_stay_unrecorded_long_after_their_end_are_said_once_a_minute_until_they_are_there(attend):
    eight, nine = START_S + 2 * 3600, START_S + 3 * 3600
    slots = [{}, {}, {}, {eight: 1}, {eight: 1}, {eight: 1, nine: 1}]
    said = attend(*["RUNNING"] * 5, slots=slots, counters=[{}, {}], now_s=nine + 3600 + health.OVERDUE_S)
    assert [line for line in said if "overdue" in line] == [
        {"overdue": 2, "oldest": "2022-01-01T08:00:00+05:30"},
        {"overdue": 0},
    ]


def test_a_stream_that_ends_by_itself_is_an_error(attend):
    with pytest.raises(EngineError, match=r"has ended \(FAILED\)"):
        attend("RUNNING", "FAILED")


def test_a_cluster_that_is_silent_for_long_is_an_error(attend, monkeypatch):
    monkeypatch.setattr(health, "SILENT_S", -1)
    with pytest.raises(EngineError, match="has not answered"):
        attend("RUNNING", None, None)


# --- metrics, scraped as Prometheus does, and the dashboard that draws them ---


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
    named = {name for expression in shown for name in re.findall(rf"{NAMESPACE}_\w+", expression)}
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
