"""A feeder for demonstrations: a generated day of buses, replayed into a Kafka topic at many times its speed."""

import threading
import time
from collections.abc import Iterator
from datetime import datetime
from datetime import time as clock
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from hatstream_lab.made_up_fleet import MadeUpFleet, simulate

SPEED_UP = 200
FIRST_HOUR = 6
DELAY_S = 1.5
"""The longest that a report is on its way: so they come out of order."""
_STEP_S = 0.02
SETTINGS = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "log_level": 2, "enable.idempotence": True}


class Replay(NamedTuple):
    """Reports in the order in which they are sent. Times in seconds of the replay; at_s: NaN where a clock is unset."""

    sent_s: NDArray[np.float64]
    at_s: NDArray[np.float64]
    reports: list[dict[str, object]]


def replay(fleet: MadeUpFleet, seconds: float, first_hour: int = FIRST_HOUR) -> Replay:
    """Prepares some seconds of the fleet's day from an hour on, SPEED_UP times as fast."""
    day = simulate(fleet)
    first = datetime.combine(fleet.day, clock(first_hour), ZoneInfo(fleet.zone)).timestamp()
    stamp_s = day["ts"].cast("int64").to_numpy() / 1e6
    at_s = np.where(stamp_s > 0, (stamp_s - first) / SPEED_UP, np.nan)
    rng = np.random.default_rng(fleet.seed)
    lost = np.isnan(at_s)
    sent_s = np.where(lost, rng.uniform(0, seconds, at_s.size), at_s) + rng.uniform(0, DELAY_S, at_s.size)
    chosen = np.flatnonzero((lost | (at_s >= 0)) & (sent_s < seconds))
    chosen = chosen[np.argsort(sent_s[chosen], kind="stable")]
    return Replay(sent_s[chosen], at_s[chosen], day.drop_columns(["ts"]).take(chosen).to_pylist())


class Feeder:
    """`with Feeder(brokers, topic, replay):` sends reports, their times rebased onto now, in a thread."""

    def __init__(self, brokers: str, topic: str, replay: Replay) -> None:
        self._brokers, self._topic, self._replay, self._stop = brokers, topic, replay, threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self.sent = 0

    def __enter__(self) -> "Feeder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        producer = Producer({**SETTINGS, "bootstrap.servers": self._brokers})
        start_s = time.time()
        for sent_s, payload in _payloads(self._replay, start_s):
            while time.time() - start_s < sent_s and not self._stop.is_set():
                producer.poll(0)
                time.sleep(_STEP_S)
            if self._stop.is_set():
                break
            producer.produce(self._topic, payload)
            self.sent += 1
        producer.flush(10)


def _payloads(replay: Replay, start_s: float) -> Iterator[tuple[float, bytes]]:
    encode = msgspec.json.Encoder().encode
    for sent_s, at_s, report in zip(replay.sent_s.tolist(), replay.at_s.tolist(), replay.reports, strict=True):
        yield sent_s, encode({**report, "ts": 0 if at_s != at_s else round(1_000 * (start_s + at_s))})
