"""A savepoint fits the stream that it is of: its specification, its key and its number of vehicle shards."""

from pipelines.job import VEHICLE_SHARDS
from pipelines.streaming.stream import _identity


def test_another_number_of_vehicle_shards_is_another_stream_for_a_savepoint():
    assert _identity("spec-key", VEHICLE_SHARDS) == "spec-key", "as before there was a choice"
    assert len({_identity("spec-key", number) for number in (1, 2, 4, 8)}) == 4
