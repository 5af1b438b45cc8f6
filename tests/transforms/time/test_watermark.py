"""The watermark follows the transport's plausible times; under secret counts a report's own times decide."""

from itertools import pairwise, zip_longest

import numpy as np
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.stream.by_hand import ByHand, Counters
from transforms.counters import ROWS
from transforms.layouts import FIXED
from transforms.records import Messages, Refused
from transforms.sources.kafka import _Offsets, _ReadPartition, decode
from transforms.sources.kafka_partition import PartitionStart, Poll
from transforms.sources.topic import Topic
from transforms.time.watermark import CLOCK_ERROR_S, GUARD_S, RECEIVED_S, Watermark, element_time, newest_plausible_ms

NOW_MS = 1_800_000_000_000
RULE = Watermark(120)
ANY_MS = st.integers(-(2**63), 2**63 - 1)


def at(ms):
    return Timestamp(micros=ms * 1_000)


def ms(*values):
    return np.array(values, np.int64)


def test_it_lags_behind_the_newest_time():
    assert RULE.after(None, NOW_MS - 5_000, NOW_MS, idle=False) == at(NOW_MS - 125_000)


def test_it_lags_behind_the_wall_clock_when_idle():
    assert RULE.after(at(5), None, NOW_MS, idle=True) == at(NOW_MS - 120_000)


@given(promised=st.one_of(st.none(), st.integers(0, NOW_MS).map(at)), times=st.lists(ANY_MS), idle=st.booleans())
def test_it_never_goes_back_nor_beyond_the_wall_clock_minus_the_lag(promised, times, idle):
    promise = RULE.after(promised, newest_plausible_ms(ms(*times), NOW_MS), NOW_MS, idle)
    assert promised is None or promise >= promised
    assert promise is None or promise == promised or promise <= at(NOW_MS - 120_000)


@given(
    times=st.lists(st.integers(1, NOW_MS), min_size=1),
    absurd=st.lists(st.integers(NOW_MS + CLOCK_ERROR_S * 1_000 + 1, 2**63 - 1)),
)
def test_absurd_times_among_others_change_nothing(times, absurd):
    assert newest_plausible_ms(ms(*times, *absurd, 0, -1), NOW_MS) == max(times)


def test_a_time_within_a_clocks_error_counts_as_now():
    assert RULE.after(None, newest_plausible_ms(ms(NOW_MS + CLOCK_ERROR_S * 1_000), NOW_MS), NOW_MS, False) == at(
        NOW_MS - 120_000
    )


def test_an_element_carries_the_promise_before_it():
    assert element_time(None) == MIN_TIMESTAMP
    assert element_time(at(5)) == at(5)


START_S, LAG_S = 1_800_000_000, 60
OWN_RULE = Watermark(LAG_S, START_S, by_own_times=True)
TOPIC = Topic(brokers="nowhere:1", name="none")


class Scripted:
    """A partition whose polls are given: lists of (vehicle, when it was received in ms after the start).

    A third part that is false: the time is its producer's.
    """

    def __init__(self, polls):
        self.polls = list(polls)

    def poll(self, position, _most):
        messages = self.polls.pop(0)
        at_ms = START_S * 1_000 + 10**7
        times = np.array([START_S * 1_000 + ms for _, ms, *_ in messages], np.int64)
        by_broker = np.array([all(kind) for _, _, *kind in messages], np.bool_)
        return Poll([vehicle for vehicle, *_ in messages], times, by_broker, position + len(messages), 0, at_ms, False)


class Read(_ReadPartition):
    def __init__(self, polls):
        super().__init__(TOPIC, OWN_RULE, 10**6)
        self.partition = Scripted(polls)

    def _partition(self, _start):
        return self.partition


def late_from(polls):
    """(vehicle, received) -> from which time on its events are late; None -> how many messages nobody reads."""
    reader = ByHand(Read(polls), _Offsets(), PartitionStart(0, 0, 1))
    timestamps = {None: 0}
    for _ in polls:
        promised = OWN_RULE.first if reader.watermark is None else reader.watermark
        for stamped in reader.step():
            timestamps[None] += stamped.value.refused
            for vehicle, at_ms in zip(stamped.value.payloads, stamped.value.timestamps_ms.tolist(), strict=True):
                timestamps[vehicle, at_ms] = stamped.timestamp
                assert stamped.timestamp >= promised, "an engine may drop what is behind its watermark"
    return timestamps


MESSAGES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(200_000, 5_000_000)), min_size=1, max_size=30)


@given(MESSAGES, st.lists(st.integers(0, 30), max_size=4))
def test_a_vehicle_that_is_taken_out_of_a_partition_changes_nothing_for_the_others(messages, cuts):
    """A broker stamps what it appends, so times ascend; how reports fall into polls is the transport's."""
    messages = sorted(messages, key=lambda message: message[1])
    edges = sorted({0, len(messages), *(cut for cut in cuts if cut < len(messages))})
    polls = [messages[a:b] for a, b in pairwise(edges)]
    whole = late_from(polls)
    for out in "abcd":
        left = late_from([[message for message in poll if message[0] != out] for poll in polls])
        assert left == {key: time for key, time in whole.items() if not key or key[0] != out}


@given(MESSAGES, MESSAGES, st.integers(1, 5))
def test_messages_that_their_producers_stamped_are_refused_and_decide_nothing_for_others(received, made, size):
    """A producer's time may be any: of a report that was held up it is past when others have moved the watermark."""
    received = sorted(received, key=lambda message: message[1])
    mixed = [item for item in zip_longest(received, ((*message, False) for message in made)) for item in item if item]
    polls, alone = (
        [messages[start : start + size] for start in range(0, len(messages), size)] for messages in (mixed, received)
    )
    assert late_from(polls) == late_from(alone) | {None: len(made)}


def test_a_refused_message_is_a_dead_letter_of_its_own_kind(monkeypatch):
    counts = Counters(monkeypatch, "transforms.steps.metrics").counts
    element = Messages([], np.zeros(0, np.int64), refused=3)
    assert [out.value for out in decode(element, FIXED["gtfs-realtime"].layout)] == [
        Refused("read", "producer-time", 3)
    ]
    assert counts[ROWS] == 3


def test_a_report_is_late_when_its_pane_ended_longer_ago_than_is_allowed_when_it_was_received():
    received = np.array([0, 9_999, 10_000, 3_600_000], np.int64) + START_S * 1_000
    own = OWN_RULE.own_times(received) // 1_000_000 - START_S
    assert own.tolist() == [-LAG_S, -LAG_S, RECEIVED_S - LAG_S, 3_600 - LAG_S]


def test_the_watermark_lags_so_much_longer_that_what_is_in_time_has_open_windows():
    promised = OWN_RULE.after(OWN_RULE.first, START_S * 1_000 + 500_000, START_S * 1_000 + 900_000, idle=False)
    assert promised == Timestamp(START_S + 500 - LAG_S - GUARD_S)
    assert OWN_RULE.own_times(np.array([START_S * 1_000 + 500_000]))[0] >= promised.micros
    assert GUARD_S > RECEIVED_S


def test_what_comes_behind_the_watermark_is_told_and_times_that_are_absurd_stay_plausible():
    promised = Timestamp(START_S + 1_000)
    own = OWN_RULE.own_times(np.array([START_S * 1_000, (START_S + 2_000) * 1_000, -1, 2**63 - 1], np.int64))
    assert OWN_RULE.is_behind(promised, own).tolist() == [True, False, True, False]
    assert not OWN_RULE.is_behind(OWN_RULE.first, own).any()
    assert all(Timestamp(micros=int(us)) > MIN_TIMESTAMP for us in own)
