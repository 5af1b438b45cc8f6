"""hatstream stream: its command line, and its release of slots as they end."""

import json
import signal
from collections import Counter
from datetime import UTC, datetime

import pytest

from pipelines.account import location
from pipelines.errors import UsageError
from pipelines.inputs import range_of
from pipelines.job import Outputs, job_of
from pipelines.runs.stream import stream
from pipelines.runs.stream.stream import StreamFacts, check_endless, first_slot
from pipelines.specification import SpecificationError, load
from tests import city
from tests.stream.cluster import wait_for
from tests.stream.minutes import SLOTS, Running, Town, engine
from transforms.ledger.databases import database_of
from transforms.ledger.recording import LedgerAccount
from transforms.observe.vehicle_ids import Secret


@pytest.fixture
def town(tmp_path, postgres, kafka):
    return Town(tmp_path, postgres.new_database(), kafka)


def plans(unit):
    return [(released.cell, released.statistic, released.mechanism, released.plan) for released in unit.released]


def test_stream_and_scheduled_job_seal_the_same_slots_from_the_same_events_and_share_their_values(
    town, flink, pool, capsys
):
    """45 s."""
    with Running(town, *engine(flink, pool)) as stream:
        stream.wait_for(lambda: len(town.released()) == SLOTS, 90)
        wait_for(lambda: sum("slot" in line for line in stream.health()) >= SLOTS, 30)
        assert stream.stop() == (0, "")
    assert not any(flink.is_running(job.jid) for job in flink.jobs())

    streamed, apart = town.released(), town.apart()
    assert list(streamed) == town.slots == list(apart)
    for slot_s in town.slots:
        assert streamed[slot_s].digest == apart[slot_s].digest
        assert plans(streamed[slot_s]) == plans(apart[slot_s])
    assert [len(unit.released) for unit in streamed.values()] == [3, 3, 3, 3, 0, 3, 3, 3, 3, 3]

    spent = town.place.ledger.spent("minutes")
    capsys.readouterr()
    assert town.release() == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["slots_new"], summary["slots_that_differ_now"]) == (town.rows, 0, 0)
    assert town.place.ledger.spent("minutes") == spent
    for path in (town.folder / "scheduled").iterdir():
        assert path.read_bytes() == (town.folder / "out" / path.name).read_bytes()

    slots = Counter(line["slot"] for line in stream.health() if "slot" in line)
    assert slots.keys() >= {town.spec.timetable.text(slot) for slot in town.slots}
    assert set(slots.values()) == {1}
    assert "bus" not in json.dumps(stream.health())
    town.place.ledger.verify()


@pytest.mark.slow
def test_a_folder_is_streamed_with_servers_of_its_own_into_a_ledger_in_a_file(tmp_path):
    """60 s."""
    town = Town(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    folder = tmp_path / "in"
    folder.mkdir()
    with Running(town, "--local", source=["--folder", folder]) as stream:
        (tmp_path / "feed.jsonl").rename(folder / "feed.jsonl")
        stream.wait_for(lambda: len(town.released()) == SLOTS, 120)
        assert stream.stop(signal.SIGTERM) == (0, "")
    (folder / "feed.jsonl").rename(tmp_path / "feed.jsonl")
    town.check()


NOWHERE = ["--job-server", "127.0.0.1:1", "--worker-pool", "127.0.0.1:1", "--rest", "127.0.0.1:1"]


@pytest.fixture
def run(tmp_path, hatstream):
    """Runs `stream` on the folder `feed` with a changed specification: it refuses; returns what it said."""
    (tmp_path / "feed").mkdir()

    def stream(*options, code, spec=city.SPEC, source=("--folder", tmp_path / "feed"), engine=NOWHERE, opened=True):
        if opened:
            city.opened(tmp_path, hatstream, spec=spec)
        else:
            city.write(tmp_path, spec=spec)
        files = ["--spec", tmp_path / "spec.toml", "--ledger", tmp_path / "ledger.sqlite", "--output", tmp_path / "out"]
        return city.refused(hatstream, "stream", *files, *source, *engine, *options, code=code)

    return stream


PERIOD = city.changed(city.SPEC, ('per = "hat"', 'per = "hat"\nscope = "period"'))


def test_a_plan_of_a_whole_period_is_refused(run):
    said = run(spec=PERIOD, code=2)
    assert "privacy.scope = 'period'" in said
    assert "hatstream release" in said


@pytest.mark.parametrize(("zone", "minutes"), [("America/New_York", 120), ("Australia/Lord_Howe", 60)])
def test_slots_that_cannot_follow_the_clock_are_refused(run, zone, minutes):
    spec = city.changed(city.SPEC, ("Asia/Kolkata", zone), ("minutes = 60", f"minutes = {minutes}"))
    assert f"slot.minutes = {minutes}: {zone} changes its clock" in run(spec=spec, code=2)


def test_a_period_that_began_with_slots_that_could_not_follow_the_clock_is_refused(tmp_path):
    """Only whoever divides what a vehicle may spend needs these slots."""
    ever = city.changed(
        city.SPEC,
        ("Asia/Kolkata", "America/Mexico_City"), ("minutes = 60", "minutes = 120"),
        ('"vehicle-day"', '"vehicle-ever"\nsince = 2022-01-01\nuntil = 2030-01-01'),
    )  # fmt: skip
    start_s = int(datetime(2026, 3, 1, 6, tzinfo=UTC).timestamp())
    check_endless(city.loaded(tmp_path, ever), start_s)
    city.write(tmp_path, spec=ever.replace('per = "hat"', 'per = "period"'))
    with pytest.raises(SpecificationError, match="America/Mexico_City changes its clock on 2022-04-03"):
        check_endless(load(tmp_path / "spec.toml"), start_s)


def test_a_layout_that_is_no_message_is_refused_for_kafka(run):
    assert "messages must be one of" in run(source=("--kafka", "127.0.0.1:1", "--topic", "t"), code=2)


@pytest.mark.parametrize(
    ("source", "engine"),
    [
        ((), NOWHERE),
        (("--kafka", "127.0.0.1:1"), NOWHERE),
        (("--kafka", "127.0.0.1:1", "--topic", "t", "--folder", "feed"), NOWHERE),
        (("--folder", "feed"), []),
        (("--folder", "feed"), ["--local", *NOWHERE]),
        (("--folder", "feed"), NOWHERE[:4]),
    ],
)
def test_one_source_and_one_engine_must_be_named(run, source, engine):
    assert "give either" in run(source=source, engine=engine, code=1)


@pytest.mark.parametrize("address", ["http://127.0.0.1:8081", "127.0.0.1", "127.0.0.1:http", ":8081"])
@pytest.mark.parametrize("option", [0, 2, 4])
def test_an_address_that_is_none_is_refused_before_a_job_is_submitted(run, address, option):
    engine = list(NOWHERE)
    engine[option + 1] = address
    assert "is not like host:8081" in run(engine=engine, code=1)


def test_a_ledgers_file_is_that_of_the_folder_where_the_command_is_typed(tmp_path, monkeypatch):
    """Workers may stand in another one."""
    monkeypatch.chdir(tmp_path)
    for named in ("ledger.sqlite", "sqlite:///ledger.sqlite"):
        place = location.find(named, None)
        monkeypatch.chdir("/")
        assert database_of(place.url).path == tmp_path / "ledger.sqlite"
        monkeypatch.chdir(tmp_path)


def test_a_savepoint_is_for_a_cluster_that_goes_on_from_it(run):
    """Beam hands none to the cluster inside of its job server."""
    assert "--local starts a new one" in run("--savepoint", "file:///srv/savepoint-1", engine=["--local"], code=1)


def test_without_an_account_nothing_starts(run):
    assert "hatstream init" in run(opened=False, code=3)


def test_a_job_server_that_does_not_answer_is_named(run, monkeypatch):
    monkeypatch.setattr("pipelines.runs.flink.engine.ANSWER_S", 1)
    assert "no job server answers at 127.0.0.1:1" in run(code=4)


def test_the_first_slot_is_one_that_has_not_begun_unless_it_is_named(tmp_path):
    spec = city.loaded(tmp_path)

    def text(start, now):
        return spec.timetable.text(first_slot(spec, start, now))

    assert text(None, datetime(2026, 3, 1, 4, 30, 1, tzinfo=UTC)) == "2026-03-01T11:00:00+05:30"
    assert text(None, datetime(2026, 3, 1, 8, tzinfo=UTC)) == "2026-03-02T08:00:00+05:30"
    assert text("2026-03-01T09:00", datetime(2026, 3, 1, 8, tzinfo=UTC)) == "2026-03-01T09:00:00+05:30"
    with pytest.raises(UsageError, match="not on the edge"):
        first_slot(spec, "2026-03-01T09:20", datetime(2026, 3, 1, tzinfo=UTC))


def test_no_stream_starts_outside_of_its_accounts_life(run):
    spec = city.changed(city.SPEC, ('"vehicle-day"', '"vehicle-ever"\nsince = 2020-01-01\nuntil = 2021-01-01'))
    assert "lasts from 2020-01-01T00:00:00+05:30 to 2021-01-01T00:00:00+05:30" in run(spec=spec, code=3)


@pytest.mark.parametrize("per", ["hat", "period"])
@pytest.mark.parametrize("unit", ["vehicle-day", "vehicle-week", "vehicle-ever"])
def test_the_facts_of_a_slot_are_those_of_the_scheduled_job(tmp_path, per, unit):
    ever = "\nsince = 2026-03-01\nuntil = 2026-03-20" if unit == "vehicle-ever" else ""
    city.write(
        tmp_path, spec=city.changed(city.SPEC, ('per = "hat"', f'per = "{per}"'), ('"vehicle-day"', f'"{unit}"{ever}'))
    )
    spec = load(tmp_path / "spec.toml")
    book = LedgerAccount("", tmp_path, "small", 1, "", "")
    closed = job_of(
        spec, range_of(spec.timetable, "2026-03-02", "2026-03-15"), Secret(b"k" * 32), book, Outputs(tmp_path)
    )
    facts = StreamFacts(spec, min(closed.slots), max(closed.slots) + 1)
    assert dict(facts) == closed.slots
    assert len(facts) == len(closed.slots)


def test_another_specification_key_number_of_vehicle_shards_or_layout_is_another_stream_for_a_savepoint(
    tmp_path, monkeypatch
):
    spec, other = city.loaded(tmp_path), tmp_path / "other.toml"
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
