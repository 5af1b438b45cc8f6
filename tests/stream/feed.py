"""A new topic of positions, its producer, and its partitions' readers, driven by hand."""

from itertools import count

from confluent_kafka import Producer

from tests.stream.by_hand import ByHand
from transforms.sources.kafka import _Offsets, _ReadPartition
from transforms.sources.kafka_partition import starts
from transforms.sources.topic import Topic
from transforms.time.watermark import Watermark

LAG_S = 5
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
YEAR_9999_MS = 253_402_300_799_000
_NUMBERS = count()


class Feed:
    """A new topic, its producer, and its partitions' readers."""

    def __init__(self, kafka, partitions=1, settings=None):
        self.kafka, self.name = kafka, f"positions-{next(_NUMBERS)}"
        kafka.make_topic(self.name, partitions, {**ANY_TIME, **(settings or {})})
        self.topic = Topic(brokers=kafka.brokers, name=self.name)
        self.producer = Producer(
            {"bootstrap.servers": kafka.brokers, "linger.ms": 5, "log_level": 2, "enable.idempotence": True}
        )
        self.readers = []

    def send(self, payloads, partition=0, at_ms=None):
        for payload in payloads:
            times = {} if at_ms is None else {"timestamp": at_ms}
            self.producer.produce(self.name, payload, partition=partition, **times)
        assert self.producer.flush(300) == 0

    def reader(self, partition=0, most=1_000, *, by_own_times=False):
        fn = _ReadPartition(self.topic, Watermark(LAG_S, by_own_times=by_own_times), most)
        self.readers.append(ByHand(fn, _Offsets(), starts(self.topic)[partition]))
        return self.readers[-1]
