"""The Kafka sink on a real broker: every released row once per key, the same bytes however often it is sent."""

import time
from dataclasses import replace
from itertools import count

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests import city
from tests.transforms.sinks.units import unit
from transforms.errors import StepError
from transforms.records import SlotEstimates
from transforms.releases.hats.release import estimates_of
from transforms.sinks import kafka as kafka_sink
from transforms.sinks.kafka import Message, Sender, check, message_of
from transforms.sinks.rows import PLAIN, publish_slot, rows_of
from transforms.sinks.steps import PublishToKafka
from transforms.sources.topic import Topic

SLOT = estimates_of([unit(5_000_000, None, shard=0), unit(9, shard=1)], ("mean",))
_NUMBERS = count()


@pytest.fixture
def topic(kafka):
    return made(kafka)


def made(kafka, partitions=2, **settings):
    """A new topic of the broker."""
    name = f"hats-{next(_NUMBERS)}"
    kafka.make_topic(name, partitions)
    return Topic(brokers=kafka.brokers, name=name, settings=settings)


def send(topic, *slots):
    """Publishes the estimates of slots as the road does."""
    with beam.Pipeline(runner=FnApiRunner()) as p:
        recorded = p | beam.Create(list(slots), reshuffle=False).with_output_types(SlotEstimates)
        _ = recorded | "publish to kafka" >> PublishToKafka(topic)


def messages(topic):
    """Everything that lies in the topic now, as (partition, key, value) in the order of each partition."""
    settings = {"bootstrap.servers": topic.brokers, "group.id": "t", "enable.partition.eof": True, "log_level": 2}
    reader = Consumer(settings)
    reader.assign([TopicPartition(topic.name, number, 0) for number in range(2)])
    lying, ended, until = [], 0, time.monotonic() + 300
    while ended < 2 and time.monotonic() < until:
        for event in reader.consume(100, 0.2):
            if event.error() is None:
                lying.append((event.partition(), event.key(), event.value()))
            ended += event.error() is not None and event.error().code() == KafkaError._PARTITION_EOF
    reader.close()
    return lying


def pairs(topic):
    return sorted((key, value) for _, key, value in messages(topic))


# --- what is sent -------------------------------------------------------------------------------------------------


def test_a_message_is_keyed_by_its_release_id_and_holds_the_line_of_the_jsonl_file(tmp_path):
    (path,) = publish_slot(SLOT, tmp_path, ("jsonl",))
    messages = [message_of(row) for row in rows_of(SLOT)]
    assert [message.value for message in messages] == path.read_bytes().splitlines()
    assert messages[0].key == b"0123456789abcdef/2026-05-01T10:00:00-05:00/872830828ffffff/mean"
    assert len({message_of(row).key for row in rows_of(SLOT)}) == 2


def test_every_row_of_a_slot_is_there_when_the_bundle_has_ended(topic):
    send(topic, SLOT)
    assert pairs(topic) == sorted(message_of(row) for row in rows_of(SLOT))


def test_sending_twice_sends_the_same_keys_and_bytes_to_the_same_partitions(topic):
    send(topic, SLOT)
    first = messages(topic)
    send(topic, SLOT)
    assert len(messages(topic)) == 2 * len(first)
    assert set(messages(topic)) == set(first)


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.slow  # the broker starts again: 20 s
def test_a_broker_that_is_away_is_an_error_without_data_and_the_next_attempt_sends_all(kafka):
    topic = made(kafka)  # a busy machine's broker takes its time
    hurried = replace(topic, settings={"delivery.timeout.ms": "1500"})
    send(topic, SLOT)
    first = pairs(topic)
    kafka.stop()
    try:
        with pytest.raises(StepError, match="not all rows were taken") as refused:
            send(hurried, SLOT)
    finally:
        kafka.start()
    text = str(refused.value)
    assert text.endswith("The release is recorded; running the same command again publishes it.")
    assert topic.name in text
    assert not any(secret in text for secret in ("872830828ffffff", "0123456789abcdef", "value"))
    send(topic, SLOT)
    assert set(pairs(topic)) == set(first)


def test_one_row_that_is_not_taken_is_enough_to_fail(kafka):
    topic = made(kafka, **{"message.max.bytes": "100000"})
    kafka.admin.delete_topics([topic.name])[topic.name].result()
    kafka.make_topic(topic.name, 2, {"max.message.bytes": "2000"})
    sender = Sender(topic, PLAIN)
    sender.send([Message(b"small", b"x"), Message(b"large", bytes(50_000)), Message(b"small too", b"x")])
    with pytest.raises(StepError, match="MSG_SIZE_TOO_LARGE"):
        sender.wait()


def test_a_topic_or_broker_that_is_not_there_is_said_by_name(kafka, monkeypatch):
    with pytest.raises(StepError, match=r"topic 'nowhere' at .*: it does not exist"):
        check(Topic(brokers=kafka.brokers, name="nowhere"))
    monkeypatch.setattr("transforms.sources.kafka_partition.START_S", 0.5)
    with pytest.raises(StepError, match=r"at 127\.0\.0\.1:1: no answer from a broker"):
        check(Topic(brokers="127.0.0.1:1", name="any"))


@pytest.mark.parametrize("setting", ["enable.idempotence", "acks"])
def test_what_sending_twice_safely_depends_on_cannot_be_set(setting):
    with pytest.raises(ValueError, match=f"{setting} must not be set"):
        PublishToKafka(Topic(brokers="b:1", name="t", settings={setting: "0"}))


# --- at the command line ------------------------------------------------------------------------------------------


MEAN = 'name = "mean"\nmechanism = "array-average"\n'
DISTRIBUTION = 'name = "distribution"\nmechanism = "tree"\nbins = 13\n'


@pytest.fixture
def town(tmp_path, hatstream, request):
    assert MEAN in city.SPEC
    return city.opened(tmp_path, hatstream, spec=city.SPEC.replace(MEAN, getattr(request, "param", MEAN)))


@pytest.mark.parametrize("town", [DISTRIBUTION, MEAN], ids=["distribution", "mean"], indirect=True)
def test_a_release_sends_the_rows_of_its_files_and_a_rerun_sends_them_again(town, topic, hatstream):
    to_topic = ["--kafka-output", f"{topic.brokers}/{topic.name}"]
    shown = city.done(hatstream, *city.release(town, *to_topic))
    assert f"the rows were sent to topic '{topic.name}' at {topic.brokers} too" in shown
    lines = [line for path in (town / "out").glob("*.jsonl") for line in path.read_bytes().splitlines()]
    first = pairs(topic)
    assert sorted(value for _, value in first) == sorted(lines)
    assert len({key for key, _ in first}) == len(lines) == 18
    assert city.told(hatstream, *city.release(town, *to_topic))["slots_new"] == 0
    assert pairs(topic) == sorted(first * 2)


def test_a_topic_that_is_not_there_stops_a_release_before_anything_is_recorded(town, kafka, hatstream):
    err = city.refused(hatstream, *city.release(town, "--kafka-output", f"{kafka.brokers}/nowhere"))
    assert err == f"hatstream: topic 'nowhere' at {kafka.brokers}: it does not exist\n"
    said = hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[1]
    assert said.startswith("the ledger is whole: 1 entries\nall signatures were compared with the key\n")


def test_brokers_that_go_away_after_the_commit_leave_a_record_that_a_rerun_sends(town, topic, hatstream, monkeypatch):
    with monkeypatch.context() as unlucky:
        unlucky.setattr(kafka_sink, "check", lambda _: None)
        unlucky.setitem(kafka_sink._DEFAULTS, "delivery.timeout.ms", 1_000)
        err = city.refused(hatstream, *city.release(town, "--kafka-output", "127.0.0.1:1/gone"))
    assert err.startswith(
        "hatstream: topic 'gone' at 127.0.0.1:1: not all rows were taken (_MSG_TIMED_OUT). The release is"
    )
    again = city.told(hatstream, *city.release(town, "--kafka-output", f"{topic.brokers}/{topic.name}"))
    assert (again["slots_new"], len(pairs(topic))) == (0, 18)
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0


@pytest.mark.parametrize("text", ["topic", "host/topic", "host:9092", "host:9092/", "host:9092/a/b", "host:9092/ö"])
def test_what_is_no_topic_of_brokers_is_wrong_use(town, hatstream, text):
    assert "host:9092,other:9092/topic" in city.refused(hatstream, *city.release(town, "--kafka-output", text), code=1)
