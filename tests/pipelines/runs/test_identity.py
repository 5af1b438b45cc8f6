"""A savepoint fits the stream that it is of: specification, key, number of vehicle shards, layout of what it holds."""

from pipelines.runs.stream import stream
from pipelines.specification import load
from tests import city
from transforms.observe.vehicle_ids import Secret


def test_another_specification_key_number_of_vehicle_shards_or_layout_is_another_stream_for_a_savepoint(
    tmp_path, monkeypatch
):
    city.write(tmp_path)
    spec, other = load(tmp_path / "spec.toml"), tmp_path / "other.toml"
    other.write_text(city.SPEC.replace("epsilon = 1.0", "epsilon = 2.0"))
    secret = Secret(bytes(32))
    identities = {
        *(stream.identity_of(spec, secret, number) for number in (1, 2, 4, 8)),
        stream.identity_of(load(other), secret, 2),
        stream.identity_of(spec, Secret(b"\x01" * 32), 2),
    }
    monkeypatch.setattr(stream, "PARTIAL_LAYOUT", stream.PARTIAL_LAYOUT + 1)
    identities.add(stream.identity_of(spec, secret, 2))
    assert len(identities) == 7
