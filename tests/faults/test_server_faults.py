"""A ledger on a server that is killed, restarted, locked or full: one value per release id, or a clear refusal."""

import json
import os
import re
import signal
import threading
import time
import traceback
from contextlib import suppress
from fractions import Fraction

import psycopg
import pytest
import sqlalchemy as sa

from dpops.accountant import PureLimit
from pipelines.account import location
from tests import city
from tests.faults.processes import forks
from tests.servers import GUARDED
from tests.transforms.ledger.entries import opened, record, unit
from transforms.failpoints import VARIABLE
from transforms.ledger import chain, databases
from transforms.ledger.databases import database_of
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.recording import LedgerAccount


@pytest.fixture
def ledger(server_url, tmp_path):
    return opened(server_url, tmp_path / "key.head")


@pytest.fixture
def impatient(monkeypatch):
    """A ledger that tries twice again at once, and waits for other writers for a second."""
    monkeypatch.setattr(databases, "RETRY_WAITS_S", (0.1, 0.1))
    monkeypatch.setattr(databases, "BUSY_S", 1)


def integers(ledger, *, spec_id="a", period="day 1"):
    """The integer of every recorded slot; a second value for one would be an error here."""
    recorded = ledger.released(spec_id, period)
    integers_of = {one.slot_s: one.released[0].integers[0] for one in recorded}
    assert len(integers_of) == len(recorded)
    ledger.verify()
    return integers_of


def once_at(monkeypatch, place, event):
    """Runs `event` when `record` first passes a place."""
    passed = []

    def failpoint(name):
        if name == place and not passed:
            passed.append(name)
            event()

    monkeypatch.setattr("transforms.ledger.ledger.failpoint", failpoint)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("end", "place"),
    [("kill", "before-commit"), ("kill", "after-commit"), ("stop", "before-commit"), ("stop", "after-commit")],
)
def test_a_server_that_is_killed_and_started_again_keeps_one_value(ledger, postgres, monkeypatch, place, end):
    def restart():
        getattr(postgres, end)()
        postgres.start()

    once_at(monkeypatch, place, restart)
    first = record(ledger, unit(integer=7), unit(3600, integer=8))
    again = record(ledger, unit(integer=17), unit(3600, integer=18))
    assert (first.new, again.new, again.changed) == (2, 0, 0)
    assert first.units == again.units
    assert integers(ledger) == {0: 7, 3600: 8}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("place", "kept"), [("before-commit", 17), ("after-commit", 7)])
def test_while_the_server_is_down_nothing_is_said_and_a_rerun_finds_what_was_committed(
    ledger, postgres, monkeypatch, place, kept
):
    once_at(monkeypatch, place, postgres.kill)
    with pytest.raises(LedgerError, match="is not usable"):
        record(ledger, unit(integer=7))
    postgres.start()
    assert record(ledger, unit(integer=17)).units[0].released[0].integers == [kept]
    assert integers(ledger) == {0: kept}


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_of_unknown_outcome_is_looked_up_never_drawn_again(ledger, postgres, monkeypatch, committed):
    """The answer to the commit is lost; before the retry another process records the same slot."""
    commit, lost = psycopg.Connection.commit, []

    def lose_the_answer(connection):
        if lost:
            return commit(connection)
        lost.append(connection)
        (commit if committed else psycopg.Connection.rollback)(connection)
        postgres.kill()
        postgres.start()
        record(Ledger(ledger.url, ledger._head._path), unit(integer=8))
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(psycopg.Connection, "commit", lose_the_answer)
    told = record(ledger, unit(integer=7)).units[0].released[0].integers[0]
    assert told == (7 if committed else 8)
    assert integers(ledger) == {0: told}


def _record_and_die(url, head, place):
    os.environ[VARIABLE] = place
    record(Ledger(url, head), unit(integer=7))


@pytest.mark.parametrize(("place", "kept"), [("before-commit:1", 17), ("after-commit:1", 7)])
def test_a_process_that_is_killed_leaves_its_slot_to_others_or_whole(ledger, tmp_path, place, kept):
    process = forks().Process(target=_record_and_die, args=(ledger.url, tmp_path / "key.head", place))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    record(ledger, unit(integer=17))
    assert integers(ledger) == {0: kept}


def failing(ledger, state, times):
    """Makes the server refuse the next inserts with an SQLSTATE."""
    engine = database_of(ledger.url).engine(read_only=False)
    with engine.begin() as db:
        db.exec_driver_sql(f"""
            CREATE SEQUENCE passed;
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF nextval('passed') <= {times} THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END IF;
              RETURN NULL;
            END $$;
            CREATE TRIGGER refusing BEFORE INSERT ON entry EXECUTE FUNCTION refuse()
        """)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("state", ["40001", "40P01", "57P01", "08006"])
def test_what_may_pass_is_tried_again_whole_and_not_for_ever(ledger, state):
    failing(ledger, state, times=5)
    with pytest.raises(LedgerError, match="refused"):
        record(ledger, unit(integer=7))  # fails three times
    assert integers(ledger) == {}
    assert record(ledger, unit(integer=8)).new == 1  # twice, then passes
    assert integers(ledger) == {0: 8}


@pytest.mark.parametrize("state", ["53100", "42501", "57014"])
def test_what_does_not_pass_by_itself_is_refused_at_once(ledger, state):
    failing(ledger, state, times=1)
    with pytest.raises(LedgerError, match="refused"):
        record(ledger, unit(integer=7))
    assert integers(ledger) == {}


def test_a_writer_that_does_not_queue_is_met_by_the_unique_keys_and_a_retry(ledger):
    plain = sa.create_engine(sa.make_url(ledger.url).set(drivername="postgresql+psycopg"))
    with plain.connect() as rude:
        chain.append(rude, None, {"kind": "changed", "account": "city", "body": "{}"})
        told = []
        recording = threading.Thread(target=lambda: told.append(record(ledger, unit(integer=7))))
        recording.start()
        until = time.monotonic() + 20
        waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        with plain.connect() as watch:
            while not watch.execute(waiting).scalar() and time.monotonic() < until:
                watch.rollback()
                time.sleep(0.02)
        rude.commit()
        recording.join()
    plain.dispose()
    assert told[0].new == 1
    assert integers(ledger) == {0: 7}


@pytest.mark.usefixtures("impatient")
def test_a_writer_waits_for_another_only_so_long(ledger, tmp_path):
    waiter = Ledger(ledger.url, tmp_path / "key.head")
    with database_of(ledger.url).engine(read_only=False).begin(), pytest.raises(LedgerError, match="lock timeout"):
        record(waiter, unit())
    assert record(waiter, unit()).new == 1


def ensure_role(postgres, name, options=""):
    with suppress(psycopg.errors.DuplicateObject):
        postgres.execute(f"CREATE ROLE {name} LOGIN {options}")


def test_a_role_that_may_only_add_rows_is_enough(ledger, postgres, tmp_path):
    ensure_role(postgres, "appender")
    with database_of(ledger.url).engine(read_only=False).begin() as db:
        db.exec_driver_sql("GRANT SELECT, INSERT ON entry TO appender")
    appender = Ledger(ledger.url.replace("postgres@", "appender@"), tmp_path / "key.head")
    appender.create()
    assert record(appender, unit(integer=7)).new == 1
    assert integers(appender) == {0: 7}
    engine = database_of(appender.url).engine(read_only=False)
    with pytest.raises(sa.exc.ProgrammingError, match="permission denied"), engine.begin() as db:
        db.exec_driver_sql("UPDATE entry SET epsilon = '0'")


def test_whatever_the_server_s_defaults_a_writer_sees_the_writers_before_it_and_waits_for_the_disk(ledger, postgres):
    name = ledger.url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    with database_of(ledger.url).engine(read_only=False).begin() as db:
        settings = ("synchronous_commit", "transaction_isolation", "transaction_read_only")
        values = [db.exec_driver_sql(f"SHOW {setting}").scalar() for setting in settings]
    assert values == ["on", "read committed", "off"]


# At the command line.


@pytest.fixture
def town(server_url, tmp_path, monkeypatch):
    """A city whose ledger is an empty database; the key is in its folder."""
    city.write(tmp_path)
    monkeypatch.setenv("HATSTREAM_LEDGER", server_url)
    return tmp_path


def on_server(command, *more):
    """A city's command line for the ledger that the environment names."""
    index = command.index("--ledger")
    return [*command[:index], *command[index + 2 :], *more]


@pytest.fixture
def run(town, hatstream):
    """Runs init, release, show or verify; returns exit code, standard output, standard error."""
    key = ["--key", town / "town.key"]
    commands = {
        "init": on_server(city.init(town), *key),
        "release": on_server(city.release(town), *key),
        "show": ["ledger", "show", "--json", *key],
        "verify": ["ledger", "verify", *key],
    }
    return lambda name, *more: hatstream(*commands[name], *more)


def published(folder):
    return {path.name: path.read_bytes() for path in (folder / "out").glob("*")}


def test_a_release_on_a_server_is_made_once_shown_and_verified(run, town):
    assert run("release")[0] == 3, "without init"
    assert "ledger  postgresql://postgres@127.0.0.1" in city.done(run, "init")
    assert run("release")[0] == 0
    first = published(town)
    assert len(first) == 32
    said = city.done(run, "release", "--json")
    assert published(town) == first
    assert '"slots":4,"epsilon":9.0' in run("show")[1]
    whole, signatures, head = run("verify")[1].splitlines()
    assert (whole, signatures) == ("the ledger is whole: 14 entries", "all signatures were compared with the key")
    assert head == "the head file fits, and its signature was compared with the key"
    city.write(town, lines=[])
    former, again = json.loads(said), json.loads(run("release", "--json")[1])  # from the ledger
    assert (again["periods"], again["guarantee"]) == (former["periods"], former["guarantee"])
    assert [period["most_spent_by_a_vehicle"] for period in again["periods"]] == [9, 9]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("place", [pytest.param("before-commit", marks=pytest.mark.slow), "after-commit"])
def test_a_server_that_dies_during_a_release_publishes_nothing_of_it_and_a_rerun_all(
    run, town, postgres, monkeypatch, place
):
    assert run("init")[0] == 0
    once_at(monkeypatch, place, postgres.kill)
    err = city.refused(run, "release")
    assert "the ledger postgresql://postgres@127.0.0.1" in err
    assert "internal" not in err
    assert published(town) == {}
    for command in ("init", "release", "show", "verify"):
        assert run(command)[0] == 4, "while it is down"
    postgres.start()
    assert run("release")[0] == 0
    assert len(published(town)) == 32
    assert '"slots":4,"epsilon":9.0' in run("show")[1]
    assert run("verify")[0] == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update entry set epsilon = '1/7' where seq = 5", "entry 5 "),
        ("delete from entry where seq = 5", "entry 5 "),
        ("delete from entry where seq = 12", "rolled back"),
        ("delete from entry", "does not know this ledger"),
    ],
)
def test_a_changed_ledger_on_a_server_is_refused_and_verify_names_the_row(run, town, statement, said):
    for command in ("init", "release"):
        assert run(command)[0] == 0
    before = published(town)
    with database_of(os.environ["HATSTREAM_LEDGER"]).engine(read_only=False).begin() as db:
        db.exec_driver_sql(statement)
    assert said in city.refused(run, "verify")
    assert run("release")[0] in (3, 4)
    assert published(town) == before


def test_a_server_that_may_only_be_read_is_looked_at_but_not_written(run, town, postgres):
    assert run("init")[0] == 0
    name = os.environ["HATSTREAM_LEDGER"].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert run("show")[0] == run("verify")[0] == 0
    assert "read-only" in city.refused(run, "release")
    assert published(town) == {}


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["init", "release", "show", "verify"])
def test_a_password_is_never_shown(run, postgres, monkeypatch, command):
    ensure_role(postgres, GUARDED, "SUPERUSER PASSWORD 'ge:heim'")
    good, wrong = (
        os.environ["HATSTREAM_LEDGER"].replace("postgres@", f"{GUARDED}:{password}@")
        for password in ("ge%3Aheim", "falsch")
    )
    monkeypatch.setenv("HATSTREAM_LEDGER", good)
    assert run("init")[0] == 0
    said = [*run(command)]
    assert said[0] == 0
    monkeypatch.setenv("HATSTREAM_LEDGER", wrong)
    refused = run(command)
    assert refused[0] == 4
    assert "password authentication failed" in refused[2]
    monkeypatch.setenv("HATSTREAM_LEDGER", good.replace(f":{postgres.port}", ":1"))
    monkeypatch.setattr(databases, "RETRY_WAITS_S", ())
    unreachable = run(command)
    assert unreachable[0] == 4
    for secret in ("heim", "falsch"):
        assert secret not in repr([said, refused, unreachable])


@pytest.mark.parametrize("password", ["geheim", "127"])
def test_a_password_is_in_no_exception_and_no_description_of_a_place(monkeypatch, tmp_path, password):
    monkeypatch.setattr(databases, "RETRY_WAITS_S", ())
    place = location.find(f"postgresql://user:{password}@localhost:1/db", tmp_path / "key")
    with pytest.raises(LedgerError) as caught:
        place.ledger.check_head()
    book = LedgerAccount(place.url, place.head, "city", PureLimit(Fraction(1)), "name", "{}")
    told = "".join(traceback.format_exception(caught.value))
    assert "localhost" in told
    described = f"{place!r} {place.shown} {book!r} {place.ledger!r}".replace(str(tmp_path), "")
    described = re.sub(r" at 0x[0-9a-f]+", "", described)
    assert password not in f"{told} {described}"
