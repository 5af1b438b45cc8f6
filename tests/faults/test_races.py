"""Several jobs on one ledger at once: no disagreement, no overspend."""

import os
import random
from dataclasses import dataclass
from fractions import Fraction

import pytest

from dpops.accountant import PureLimit
from pipelines.account import location
from pipelines.cli import main
from tests import city
from tests.faults.processes import forks
from tests.transforms.ledger.entries import opened, unit
from transforms.ledger.head import Head
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


def test_racers_for_the_same_slots_agree_on_every_value_and_never_overspend(ledger_url, tmp_path):
    Race(periods=2, slots=12, batch=1, limit=8).run(ledger_url, tmp_path / "key.head")


@pytest.mark.slow
def test_racers_that_record_many_slots_at_a_time_agree_and_never_overspend(ledger_url, tmp_path):
    Race(periods=4, slots=100, batch=20, limit=70).run(ledger_url, tmp_path / "key.head")


@pytest.mark.slow  # about 2 minutes on a file, 3 on a server
def test_four_racers_for_ten_thousand_ids_agree_and_never_overspend(ledger_url, tmp_path):
    Race(periods=100, slots=100, batch=20, limit=70).run(ledger_url, tmp_path / "key.head")


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
