"""`hatstream spec new` knows MDS telemetry in each body that it comes in, with speeds and without."""

import json
from datetime import datetime

import pytest

from companions.city.tests.circles import rows
from hatstream_city.draft.draft import draft
from pipelines.plan.counts import fullest_period
from pipelines.specification import load

PROVIDER = "2411d395-04f2-47c9-ab66-d09e9e3c3251"
BODIES = {
    "an agency's array": lambda rows: rows,
    "a provider's document": lambda rows: {"version": "2.0.0", "last_updated": 1, "ttl": 60, "telemetry": rows},
    "a document around data": lambda rows: {"version": "2.0.0", "data": {"telemetry": rows}, "links": {"next": None}},
}


def drafted(path):
    result = draft(path, adds_and_removes=True)
    (path.parent / "drafted.toml").write_text(result.toml)
    return result, load(path.parent / "drafted.toml")


def telemetry(speeds=True):
    """The circles of buses as telemetry."""
    for bus, time, lat, lon, kmh in rows():
        place = {"lat": lat, "lng": lon} | ({"speed": kmh / 3.6} if speeds else {})
        time_ms = round(datetime.fromisoformat(time).timestamp() * 1000)
        yield {
            "provider_id": PROVIDER,
            "device_id": bus,
            "telemetry_id": f"{bus}{time_ms}",
            "timestamp": time_ms,
            "location": place,
        }


@pytest.mark.few(2)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("speeds", [True, False])
def test_a_draft_knows_it_and_reads_the_sample(body, speeds, tmp_path):
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(BODIES[body](list(telemetry(speeds)))))
    result, spec = drafted(path)
    assert 'layout = "mds"\n' in result.toml
    assert "columns" not in result.toml
    assert ("derived_speed" in result.toml) is not speeds
    assert fullest_period(spec, str(path), lambda *_: None).observations.event_us.size == len(rows())


def test_an_agency_of_mds_1_is_drafted_with_its_own_columns(tmp_path):
    body = [
        {**{name: value for name, value in row.items() if name != "location"}, "gps": row["location"]}
        for row in telemetry()
    ]
    path = tmp_path / "sample.json"
    path.write_text(json.dumps({"provider_id": PROVIDER, "data": body}))
    result, spec = drafted(path)
    assert 'records = "data"' in result.toml
    assert spec.input.columns["lat"] == "gps.lat"
    assert fullest_period(spec, str(path), lambda *_: None).observations.event_us.size == len(rows())
