"""An event is late when its pane ended before its own partition's watermark; then it is a counted dead letter."""

import apache_beam as beam
import numpy as np
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from transforms.records import REFUSED, Observations, PackedEvents, Refused
from transforms.steps.observe import LATE, IntoPanes, IntoSlots, RefuseLate, is_late

SLOT_S = 3_600
START_S = 1_700_006_400 + 1_800  # Kolkata: slots begin at half past


def observations(*slots):
    start_us = np.array([(START_S + slot * SLOT_S) * 1_000_000 for slot in slots], np.int64)
    return Observations(*[start_us] * 7)


def test_a_slot_is_closed_when_the_watermark_reaches_its_last_millisecond():
    end_us = (START_S + SLOT_S) * 1_000_000
    assert is_late(observations(0), SLOT_S, end_us).all()
    assert is_late(observations(0), SLOT_S, end_us - 1_000).all()
    assert not is_late(observations(0), SLOT_S, end_us - 1_001).any()


def test_late_events_are_dead_letters_and_the_others_go_on():
    promised = Timestamp(START_S + 2 * SLOT_S)
    with beam.Pipeline(runner=FnApiRunner()) as p:
        batch = (
            p | beam.Create([TimestampedValue(observations(0, 1, 2, 3), promised)]) | beam.Map(lambda stamped: stamped)
        )
        judged = batch | RefuseLate(SLOT_S)
        kept = judged.observations | beam.Map(lambda o: (o.slot_start_us // 1_000_000).tolist())
        assert_that(kept, equal_to([[START_S + 2 * SLOT_S, START_S + 3 * SLOT_S]]))
        assert_that(judged[REFUSED], equal_to([Refused("lateness", LATE, 2)]), label="refused")


def test_events_land_in_the_window_of_their_slot_whatever_its_offset():
    def where(element, window=beam.DoFn.WindowParam):
        return element, int(window.start), int(window.end)

    with beam.Pipeline(runner=FnApiRunner()) as p:
        packed = p | beam.Create([PackedEvents((START_S + SLOT_S, 3), b"x", 1, START_S + SLOT_S)])
        paned = packed | IntoPanes(SLOT_S, START_S)
        assert paned.windowing.windowfn == FixedWindows(SLOT_S, 1_800)
        key = ((START_S + SLOT_S, 3), START_S + SLOT_S)
        assert_that(paned | beam.Map(where), equal_to([((key, b"x"), START_S + SLOT_S, START_S + 2 * SLOT_S)]))


def test_an_event_is_late_when_its_own_pane_has_closed_though_its_slot_is_open():
    early, now = observations(0), observations(0)._replace(event_us=observations(0).event_us + 600_000_000)
    promised_us = (START_S + 300) * 1_000_000
    assert is_late(early, 60, promised_us).all()
    assert not is_late(now, 60, promised_us).any()


def test_what_a_pane_gave_lands_in_the_window_of_its_slot():
    def grouped_at(element, window=beam.DoFn.WindowParam):
        return element[0], int(window.start), int(window.end)

    pane_s = START_S + SLOT_S - 60
    with beam.Pipeline(runner=FnApiRunner()) as p:
        packed = p | beam.Create([PackedEvents((START_S, 3), b"x", 1, pane_s)])
        panes = packed | IntoPanes(60, START_S) | beam.GroupByKey() | beam.Map(lambda g: (g[0][0], b"y"))
        slots = panes | IntoSlots(SLOT_S, START_S) | "by slot" >> beam.GroupByKey() | beam.Map(grouped_at)
        assert_that(slots, equal_to([((START_S, 3), START_S, START_S + SLOT_S)]))
