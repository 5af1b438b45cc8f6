"""Kafka source: splittable DoFn with partitions as restrictions.

The engine's checkpoints hold the offset (docs/adr/0009-sources-of-a-stream.md). A restriction is the offsets still to
be read, claimed in a tracker; the estimator holds the source's watermark, which `move` moves.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.pvalue import DoOutputsTuple, PBegin, TaggedOutput
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from transforms import counters
from transforms.layouts import MessageLayout
from transforms.layouts.base import RawBatch
from transforms.layouts.decoder_process import messages_apart
from transforms.records import REFUSED, Messages, Refused
from transforms.sources import unbounded
from transforms.sources.kafka_partition import POLL_MESSAGES, START_S, KafkaSourceError, Partition, PartitionStart
from transforms.sources.topic import Topic
from transforms.steps.metrics import Parting, Refusal, count
from transforms.steps.observe import counted
from transforms.time.watermark import Watermark, element_time, is_ahead, newest_plausible_ms


@dataclass
class ReadKafka(Parting[PBegin]):
    """Batches of a topic at partitions' watermarks, and refusals."""

    topic: Topic
    starts: Sequence[PartitionStart]  # each partition's first offset
    watermark: Watermark
    layout: MessageLayout
    poll_messages: int = POLL_MESSAGES

    def expand(self, begin: PBegin) -> DoOutputsTuple:
        starts = begin | "partitions" >> unbounded.KnownElements(self.starts)
        shuffled = starts | "spread" >> beam.Reshuffle()  # else one worker would poll all partitions
        polled = shuffled | "poll" >> beam.ParDo(_ReadPartition(self.topic, self.watermark, self.poll_messages))
        return polled | "decode" >> beam.FlatMap(_Polls(self.layout).decoded).with_outputs(REFUSED, main="batches")


class _Polls(NamedTuple):
    """Decoder of polls, without the topic's secret settings."""

    layout: MessageLayout

    def decoded(self, polled: Messages) -> Iterator[RawBatch | Refusal]:
        return decode(polled, self.layout)  # which Beam would check, were it handed over with the function


class _Offsets(unbounded.UnboundedProvider):
    """A partition's restriction: offsets from the next one on."""

    def initial_restriction(self, element: PartitionStart) -> OffsetRange:
        return OffsetRange(element.offset, unbounded.NO_END)


_OFFSETS, _PROMISE = beam.DoFn.RestrictionParam(_Offsets()), unbounded.PROMISE


class _ReadPartition(beam.DoFn):
    """DoFn that polls partitions, from the next offset, their restriction's start."""

    def __init__(self, topic: Topic, watermark: Watermark, poll_messages: int) -> None:
        self._topic, self._watermark, self._most = topic, watermark, poll_messages

    def setup(self) -> None:
        self._open: dict[int, Partition] = {}

    def teardown(self) -> None:
        for partition in self._open.values():
            partition.close()

    @beam.DoFn.unbounded_per_element()
    def process(self, element: PartitionStart, tracker: Any = _OFFSETS, estimator: Any = _PROMISE) -> Iterator[Any]:
        """Polls once: yields messages with lateness bounds, moves the watermark, resumes later."""
        start = PartitionStart(*element)
        position = tracker.current_restriction().start
        if start.partition not in self._open:
            self._open[start.partition] = Partition(self._topic, start.partition, start.partitions)
        poll = self._open[start.partition].poll(position, self._most)
        if poll.position > position and not tracker.try_claim(poll.position - 1):  # the engine took it back
            return
        ahead = int(np.count_nonzero(is_ahead(poll.timestamps_ms, poll.at_ms)))  # stamped well after the poll
        for name, number in ((counters.REMOVED, poll.removed), (counters.AHEAD, ahead)):
            if number:
                count(name, number)
        # A producer may stamp what it likes: where a message's timestamp decides what is late, only the broker's serve.
        usable = np.flatnonzero(poll.by_broker | (not self._watermark.by_own_times))
        refused, times_ms = poll.by_broker.size - usable.size, poll.timestamps_ms[usable]
        # Messages are stamped with the watermark that decides which of their events are late: one element for each.
        late_us = unbounded.late_from(self._watermark, estimator, times_ms)
        for at_us in np.unique(late_us).tolist():
            chosen = usable[late_us == at_us]
            payloads = [poll.payloads[i] for i in chosen.tolist()]
            yield TimestampedValue(Messages(payloads, poll.timestamps_ms[chosen]), Timestamp(micros=at_us))
        if refused:  # counted where messages are decoded, by an element without messages
            beam_time = element_time(unbounded.promised_by(estimator, self._watermark))
            yield TimestampedValue(Messages([], poll.timestamps_ms[:0], refused), beam_time)
        # While messages of an outage are still to come, neither their times nor silence move the watermark.
        newest_ms = newest_plausible_ms(times_ms, poll.at_ms) if poll.outage_over else None
        unbounded.move(estimator, self._watermark, newest_ms, poll.at_ms, idle=poll.idle and poll.outage_over)
        tracker.defer_remainder(Duration(seconds=0 if len(poll.payloads) >= self._most else unbounded.PAUSE_S))


def decode(polled: Messages, layout: MessageLayout) -> Iterator[RawBatch | Refusal]:
    """Decodes a poll's messages, in a decoder's process; yields batches and refusals."""
    if polled.refused:  # messages left out at the poll: their producer stamped them, not the broker
        count(counters.ROWS, polled.refused)
        yield TaggedOutput(REFUSED, Refused("read", PRODUCER_TIME, polled.refused))
    yield from counted(messages_apart(layout, polled.payloads))


LOG = logging.getLogger("hatstream.kafka")

SETTING: Final = "message.timestamp.type"
BROKERS: Final = "LogAppendTime"
PRODUCER_TIME: Final = "producer-time"  # reason of refusing a message, whatever is in it, that its producer stamped
_NOT_AUTHORIZED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def check_clock(topic: Topic) -> None:
    """Raises KafkaSourceError if the topic's setting lets producers stamp messages.

    A producer's time may be old when its message is appended: the watermark, moved by others' messages, would then
    decide about its reports.
    """
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name)
    settings: dict[str, Any] = {"log_level": 2, **topic.settings, "bootstrap.servers": topic.brokers}  # 2: critical
    admin = AdminClient(settings)  # in a variable: a client that is garbage-collected drops its requests
    try:
        setting = admin.describe_configs([resource], request_timeout=START_S)[resource].result()[SETTING].value
    except KafkaException as error:
        if error.args[0].code() not in _NOT_AUTHORIZED:
            raise KafkaSourceError(f"{topic}: {error.args[0].name()}") from None
        LOG.warning("%s: the broker does not tell its %s; each message's own type decides", topic, SETTING)
        return
    if setting not in (None, BROKERS):  # LogAppendTime; None: the broker gives no value
        raise KafkaSourceError(
            f"{topic} has {SETTING}={setting}: producers set the messages' times; where counts are secret, other "
            f"vehicles' reports could then decide whether a delayed one counts. Set {SETTING}={BROKERS} on the topic; "
            f"messages already in it are refused, and counted as read/{PRODUCER_TIME}"
        )
