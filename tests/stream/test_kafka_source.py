"""The Kafka source on a real broker: exact, patient, and never ahead of what it has read."""

import logging
import time
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from tests import city, levels_city
from tests.stream.by_hand import Counters
from tests.stream.feed import LAG_S, YEAR_9999_MS, Feed
from transforms.counters import AHEAD, REMOVED
from transforms.sources import kafka_partition
from transforms.sources.kafka import SETTING, check_clock
from transforms.sources.kafka_partition import IDLE_S, KafkaSourceError, PartitionStart, starts
from transforms.sources.topic import Topic

MOST_S = 300  # so long something is waited for that a quiet machine has at once


@pytest.fixture
def counters(monkeypatch):
    return Counters(monkeypatch, "transforms.steps.metrics").counts


@pytest.fixture
def feed(kafka):
    made = []

    def make(**options):
        made.append(Feed(kafka, **options))
        return made[-1]

    yield make
    for one in made:
        for reader in one.readers:
            reader.fn.teardown()


def read(reader, messages):
    """Payloads of the next messages, as many as are asked for."""
    return [payload for element in elements(reader, messages) for payload in element.value.payloads]


def elements(reader, messages):
    """What the next polls hand over, until it is as many messages as are asked for."""
    polled = []
    until_it(
        lambda: sum(len(element.value.payloads) for element in polled) >= messages, lambda: polled.extend(reader.step())
    )
    return polled


def until_it(is_so, step):
    """Steps until something is so; on a machine with much else to do that takes long."""
    until = time.monotonic() + MOST_S
    while not is_so() and time.monotonic() < until:
        step()


def step_for(reader, seconds):
    until = time.monotonic() + seconds
    elements = []
    while time.monotonic() < until:
        elements += reader.step()
    return elements


def now_ms():
    return time.time_ns() // 1_000_000


def numbered(n, start=0):
    return [b"%d" % i for i in range(start, start + n)]


# --- exact --------------------------------------------------------------------------------------------------------


def test_every_message_is_read_once_and_the_restriction_says_where_to_go_on(feed):
    made = feed(partitions=2)
    for partition in range(2):
        made.send(numbered(2_500), partition)
    for partition in range(2):
        reader = made.reader(partition)
        assert read(reader, 2_500) == numbered(2_500)
        assert reader.restriction.start == 2_500
        assert step_for(reader, 0.3) == []


def test_a_poll_brings_thousands_of_messages_with_their_times(feed):
    made = feed()
    made.send(numbered(1_000), at_ms=1_700_000_000_123)
    polls = [element.value for element in elements(made.reader(most=20_000), 1_000)]
    assert max(len(poll.payloads) for poll in polls) > 100
    assert [payload for poll in polls for payload in poll.payloads] == numbered(1_000)
    assert [time_ms for poll in polls for time_ms in poll.timestamps_ms.tolist()] == [1_700_000_000_123] * 1_000


def test_a_full_poll_is_followed_at_once_by_the_next_and_an_empty_one_by_a_pause(feed):
    made = feed()
    made.send(numbered(50))
    reader = made.reader(most=10)
    assert read(reader, 10) == numbered(10)
    assert reader.delay_s <= 0
    assert read(reader, 40) == numbered(40, 10)
    reader.step()
    assert reader.delay_s > 0


def test_a_restored_checkpoint_reads_the_same_messages_again(feed):
    made = feed()
    made.send(numbered(100))
    reader = made.reader(most=30)
    assert read(reader, 30) == numbered(30)
    kept = reader.checkpoint()
    assert read(reader, 70) == numbered(70, 30)
    reader.restore(kept)
    assert read(reader, 70) == numbered(70, 30)
    assert reader.restriction.start == 100


def test_a_job_may_begin_at_a_kafka_time(feed):
    made = feed(partitions=2)
    for i in range(10):
        made.send(numbered(1, i), at_ms=1_700_000_000_000 + i * 1_000)
    assert starts(made.topic, 1_700_000_004_000) == [PartitionStart(0, 4, 2), PartitionStart(1, 0, 2)]
    assert starts(made.topic, 1_800_000_000_000)[0].offset == 10


# --- the watermark ------------------------------------------------------------------------------------------------


def test_the_watermark_is_the_newest_kafka_time_minus_the_lag_and_an_element_carries_the_one_before(feed):
    made = feed()
    reader = made.reader()
    made.send(numbered(3), at_ms=1_700_000_010_000)
    made.send(numbered(3), at_ms=1_700_000_007_000)  # older: moves nothing back
    first = []
    while reader.restriction.start < 6:
        first += reader.step()
    assert reader.watermark.micros == (1_700_000_010_000 - LAG_S * 1_000) * 1_000
    assert first[0].timestamp.micros < 0  # nothing was promised before
    made.send(numbered(1), at_ms=1_700_000_020_000)
    later = []
    while reader.restriction.start < 7:
        later += reader.step()
    assert later[0].timestamp.micros == (1_700_000_010_000 - LAG_S * 1_000) * 1_000


def test_an_empty_topic_follows_the_wall_clock_once_it_is_known_to_be_empty(feed):
    reader = feed().reader()
    reader.step()
    assert reader.watermark is None
    began_ms = now_ms()
    until_it(lambda: reader.watermark is not None, reader.step)
    assert began_ms <= reader.watermark.micros / 1_000 + LAG_S * 1_000 <= now_ms()


def test_an_idle_partition_with_unread_messages_does_not_follow_the_wall_clock(feed, monkeypatch):
    monkeypatch.setattr(kafka_partition, "POLL_WAIT_S", 0.0)
    made = feed()
    made.send(numbered(1), at_ms=1_700_000_000_000)
    reader = made.reader(most=1)
    read(reader, 1)
    promised = reader.watermark
    partition = reader.fn._open[0]
    partition._consumer.pause(partition._consumer.assignment())  # nothing arrives, though something is there
    made.send(numbered(1))
    assert step_for(reader, IDLE_S * 2 + 0.5) == []
    assert reader.watermark == promised


@pytest.mark.parametrize("absurd_ms", [YEAR_9999_MS, 2**63 - 1, 1])
def test_an_absurd_kafka_time_moves_nothing(feed, counters, absurd_ms):
    made = feed()
    made.send(numbered(1), at_ms=1_700_000_000_000)
    made.send(numbered(1), at_ms=absurd_ms)
    made.send(numbered(1), at_ms=1_700_000_001_000)
    reader = made.reader()
    assert len(read(reader, 3)) == 3
    assert reader.watermark.micros == (1_700_000_001_000 - LAG_S * 1_000) * 1_000
    assert counters[AHEAD] == (absurd_ms > now_ms())


def test_the_end_of_a_transaction_does_not_keep_a_partition_from_being_idle(feed, kafka):
    made = feed()
    producer = Producer({"bootstrap.servers": kafka.brokers, "transactional.id": made.name, "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(made.name, b"x", partition=0, timestamp=1_700_000_000_000)
    producer.commit_transaction(30)
    reader = made.reader()
    assert read(reader, 1) == [b"x"]
    began_us = 1_000 * (now_ms() - 1_000 * LAG_S)
    until_it(lambda: reader.watermark.micros > began_us, reader.step)
    assert reader.watermark.micros > began_us


# --- what goes wrong ----------------------------------------------------------------------------------------------


def away(feed, caplog, monkeypatch, seconds):
    """Stops the broker for a while under a reader; returns what was seen meanwhile, and the reader's log lines."""
    made = feed()
    made.send(numbered(5), at_ms=1_700_000_000_000)
    reader = made.reader()
    assert read(reader, 5) == numbered(5)
    promised = reader.watermark
    made.kafka.stop()
    try:
        with caplog.at_level(logging.WARNING, "hatstream"):
            assert step_for(reader, seconds) == []
            assert reader.watermark == promised  # silence is not emptiness
    finally:
        made.kafka.start()
    with caplog.at_level(logging.WARNING, "hatstream"):
        monkeypatch.setattr(kafka_partition, "RETURN_S", 3_600.0)
        monkeypatch.setattr(kafka_partition, "ASK_S", 60.0)  # one who is slow to answer is not away again
        assert step_for(reader, IDLE_S * 2 + 0.5) == []
        made.send([b"MARKER-OF-A-VEHICLE"])
        assert read(reader, 1) == [b"MARKER-OF-A-VEHICLE"]
        assert reader.watermark == promised  # what others kept meanwhile may still come
        monkeypatch.setattr(kafka_partition, "RETURN_S", 0.0)
        until_it(lambda: reader.watermark > promised, reader.step)
        assert reader.watermark > promised
    return [record.getMessage() for record in caplog.records if record.name.startswith("hatstream")]


@pytest.mark.slow
def test_a_broker_that_is_away_for_half_a_minute_is_waited_for_and_said_once(feed, caplog, monkeypatch):
    """50 s."""
    said = away(feed, caplog, monkeypatch, 30)
    assert len(said) == 2
    assert "no answer from a broker" in said[0]
    assert "answers again after" in said[1]
    assert not any("MARKER" in line for line in said)


def test_what_retention_removed_unread_is_counted_and_reading_goes_on(feed, counters, caplog):
    made = feed()
    made.send(numbered(100))
    reader = made.reader(most=10)
    kept = reader.checkpoint()
    place = TopicPartition(made.name, 0, 60)
    made.kafka.admin.delete_records([place])[place].result()
    reader.restore(kept)
    with caplog.at_level(logging.WARNING, "hatstream"):
        assert read(reader, 40) == numbered(40, 60)
    assert counters[REMOVED] == 60
    assert sum("retention removed 60 offsets" in record.getMessage() for record in caplog.records) == 1


def test_a_topic_that_is_not_there_is_an_error_that_names_it(kafka):
    with pytest.raises(KafkaSourceError, match=r"topic 'nowhere' at .*: it does not exist"):
        starts(Topic(brokers=kafka.brokers, name="nowhere"))


def test_a_broker_that_is_not_there_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(kafka_partition, "START_S", 0.5)
    with pytest.raises(KafkaSourceError, match=r"at 127.0.0.1:1: no answer from a broker"):
        starts(Topic(brokers="127.0.0.1:1", name="any"))


def test_a_topic_made_anew_is_refused_because_its_offsets_mean_other_messages(feed):
    made = feed()
    made.send(numbered(100))
    reader = made.reader()
    assert len(read(reader, 100)) == 100
    kept = reader.checkpoint()
    reader.fn.teardown()
    made.kafka.admin.delete_topics([made.name])[made.name].result()
    made_anew = []

    def make_anew():
        with suppress(KafkaException):  # while the old one is being deleted
            made.kafka.make_topic(made.name, 1)
            made_anew.append(True)

    until_it(lambda: made_anew, make_anew)
    made.send(numbered(10))
    again = made.reader()
    again.restore(kept)
    with pytest.raises(KafkaSourceError, match="ends at offset 10, but was read up to 100"):
        step_for(again, MOST_S)


@pytest.mark.parametrize(
    ("every_s", "is_busy"),
    [
        pytest.param(0.0, False, id="idle"),
        pytest.param(0.5, True, id="busy"),
        pytest.param(3_600.0, True, id="starts-again"),  # else it would go on without them until it asks next
    ],
)
def test_partitions_that_were_added_are_refused_because_nobody_would_read_them(feed, monkeypatch, every_s, is_busy):
    monkeypatch.setattr(kafka_partition, "PARTITIONS_EVERY_S", every_s)
    made = feed(partitions=2)
    reader = made.reader()
    made.kafka.admin.create_partitions([NewPartitions(made.name, 3)])[made.name].result()

    def step():
        if is_busy:
            made.send(numbered(1))
        reader.step()

    with pytest.raises(KafkaSourceError, match="it has 3 partitions now, and 2 are read"):
        until_it(lambda: False, step)


def test_passwords_are_not_shown_and_what_reading_depends_on_cannot_be_set():
    assert "secret" not in repr(Topic(brokers="b:1", name="t", settings={"sasl.password": "secret"}))
    with pytest.raises(ValueError, match=r"enable\.auto\.commit must not be set"):
        Topic(brokers="b:1", name="t", settings={"enable.auto.commit": "true"})


# --- whose clock --------------------------------------------------------------------------------------------------


def stamped_by(made, setting):
    wanted = ConfigEntry(SETTING, setting, incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, made.name, incremental_configs=[wanted])
    made.kafka.admin.incremental_alter_configs([topic])[topic].result()


def test_a_topic_that_producers_stamp_is_refused_where_counts_are_secret(feed, tmp_path, hatstream):
    made = feed()
    live = levels_city.SPEC.replace('layout = "csv"', 'layout = "jsonl"') + "[live]\nshare = 0.5\n"
    (tmp_path / "spec.toml").write_text(live)
    servers = ["--job-server", "127.0.0.1:1", "--worker-pool", "127.0.0.1:1", "--rest", "127.0.0.1:1"]
    source = ["--kafka", made.kafka.brokers, "--topic", made.name, "--ledger", tmp_path / "ledger.sqlite"]
    command = ["stream", "--spec", tmp_path / "spec.toml", *source, "--output", tmp_path / "out", *servers]
    said = " ".join(city.refused(hatstream, *command).split())
    assert "message.timestamp.type=CreateTime" in said
    assert "Set message.timestamp.type=LogAppendTime on the topic" in said
    stamped_by(made, "LogAppendTime")
    city.refused(hatstream, *command, code=3)  # the topic is right, and there is no account


@pytest.mark.parametrize(("setting", "taken"), [("CreateTime", 0), ("LogAppendTime", 3)])
def test_a_message_that_its_producer_stamped_is_refused_where_counts_are_secret(feed, setting, taken):
    made = feed(settings={SETTING: setting})
    made.send(numbered(3))
    reader = made.reader(by_own_times=True)
    batches = []
    while reader.restriction.start < 3:
        batches += [element.value for element in reader.step()]
    assert [payload for messages in batches for payload in messages.payloads] == numbered(taken)
    assert sum(messages.refused for messages in batches) == 3 - taken


def test_who_stamps_a_topic_that_is_not_there_is_not_known(kafka):
    with pytest.raises(KafkaSourceError, match="UNKNOWN_TOPIC_OR_PART"):
        check_clock(Topic(brokers=kafka.brokers, name="nowhere"))
