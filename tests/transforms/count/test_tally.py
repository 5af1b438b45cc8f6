"""By vehicle: duplicates, caps and sums, whatever the order, split or merge of the events."""

import hypothesis
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dpops.statistics import SQUARES, SUMS, Histogram
from transforms import wire
from transforms.count.tally import ContributionBound, admit_late, event_spans, merge_panes, tally, tally_pane
from transforms.records import BY_KEY, Observations
from transforms.wire import Events, joined, pack_events, pack_partial, split, unpack_events, unpack_partial

COLUMNS = (SUMS, SQUARES, Histogram(bins=5, upper_steps=50))
ROW = st.tuples(
    st.integers(0, 3),  # vehicle
    st.integers(0, 5),  # offset_us
    st.integers(-2, 2),  # lat_e7
    st.integers(-2, 2),  # lon_e7
    st.integers(0, 50),  # value
)


def events_of(rows):
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    vehicle, offset, lat, lon, value = columns
    return Events(vehicle, offset, lat, lon, lat * 5 + lon + 100, value)  # equal positions are equal cells


def as_lists(counted):
    table, duplicates = counted
    return [column.tolist() for column in (*table.keys(), *table.sums.values())], duplicates


@given(st.lists(ROW, max_size=40), st.randoms(use_true_random=False), st.booleans())
def test_any_order_gives_the_same_tally(rows, random, capped):
    cap = ContributionBound(max_cells=2, max_samples=2) if capped else None
    shuffled = random.sample(rows, len(rows))
    assert as_lists(tally(events_of(rows), 0, cap, COLUMNS)) == as_lists(tally(events_of(shuffled), 0, cap, COLUMNS))


@given(st.lists(ROW, max_size=40), st.integers(0, 40))
def test_any_split_into_batches_gives_the_same_tally(rows, cut):
    parts = [pack_events(events_of(rows[:cut])), pack_events(events_of(rows[cut:]))]
    assert as_lists(tally(unpack_events(parts), 0, None, COLUMNS)) == as_lists(tally(events_of(rows), 0, None, COLUMNS))


@given(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 6), st.booleans(), st.randoms(use_true_random=False))
def test_any_panes_give_the_tally_of_the_whole_slot(rows, pane_us, capped, random):
    cap = ContributionBound(max_cells=2, max_samples=2) if capped else None
    panes = [[row for row in rows if row[1] // pane_us == number] for number in range(6)]
    random.shuffle(panes)
    counted = [tally_pane(events_of(pane), cap, COLUMNS) for pane in panes]
    travelled = [unpack_partial(pack_partial(partial), () if capped else COLUMNS) for partial, _ in counted]
    merged = merge_panes(travelled, 7, cap, COLUMNS)
    assert as_lists((merged, sum(duplicates for _, duplicates in counted))) == as_lists(
        tally(events_of(rows), 7, cap, COLUMNS)
    )


LATE_ROW = st.tuples(ROW, st.sampled_from(["in time", "late", "both"]))


def pane_by_pane(rows, pane_us, cap):
    """As a stream counts rows of which some come when their pane is over: the merged tally, and how many it refused."""
    partials = []
    for number in range(6):
        pane = events_of([row for row, how in rows if row[1] // pane_us == number and how != "late"])
        partials.append(tally_pane(pane, cap, COLUMNS)[0]._replace(spans=event_spans(pane)))
    nothing, _ = tally_pane(wire.NO_EVENTS, cap, COLUMNS)
    partials += [nothing._replace(late=events_of([row])) for row, how in rows if how != "in time"]
    travelled = [unpack_partial(pack_partial(partial), () if cap else COLUMNS) for partial in partials]
    admitted, refused, _ = admit_late(travelled, cap, COLUMNS)
    return merge_panes(admitted, 7, cap, COLUMNS), refused


@given(st.lists(LATE_ROW, min_size=1, max_size=40), st.integers(1, 6), st.booleans())
def test_what_is_late_for_its_pane_counts_unless_its_vehicle_was_heard_of_before_and_after_it(rows, pane_us, capped):
    cap = ContributionBound(max_cells=2, max_samples=2) if capped else None
    in_time = [row for row, how in rows if how != "late"]
    late = [row for row, how in rows if how != "in time"]

    def may_be_copy(row):
        times = [other[1] for other in in_time if (other[0], other[1] // pane_us) == (row[0], row[1] // pane_us)]
        return bool(times) and min(times) <= row[1] <= max(times)

    merged, refused = pane_by_pane(rows, pane_us, cap)
    assert refused == sum(map(may_be_copy, late))
    whole = tally(events_of(in_time + [row for row in late if not may_be_copy(row)]), 7, cap, COLUMNS)
    assert as_lists((merged, 0))[0] == as_lists(whole)[0]


@given(st.lists(ROW, min_size=1, max_size=40), st.integers(0, 6), st.integers(0, 6), st.integers(1, 6))
def test_what_buses_without_a_network_send_later_counts_as_if_it_had_come_in_time(rows, gap_start, gap_us, pane_us):
    """A gap within one pane is an exception: there its vehicle was heard of before and after it."""
    gap = range(gap_start, gap_start + gap_us)
    is_within = gap_start // pane_us == (gap.stop - 1) // pane_us
    hypothesis.assume(not (is_within and gap_start % pane_us and gap.stop % pane_us))
    merged, refused = pane_by_pane([(row, "late" if row[1] in gap else "in time") for row in rows], pane_us, None)
    assert refused == 0
    assert as_lists((merged, 0))[0] == as_lists(tally(events_of(rows), 7, None, COLUMNS))[0]


@given(st.lists(ROW, max_size=40))
def test_every_event_three_times_changes_nothing_but_the_number_of_duplicates(rows):
    once, thrice = tally(events_of(rows), 0, None, COLUMNS), tally(events_of(rows * 3), 0, None, COLUMNS)
    assert as_lists(once)[0] == as_lists(thrice)[0]
    assert thrice[1] == once[1] + 2 * len(rows)


@given(st.permutations([(101, 50), (100, 9), (101, 0), (100, 12)]))
def test_of_rows_of_one_time_and_position_the_first_place_stays_whatever_their_speeds(places):
    """Headings led them to places of their own."""
    cell, value = np.array(places, np.int64).T
    same = np.ones(4, np.int64)
    table, duplicates = tally(Events(same, same, same, same, cell, value), 0, None, COLUMNS)
    assert (table.cell.tolist(), table.sums["sums"].tolist(), duplicates) == ([100], [9], 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([0, 1, 1_000, 199_999])), max_size=40))
def test_rows_by_key_are_copies_only_under_the_same_key_at_the_same_time(rows):
    vehicle, offset_us, key = np.array(rows, np.int64).reshape(-1, 3).T
    events = Events(vehicle, offset_us, np.full(len(rows), BY_KEY), key, key, np.zeros(len(rows), np.int64))
    table, duplicates = tally(events, 0, None, COLUMNS)
    assert (int(table.kept.sum()), duplicates) == (len(set(rows)), len(rows) - len(set(rows)))


@given(st.lists(ROW, max_size=40))
def test_every_row_is_kept_dropped_or_a_duplicate(rows):
    table, duplicates = tally(events_of(rows), 0, ContributionBound(max_cells=1, max_samples=2), COLUMNS)
    assert int(table.kept.sum() + table.dropped.sum()) + duplicates == len(rows)
    assert table.kept.max(initial=0) <= 2
    assert np.unique(table.vehicle[table.kept > 0], return_counts=True)[1].max(initial=0) <= 1


@given(st.lists(ROW, max_size=40), st.data())
def test_no_speed_decides_a_place_a_count_or_who_is_kept(rows, data):
    other = [(*row[:4], data.draw(st.integers(0, 50))) for row in rows]
    for cap in (None, ContributionBound(max_cells=1, max_samples=1)):
        first, second = (tally(events_of(listed), 0, cap, COLUMNS)[0] for listed in (rows, other))
        for name in ("vehicle", "cell", "kept", "dropped"):
            assert getattr(first, name).tolist() == getattr(second, name).tolist()


def test_of_two_rows_of_one_vehicle_and_time_the_smaller_position_stays_though_it_is_slower():
    table, duplicates = tally(events_of([(1, 5, 1, 0, 50), (1, 5, 0, 2, 3), (1, 5, 0, 1, 7)]), 0, None, COLUMNS)
    assert (table.cell.tolist(), table.sums["sums"].tolist(), duplicates) == ([101], [7], 2)


def test_the_cap_keeps_other_samples_in_another_slot_and_for_another_vehicle_hash():
    rows = [(vehicle, offset, 2 if offset % 2 else -2, 0, 1) for vehicle in range(4) for offset in range(6)]
    kept = [
        as_lists(tally(events_of(rows), slot_s, ContributionBound(max_cells=1, max_samples=9), COLUMNS))
        for slot_s in range(8)
    ]
    assert len({str(k) for k in kept}) > 1


def test_columns_travel_by_the_names_that_checkpoints_have():
    """A partial is four streams behind one another: entries, samples, when vehicles were heard of, late events."""
    events = events_of([(1, 2, 0, 0, 30)])
    names = ["vehicle", "offset_us", "lat_e7", "lon_e7", "cell", "speed"]
    assert pa.ipc.open_stream(pack_events(events)).schema.names == names
    source = pa.BufferReader(pack_partial(tally_pane(events, None, (SUMS,))[0]))
    travelled = [pa.ipc.open_stream(source).read_all().schema.names for _ in range(4)]
    entries, heard_of = ["vehicle", "cell", "reported", "sum of sums"], ["first_us", "last_us"]
    assert travelled == [entries, ["vehicle", "cell", "rank", "speed"], heard_of, names]


@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.integers(1, 6),
    st.integers(1, 4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_number_of_vehicle_shards_and_length_of_panes_gives_the_tally_of_the_whole(
    rows, shards, pane_s, capped, random
):
    """Cut as a stream cuts it: by slot, pane and shard; each shard merged by itself, their rows put together."""
    cap = ContributionBound(max_cells=2, max_samples=2) if capped else None
    shuffled = random.sample(rows, len(rows))
    vehicle, second, lat, lon, value = np.array(shuffled, np.int64).T
    observations = Observations(vehicle, second * wire.S_US, np.zeros(len(rows), np.int64), lat, lon, value, value)
    panes = {}
    for part in split(observations, lat * 5 + lon + 100, shards, pane_s):
        panes.setdefault(part.key[1], []).append(tally_pane(unpack_events([part.data]), cap, COLUMNS))
    merged = [merge_panes([partial for partial, _ in of_slot], 0, cap, COLUMNS) for of_slot in panes.values()]
    whole = joined(merged)
    whole = whole.take(np.lexsort((whole.cell, whole.vehicle)))
    duplicates = sum(copies for of_slot in panes.values() for _, copies in of_slot)
    seconds = [(row[0], row[1] * wire.S_US, *row[2:]) for row in rows]
    assert as_lists((whole, duplicates)) == as_lists(tally(events_of(seconds), 0, cap, COLUMNS))
