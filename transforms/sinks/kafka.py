"""Kafka topic of released rows, one message a row.

Retries send equal keys and bytes: readers or compaction can remove duplicates.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Sent

from transforms.errors import StepError, recorded_but
from transforms.records import SlotEstimates
from transforms.sinks.rows import Row, Shape, rows_of
from transforms.sources.kafka_partition import KafkaSourceError, starts
from transforms.sources.topic import Topic

DELIVERY_S = 30.0  # a row that no broker has confirmed for so long is given up; the next attempt sends all rows again
_REQUIRED: Mapping[str, Any] = {"enable.idempotence": True, "acks": "all"}
_DEFAULTS: Mapping[str, Any] = {
    "delivery.timeout.ms": round(DELIVERY_S * 1_000),
    "partitioner": "murmur2_random",  # that of Java's clients: a key lies in the same partition whoever sends it
    "log_level": 2,  # of syslog's levels: librdkafka's own lines would come once a second while a broker is away
}


class Message(NamedTuple):
    """Message of a row."""

    key: bytes  # `spec_id/slot start/cell/statistic`, then `/live` or a product
    value: bytes  # JSON line


def message_of(row: Row, *, is_live: bool = False) -> Message:
    """Makes a row's message; equal rows have equal messages."""
    ending = row.get("product") or ("live" if is_live else "")  # ends the key: other rows may share the rest
    key_fields = (row["spec_id"], row["slot_start"], row["cell"], row["statistic"], *([ending] if ending else []))
    release_id = "/".join(key_fields)
    return Message(release_id.encode(), msgspec.json.encode(row))


def check(topic: Topic) -> None:
    """Checks that brokers have the topic. Raises StepError."""
    try:
        starts(topic)  # whose answer is not needed: it fails where brokers or the topic do
    except KafkaSourceError as error:
        raise StepError(str(error)) from None


def check_settings(topic: Topic) -> None:
    """Raises ValueError for settings that sending safely depends on."""
    for setting in topic.settings:
        if setting in _REQUIRED:
            raise ValueError(f"settings: {setting} must not be set: sending twice safely depends on it")


class Sender:
    """Idempotent Kafka sender of estimates; errors reset its producer."""

    def __init__(self, topic: Topic, shape: Shape) -> None:
        check_settings(topic)
        self._topic, self._shape = topic, shape
        self._producer: Producer | None = None
        self._refused = list[KafkaError]()

    def put(self, slot: SlotEstimates) -> None:
        """Sends a slot's rows. Raises StepError."""
        self.send(message_of(row, is_live=slot.is_live) for row in rows_of(slot, self._shape))

    def send(self, messages: Iterable[Message]) -> None:
        """Hands over messages, waiting while too many are pending. Raises StepError."""
        try:
            if self._producer is None:
                settings = {**_DEFAULTS, **self._topic.settings, **_REQUIRED, "bootstrap.servers": self._topic.brokers}
                self._producer = Producer({**settings, "error_cb": lambda _: None})  # `_note` gets those that matter
            for message in messages:
                while True:
                    try:
                        self._producer.produce(self._topic.name, message.value, message.key, on_delivery=self._note)
                        break
                    except BufferError:  # the queue is full; it empties, as messages are given up after DELIVERY_S
                        self._producer.poll(0.1)  # seconds at most
        except KafkaException as error:
            raise self._recorded_but(error.args[0]) from None  # rows are recorded, but not sent

    def wait(self) -> None:
        """Waits until all messages are confirmed. Raises StepError."""
        if self._producer is not None:
            self._producer.flush()
        if self._refused:
            raise self._recorded_but(self._refused[0])

    def _note(self, error: KafkaError | None, _message: Sent) -> None:
        if error is not None:
            self._refused.append(error)

    def _recorded_but(self, error: KafkaError) -> StepError:
        """Starts anew; says that rows are recorded, but not sent, without their contents."""
        self._producer, self._refused = None, []
        return recorded_but(f"{self._topic}: not all rows were taken ({error.name()})")
