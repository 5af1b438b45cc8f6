"""The health of a stream: one line a slot, what was counted since, and a clear word when it ends by itself."""

import threading
import time
from typing import NamedTuple

import pytest

from pipelines.engine import EngineError
from pipelines.runs.flink.engine import Cluster
from pipelines.runs.stream import health
from pipelines.specification import load
from tests import city
from transforms.ledger.head import LedgerError
from transforms.public import Operator

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

    def run(*states, now_s=START_S, end_s=1 << 40, **more):
        monkeypatch.setattr(health, "time", Clock(now_s))
        stop, said = threading.Event(), []
        servers = Servers(stop, states, **more)
        health.attend(spec, (START_S, end_s), servers, servers, stop, said.append)
        return [line.whole().opened() for line in said]

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


def test_what_is_counted_from_rows_is_the_operators_in_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(health, "time", Clock(START_S))
    city.write(tmp_path)
    stop, said = threading.Event(), []
    servers = Servers(stop, ["RUNNING"], [{}, {START_S: 1}], [{"rows": 10, BAD: 2}])
    health.attend(load(tmp_path / "spec.toml"), (START_S, 1 << 40), servers, servers, stop, said.append)
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
