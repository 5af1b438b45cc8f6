"""The watermark follows plausible times of the transport, under secret counts a report's own; what closed is late."""

from itertools import pairwise, zip_longest

import apache_beam as beam
import numpy as np
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.stream.by_hand import ByHand, Counters
from transforms.counters import ROWS
from transforms.layouts import FIXED
from transforms.records import REFUSED, Messages, Observations, PackedEvents, Refused
from transforms.sources.kafka import _Offsets, _ReadPartition, decode
from transforms.sources.kafka_partition import PartitionStart, Poll
from transforms.sources.topic import Topic
from transforms.steps.observe import LATE, IntoPanes, IntoSlots, RefuseLate, is_late
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


def late_from(polls):
    """(vehicle, received) -> from which time on its events are late; None -> how many messages nobody reads."""
    reader = ByHand(_ReadPartition(TOPIC, OWN_RULE, 10**6), _Offsets(), PartitionStart(0, 0, 1))
    reader.fn._open[0] = Scripted(polls)
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
    own = OWN_RULE.own_watermarks(received) // 1_000_000 - START_S
    assert own.tolist() == [-LAG_S, -LAG_S, RECEIVED_S - LAG_S, 3_600 - LAG_S]


def test_the_watermark_lags_so_much_longer_that_what_is_in_time_has_open_windows():
    promised = OWN_RULE.after(OWN_RULE.first, START_S * 1_000 + 500_000, START_S * 1_000 + 900_000, idle=False)
    assert promised == Timestamp(START_S + 500 - LAG_S - GUARD_S)
    assert OWN_RULE.own_watermarks(np.array([START_S * 1_000 + 500_000]))[0] >= promised.micros
    assert GUARD_S > RECEIVED_S


def test_what_comes_behind_the_watermark_is_told_and_times_that_are_absurd_stay_plausible():
    promised = Timestamp(START_S + 1_000)
    own = OWN_RULE.own_watermarks(np.array([START_S * 1_000, (START_S + 2_000) * 1_000, -1, 2**63 - 1], np.int64))
    assert OWN_RULE.is_behind(promised, own).tolist() == [True, False, True, False]
    assert not OWN_RULE.is_behind(OWN_RULE.first, own).any()
    assert all(Timestamp(micros=int(us)) > MIN_TIMESTAMP for us in own)


# --- An event is late when its pane ended before its own partition's watermark. ---------------------------------------


SLOT_S = 3_600
HALF_PAST_S = 1_700_006_400 + 1_800  # Kolkata: slots begin at half past


def observations(*slots):
    start_us = np.array([(HALF_PAST_S + slot * SLOT_S) * 1_000_000 for slot in slots], np.int64)
    return Observations(*[start_us] * 7)


def test_a_slot_is_closed_when_the_watermark_reaches_its_last_millisecond():
    end_us = (HALF_PAST_S + SLOT_S) * 1_000_000
    assert is_late(observations(0), SLOT_S, end_us).all()
    assert is_late(observations(0), SLOT_S, end_us - 1_000).all()
    assert not is_late(observations(0), SLOT_S, end_us - 1_001).any()


def test_late_events_are_dead_letters_and_the_others_go_on():
    promised = Timestamp(HALF_PAST_S + 2 * SLOT_S)
    with beam.Pipeline(runner=FnApiRunner()) as p:
        batch = (
            p | beam.Create([TimestampedValue(observations(0, 1, 2, 3), promised)]) | beam.Map(lambda stamped: stamped)
        )
        judged = batch | RefuseLate(SLOT_S)
        kept = judged.observations | beam.Map(lambda o: (o.slot_start_us // 1_000_000).tolist())
        assert_that(kept, equal_to([[HALF_PAST_S + 2 * SLOT_S, HALF_PAST_S + 3 * SLOT_S]]))
        assert_that(judged[REFUSED], equal_to([Refused("lateness", LATE, 2)]), label="refused")


def test_events_land_in_the_window_of_their_slot_whatever_its_offset():
    def where(element, window=beam.DoFn.WindowParam):
        return element, int(window.start), int(window.end)

    with beam.Pipeline(runner=FnApiRunner()) as p:
        packed = p | beam.Create([PackedEvents((HALF_PAST_S + SLOT_S, 3), b"x", 1, HALF_PAST_S + SLOT_S)])
        paned = packed | IntoPanes(SLOT_S, HALF_PAST_S)
        assert paned.windowing.windowfn == FixedWindows(SLOT_S, 1_800)
        key = ((HALF_PAST_S + SLOT_S, 3), HALF_PAST_S + SLOT_S)
        assert_that(paned | beam.Map(where), equal_to([((key, b"x"), HALF_PAST_S + SLOT_S, HALF_PAST_S + 2 * SLOT_S)]))


def test_an_event_is_late_when_its_own_pane_has_closed_though_its_slot_is_open():
    early, now = observations(0), observations(0)._replace(event_us=observations(0).event_us + 600_000_000)
    promised_us = (HALF_PAST_S + 300) * 1_000_000
    assert is_late(early, 60, promised_us).all()
    assert not is_late(now, 60, promised_us).any()


def test_what_a_pane_gave_lands_in_the_window_of_its_slot():
    def grouped_at(element, window=beam.DoFn.WindowParam):
        return element[0], int(window.start), int(window.end)

    pane_s = HALF_PAST_S + SLOT_S - 60
    with beam.Pipeline(runner=FnApiRunner()) as p:
        packed = p | beam.Create([PackedEvents((HALF_PAST_S, 3), b"x", 1, pane_s)])
        panes = packed | IntoPanes(60, HALF_PAST_S) | beam.GroupByKey() | beam.Map(lambda g: (g[0][0], b"y"))
        slots = panes | IntoSlots(SLOT_S, HALF_PAST_S) | "by slot" >> beam.GroupByKey() | beam.Map(grouped_at)
        assert_that(slots, equal_to([((HALF_PAST_S, 3), HALF_PAST_S, HALF_PAST_S + SLOT_S)]))
