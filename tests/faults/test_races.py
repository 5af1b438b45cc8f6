"""Several jobs on one ledger at once, and a ledger file that is full, locked, read-only, corrupt or replaced."""

import multiprocessing
import os
import random
import resource
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

import pytest
import sqlalchemy as sa

from dpops.accountant import PureLimit
from pipelines.account import location
from pipelines.cli import main
from tests import city
from tests.faults.processes import forks
from tests.transforms.ledger.entries import opened, record, unit
from transforms.ledger import databases
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal

RACERS = 4


def _release(folder, output, barrier, answers):
    barrier.wait()
    run = city.release(folder, end=city.DAYS[0])
    run[run.index("--output") + 1] = str(output)
    answers.put((main(run), {path.name: path.read_bytes() for path in sorted(output.iterdir())}))
    answers.close()
    answers.join_thread()
    os._exit(0)


def test_four_releases_at_once_publish_the_same_bytes_and_spend_once(tmp_path):
    city.write(tmp_path, lines=city.rows(city.DAYS[:1]))
    assert main(city.init(tmp_path)) == 0
    context = forks()
    barrier, answers = context.Barrier(RACERS), context.Queue()
    racers = [
        context.Process(target=_release, args=(tmp_path, tmp_path / f"out{i}", barrier, answers)) for i in range(RACERS)
    ]
    for racer in racers:
        racer.start()
    outcomes = [answers.get(timeout=120) for _ in racers]
    for racer in racers:
        racer.join()
    assert [code for code, _ in outcomes] == [0] * RACERS
    assert all(files == outcomes[0][1] for _, files in outcomes)
    ledger = location.find(str(tmp_path / "ledger.sqlite"), None).ledger
    assert [float(spent.epsilon) for spent in ledger.spent("small")] == [9.0]
    ledger.verify()


def _record(url, head, seed, race, barrier, answers):
    """Records all ids in an order of its own, a batch in a transaction; says what it was told, and who was refused."""
    ledger = Ledger(url, head)
    chance = random.Random(seed)
    batches = [batch for period in range(race.periods) for batch in race.batches(period, chance)]
    chance.shuffle(batches)
    barrier.wait()
    seen, refused = {}, 0
    for batch in batches:
        units = [unit(slot, period=f"day {slot // race.slots}", integer=seed) for slot in batch]
        try:
            done = ledger.record("city", PureLimit(Fraction(race.limit)), "name", "{}", units)
            seen |= {unit.slot_s: unit.released[0].integers[0] for unit in done.units}
        except AccountRefusal:
            refused += 1
        if batch is batches[0]:  # nobody has done with all of them before the others have begun
            barrier.wait()
    answers.put((seen, refused))


@dataclass(frozen=True)
class Race:
    """periods of so many slots each, a batch of them in a transaction, and the limit of a period."""

    periods: int
    slots: int
    batch: int
    limit: int

    def batches(self, period, chance):
        ids = range(period * self.slots, (period + 1) * self.slots)
        order = chance.sample(ids, self.slots)
        return [order[start : start + self.batch] for start in range(0, self.slots, self.batch)]

    def run(self, url, head):
        """Four processes for the same release ids: all are told the same values, and every limit holds."""
        ledger = opened(url, head, limit=str(self.limit))
        context = forks()
        barrier, answers = context.Barrier(RACERS), context.Queue()
        racers = [
            context.Process(target=_record, args=(url, head, seed, self, barrier, answers)) for seed in range(RACERS)
        ]
        for racer in racers:
            racer.start()
        outcomes = [answers.get(timeout=1200) for _ in racers]
        for racer in racers:
            racer.join()
        agreed: dict[int, int] = {}
        for integers, _ in outcomes:
            for slot, integer in integers.items():
                assert agreed.setdefault(slot, integer) == integer
        assert len(set(agreed.values())) > 1, "it was a race"
        assert sum(refused for _, refused in outcomes) > 0, "the limit was met"
        spent = ledger.spent("city")
        assert sum(period.slots for period in spent) == len(agreed), "what is recorded is what they were told"
        assert all(self.limit - self.batch < period.epsilon <= self.limit for period in spent)
        assert ledger.verify().entries >= len(agreed)


@pytest.mark.parametrize(
    "race",
    [
        Race(periods=2, slots=12, batch=1, limit=8),
        pytest.param(Race(periods=4, slots=100, batch=20, limit=70), marks=pytest.mark.slow),
        pytest.param(Race(periods=100, slots=100, batch=20, limit=70), marks=pytest.mark.slow),  # 2 to 3 minutes
    ],
    ids=["24 ids", "400 ids", "10,000 ids"],
)
def test_racers_for_the_same_slots_agree_on_every_value_and_never_overspend(ledger_url, tmp_path, race):
    race.run(ledger_url, tmp_path / "key.head")


def _advance(path, racer, barrier):
    barrier.wait()
    for sequence in range(1, 26):
        Head(path).advance("shared", RACERS * sequence + racer, f"{racer}", "city")
        Head(path).advance(f"ledger {racer}", sequence, "h", f"account {racer}")


def test_racers_for_one_head_file_lose_nothing_and_never_step_back(tmp_path):
    path = tmp_path / "key.head"
    Head(path).write({})
    context = forks()
    barrier = context.Barrier(RACERS)
    racers = [context.Process(target=_advance, args=(path, racer, barrier)) for racer in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * RACERS
    heads = Head(path).read_all()
    assert heads.keys() == {"shared", *(f"ledger {racer}" for racer in range(RACERS))}
    assert heads["shared"]["sequence"] == RACERS * 25 + RACERS - 1
    assert [heads[f"ledger {racer}"]["sequence"] for racer in range(RACERS)] == [25] * RACERS


@pytest.fixture
def town(tmp_path, hatstream, monkeypatch):
    """The small city with its account opened; its ledger waits for other writers only for a moment."""
    monkeypatch.setattr(databases, "BUSY_S", 0.2)
    return city.opened(tmp_path, hatstream)


@pytest.fixture
def refused(town, hatstream):
    """Runs a release that must be refused: exit code 4, nothing published, nothing recorded. Returns what it says."""

    def run():
        err = city.refused(hatstream, *city.release(town))
        assert not list((town / "out").glob("*"))
        assert "ledger" in err
        assert "internal" not in err
        return err

    return run


@pytest.fixture
def released(town, hatstream):
    """Runs the release again, which must be whole now, and paid for once."""

    def run():
        assert hatstream(*city.release(town))[0] == 0
        assert len(list((town / "out").glob("*"))) == 32
        shown = hatstream("ledger", "show", "--json", "--ledger", town / "ledger.sqlite")[1]
        assert shown.count('"epsilon":9.0') == 2
        assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0

    return run


def test_a_full_locked_or_read_only_ledger_releases_nothing_until_it_is_none(town, refused, released, monkeypatch):
    """Whoever holds it is waited for before."""

    def fill(connection, _record):
        connection.execute("pragma max_page_count = 1")  # which means: not one more than there are

    sa.event.listen(sa.Engine, "connect", fill)
    try:
        assert "full" in refused()
    finally:
        sa.event.remove(sa.Engine, "connect", fill)
    with closing(sqlite3.connect(town / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert "locked" in refused()
    access = os.access
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: "ledger.sqlite" not in str(path) and access(path, mode))
        assert "may not write" in refused()
    released()


def _record_within(url, head, size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        record(Ledger(url, head), unit(3600, digest="d" * 100_000))
    except LedgerError:
        os._exit(4)
    os._exit(0)


def test_a_file_that_may_not_grow_keeps_what_it_had(tmp_path):
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head")
    record(ledger, unit(integer=7))
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_record_within, args=(ledger.url, tmp_path / "key.head", 60_000))
    process.start()
    process.join(60)
    assert process.exitcode == 4
    assert ledger.verify().entries == 3
    assert record(ledger, unit(integer=8), unit(3600, integer=9)).new == 1


@pytest.mark.parametrize(
    ("offset", "exit_code"), [(0, 4), (100, 4), (4096, 4), (8192, 0)], ids=["header", "schema", "entries", "an index"]
)
def test_a_corrupt_file_is_refused(town, refused, hatstream, offset, exit_code):
    """An index is not part of the chain that `verify` walks; a release meets it."""
    whole = city.tamper(town).read_bytes()
    (town / "ledger.sqlite").write_bytes(whole[:offset] + b"KA01AB1234" * 300 + whole[offset + 3000 :])
    assert "KA01" not in refused()
    code, _, err = hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")
    assert (code, "KA01" in err) == (exit_code, False)


@pytest.mark.parametrize("kept", [0, 1000, 5000])
def test_a_file_that_was_cut_off_is_refused(town, refused, kept):
    whole = city.tamper(town).read_bytes()
    (town / "ledger.sqlite").write_bytes(whole[:kept])
    refused()


def test_init_says_when_a_vehicle_may_spend_two_budgets(town, hatstream):
    assert "beware" not in hatstream(*city.init(town))[1]
    spec = (town / "spec.toml").read_text()
    (town / "spec.toml").write_text(spec.replace('name = "small"', 'name = "renamed"'))
    said = "spends all their budgets; also here: 'small'\n"
    assert said in hatstream(*city.init(town))[1]
    (town / "spec.toml").write_text(spec.replace('name = "small"', 'name = "elsewhere"'))
    elsewhere = ["--ledger", town / "other.sqlite", "--key", town / "ledger.key"]
    assert "also here: 'renamed', 'small'\n" in hatstream(*city.init(town), *elsewhere)[1]
