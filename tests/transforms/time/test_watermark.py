"""The watermark follows the transport's plausible times and the wall clock, and never goes back."""

import numpy as np
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from transforms.time.watermark import CLOCK_ERROR_S, Watermark, element_time, newest_plausible_ms

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
