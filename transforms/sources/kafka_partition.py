"""One Kafka partition, read by offset, and its failures.

No offset is committed and no consumer group joined: the engine's checkpoint alone holds the position, the offset to be
read next. An outage, in which no broker answers, begins with `_away` and ends with `_back`.
"""

import logging
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

import confluent_kafka as kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException
from numpy.typing import NDArray

from dpops.types import Int64s
from transforms.sources.topic import READ_SETTINGS, Topic

LOG = logging.getLogger("hatstream.kafka")

POLL_MESSAGES = 20_000  # most of one poll, which are held in memory
POLL_WAIT_S = 0.05  # the most that a poll without messages takes
IDLE_S = 1.0  # a partition that brought nothing for so long is asked whether it is read to its end
RETURN_S = 15.0
"""So long after an outage nothing is promised: producers were cut off too, look for the broker again every 10 s at the
latest (librdkafka), and then send what they kept."""
PARTITIONS_EVERY_S = 60.0
GONE_S = 30.0  # so long a broker may say that a topic does not exist before it is believed
ASK_S, START_S = 1.0, 10.0  # the most that a question to a broker takes: between polls, and at the start

_DEFAULT_SETTINGS: Mapping[str, Any] = {
    "group.id": "hatstream",
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 16_384,
    "reconnect.backoff.max.ms": 2_000,
    "log_level": 2,  # of syslog's: librdkafka's own lines would come once a second while a broker is away
}
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_PASSING_ERRORS = (  # errors of brokers that are away for a while
    *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT),
    *(KafkaError.REQUEST_TIMED_OUT, KafkaError.BROKER_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE),
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
_GONE_ERRORS = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class KafkaSourceError(Exception):
    """Failure to read a topic without losing messages."""


class PartitionStart(NamedTuple):
    """Start offset of a partition, and number of partitions."""

    partition: int
    offset: int
    partitions: int


class Poll(NamedTuple):
    """Messages of one poll."""

    payloads: list[bytes]
    timestamps_ms: Int64s  # Kafka's, -1 where none
    by_broker: NDArray[np.bool_]  # stamped by the broker
    position: int  # next offset
    removed: int  # offsets removed unread by retention
    at_ms: int  # wall clock at the start
    idle: bool  # for a while no message has come, and none lies unread
    outage_over: bool = True  # what producers held back in an outage has come


def starts(topic: Topic, since_ms: int | None = None) -> list[PartitionStart]:
    """Queries partitions' first offsets, retrying for START_S. Raises KafkaSourceError."""
    consumer = _consumer(topic)
    until_s = time.monotonic() + START_S
    try:
        while True:
            try:
                return _starts(consumer, topic, since_ms)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING_ERRORS:
                    raise KafkaSourceError(f"{topic}: {_name(error)}") from None
                if time.monotonic() > until_s:
                    raise KafkaSourceError(f"{topic}: no answer from a broker ({_name(error)})") from None
                time.sleep(0.1)  # a topic that was just made has no leader yet
    finally:
        consumer.close()


def _starts(consumer: kafka.Consumer, topic: Topic, since_ms: int | None) -> list[PartitionStart]:
    """Queries each partition's first offset since a time, or first retained one."""
    numbers = _partitions(consumer, topic, START_S)
    ends = [consumer.get_watermark_offsets(kafka.TopicPartition(topic.name, n), timeout=START_S) for n in numbers]
    offsets = [first for first, _ in ends]
    if since_ms is not None:
        requests = [kafka.TopicPartition(topic.name, n, since_ms) for n in numbers]
        times = consumer.offsets_for_times(requests, timeout=START_S)
        # An offset below 0 stands for none: no message is as new.
        offsets = [start.offset if start.offset >= 0 else end for start, (_, end) in zip(times, ends, strict=True)]
    return [PartitionStart(n, offset, len(numbers)) for n, offset in zip(numbers, offsets, strict=True)]


class Partition:
    """Reader of one partition from any position; its times are of the monotonic clock."""

    def __init__(self, topic: Topic, partition: int, partitions: int) -> None:
        self._topic, self._number, self._partitions = topic, partition, partitions
        self._consumer = _consumer(topic, self._note)  # `_note` is called with each error of the client
        self._next_offset: int | None = None  # which the consumer hands over next; None: not assigned
        self._end_offset = -1  # where Kafka last said that the partition ends; -1: unknown
        self._last_message_s = self._last_asked_s = time.monotonic()  # asked where the partition ends
        self._last_counted_s = -math.inf  # never: so the first count, which may refuse the topic, comes at once
        self._last_error = ""  # name of the newest that the client reported
        self._away_since_s: float | None = None  # since when brokers do not answer
        self._gone_since_s: float | None = None  # since when they say that the topic does not exist
        self._outage_end_s = -math.inf  # when the last outage ended

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def poll(self, position: int, max_messages: int = POLL_MESSAGES) -> Poll:
        """Reads messages from an offset, waiting a limited time.

        Polls are empty while a broker is away. Raises KafkaSourceError where messages would be lost unseen.
        """
        if self._next_offset != position:
            self._consumer.assign([kafka.TopicPartition(self._topic.name, self._number, position)])
            self._next_offset, self._end_offset, self._last_message_s = position, -1, time.monotonic()
        at_ms = time.time_ns() // 1_000_000
        messages, out_of_range = self._split_events(self._consumer.consume(max_messages, POLL_WAIT_S))
        stamps = np.array([message.timestamp() for message in messages], np.int64).reshape(-1, 2)  # kind, and ms
        times_ms, by_broker = stamps[:, 1], stamps[:, 0] == kafka.TIMESTAMP_LOG_APPEND_TIME
        payloads = [message.value() or b"" for message in messages]  # one without is refused and counted
        next_position, removed, idle = position, 0, False
        if messages:
            self._back()  # ends an outage of brokers, if there is one
            next_position = self._next_offset = cast(int, messages[-1].offset()) + 1
            self._last_message_s = time.monotonic()
            with suppress(KafkaException):  # no answer: partitions are counted again later
                self._refuse_added_partitions(self._last_message_s)
        elif out_of_range:  # the position is not, or not any more, in the partition
            next_position = self._earliest(position)
            removed = next_position - position
        else:
            idle = self._is_idle(position)  # which may end an outage
        outage_over = time.monotonic() - self._outage_end_s >= RETURN_S  # producers have sent what they kept by then
        return Poll(payloads, times_ms, by_broker, next_position, removed, at_ms, idle, outage_over)

    def _split_events(self, events: list[kafka.Message]) -> tuple[list[kafka.Message], bool]:
        """Separates messages from errors; returns `out_of_range` too. Raises KafkaSourceError for lasting ones."""
        messages, out_of_range = [], False
        for event in events:
            error = event.error()
            if error is None:
                messages.append(event)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._end_offset = cast(int, event.offset())
            elif error.code() in _OUT_OF_RANGE:
                out_of_range = True
            elif error.code() in _GONE_ERRORS:
                raise KafkaSourceError(f"{self} no longer exists")
            elif error.code() in _PASSING_ERRORS:
                self._away(error.name())  # logged once; the client goes on trying
            else:
                raise KafkaSourceError(f"{self}: {error.name()}")
        return messages, out_of_range

    def _is_idle(self, position: int) -> bool:
        """Checks, once per IDLE_S, that a broker answers and has no further message."""
        now_s = time.monotonic()
        if now_s - self._last_message_s < IDLE_S or now_s - self._last_asked_s < IDLE_S:
            return False
        self._last_asked_s = now_s
        try:
            _, end = self._ask_ends()
            self._refuse_added_partitions(now_s)
        except KafkaException as error:
            self._away(_name(error))
            self._refuse_gone(error.args[0].code(), now_s)
            return False
        self._gone_since_s = None
        self._back()
        # Offsets without a message (a transaction's end) are never handed over: Kafka's end event says they are passed.
        return end <= max(position, self._end_offset)

    def _refuse_gone(self, code: int, now_s: float) -> None:
        """Raises KafkaSourceError once brokers have denied the topic for GONE_S."""
        is_gone = False
        if code in _GONE_ERRORS:  # also the client's answer for every topic while no broker answers: a broker is asked
            try:
                _partitions(self._consumer, self._topic, ASK_S)
            except KafkaSourceError:  # a broker knows no such topic
                is_gone = True
            except KafkaException:  # no broker answers
                pass
        self._gone_since_s = (self._gone_since_s or now_s) if is_gone else None  # since the first answer that says so
        if self._gone_since_s is not None and now_s - self._gone_since_s > GONE_S:
            raise KafkaSourceError(f"{self} no longer exists")

    def _earliest(self, position: int) -> int:
        """Queries the first retained offset from `position`, itself in an outage. Raises KafkaSourceError."""
        self._next_offset = None  # the next poll assigns the consumer anew
        try:
            earliest, end = self._ask_ends()
        except KafkaException as error:
            self._away(_name(error))
            return position
        if position > end:
            raise KafkaSourceError(
                f"{self} ends at offset {end}, but was read up to {position} before: it was recreated or truncated. "
                "Start again without --savepoint; slots that are recorded already stay as they are"
            )
        if earliest > position:
            LOG.warning("%s: retention removed %d offsets before they were read", self, earliest - position)
        return max(earliest, position)

    def _ask_ends(self) -> tuple[int, int]:
        """Queries first and end offset. Raises KafkaException."""
        return self._consumer.get_watermark_offsets(kafka.TopicPartition(self._topic.name, self._number), timeout=ASK_S)

    def _refuse_added_partitions(self, now_s: float) -> None:
        """Refuses added partitions, whose vehicles sealed slots would miss; partition 0's reader asks."""
        if self._number or now_s - self._last_counted_s < PARTITIONS_EVERY_S:
            return
        self._last_counted_s = now_s
        number = len(_partitions(self._consumer, self._topic, ASK_S))
        if number != self._partitions:
            raise KafkaSourceError(
                f"{self._topic}: it has {number} partitions now, and {self._partitions} are read. "
                "Start again without --savepoint; slots that are recorded already stay as they are"
            )

    def _note(self, error: KafkaError) -> None:
        """Keeps the newest error that the client reports, as reason of an outage."""
        self._last_error = error.name()

    def _away(self, reason: str) -> None:
        """Warns once where an outage of brokers begins."""
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
            LOG.warning("%s: no answer from a broker (%s); trying until there is one", self, self._last_error or reason)

    def _back(self) -> None:
        """Warns where an outage ends."""
        if self._away_since_s is not None:
            LOG.warning("%s: a broker answers again after %.0f s", self, time.monotonic() - self._away_since_s)
            self._away_since_s, self._last_error = None, ""
            self._outage_end_s = time.monotonic()

    def __str__(self) -> str:
        return f"partition {self._number} of {self._topic}"


def _consumer(topic: Topic, note: Any = None) -> kafka.Consumer:
    settings = {**_DEFAULT_SETTINGS, **topic.settings, **READ_SETTINGS, "bootstrap.servers": topic.brokers}
    return kafka.Consumer({**settings, "error_cb": note or (lambda error: None)})  # noqa: ARG005


def _partitions(consumer: kafka.Consumer, topic: Topic, wait_s: float) -> list[int]:
    """Lists a topic's partitions. Raises KafkaSourceError or KafkaException."""
    partitions = consumer.list_topics(topic.name, timeout=wait_s).topics[topic.name]
    if partitions.error is not None and partitions.error.code() in _GONE_ERRORS:
        raise KafkaSourceError(f"{topic}: it does not exist")
    if partitions.error is not None:
        raise KafkaException(partitions.error)
    return sorted(partitions.partitions)


def _name(error: KafkaException) -> str:
    return error.args[0].name()
