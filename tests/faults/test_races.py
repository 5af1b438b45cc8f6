"""Several jobs on one ledger at once: no disagreement, no overspend."""

import multiprocessing
import os
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from pipelines import custody
from pipelines.cli import main
from tests import city
from tests.transforms.test_ledger import ACCOUNT, unit
from transforms.head import Head
from transforms.ledger import AccountRefusal, Ledger

RACERS = 4


def _release(folder, output, barrier, answers):
    barrier.wait()
    run = city.release(folder)
    run[run.index("--output") + 1] = str(output)
    answers.put((main(run), {path.name: path.read_bytes() for path in sorted(output.iterdir())}))
    answers.close()
    answers.join_thread()
    os._exit(0)


def test_four_releases_at_once_publish_the_same_bytes_and_spend_once(tmp_path):
    city.write(tmp_path)
    assert main(city.init(tmp_path)) == 0
    context = multiprocessing.get_context("forkserver")
    barrier, answers = context.Barrier(RACERS), context.Queue()
    racers = [
        context.Process(target=_release, args=(tmp_path, tmp_path / f"out{i}", barrier, answers)) for i in range(RACERS)
    ]
    for racer in racers:
        racer.start()
    found = [answers.get(timeout=120) for _ in racers]
    for racer in racers:
        racer.join()
    assert [code for code, _ in found] == [0] * RACERS
    assert all(files == found[0][1] for _, files in found)
    ledger = custody.find(str(tmp_path / "ledger.sqlite"), None).ledger
    assert [float(spent.epsilon) for spent in ledger.spent("small")] == [9.0, 9.0]
    ledger.verify()


def _record(url, head, seed, barrier, answers):
    ledger = Ledger(url, head)
    chance = random.Random(seed)
    slots = list(range(300))
    chance.shuffle(slots)
    barrier.wait()
    seen, refused = {}, 0
    for slot in slots:
        spec_id = chance.choice("ab")
        try:
            done = ledger.record("city", Fraction(200), "name", "{}", [unit(slot, spec_id=spec_id, integer=seed)])
            seen[spec_id, slot] = done.sealed[0].released[0].integers[0]
        except AccountRefusal:
            refused += 1
    answers.put((seen, refused))


@pytest.mark.parametrize("limit", [200])
def test_racers_for_the_same_slots_agree_on_every_value_and_never_overspend(tmp_path, limit):
    url, head = f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head"
    Head(head).create()
    ledger = Ledger(url, head)
    ledger.create()
    ledger.open_account(replace(ACCOUNT, limit=str(limit)))
    context = multiprocessing.get_context("forkserver")
    barrier, answers = context.Barrier(RACERS), context.Queue()
    racers = [context.Process(target=_record, args=(url, head, seed, barrier, answers)) for seed in range(RACERS)]
    for racer in racers:
        racer.start()
    found = [answers.get(timeout=300) for _ in racers]
    for racer in racers:
        racer.join()
    agreed: dict[tuple[str, int], int] = {}
    for seen, _ in found:
        for key, integer in seen.items():
            assert agreed.setdefault(key, integer) == integer
    assert len(set(agreed.values())) > 1, "it was a race"
    assert sum(refused for _, refused in found) > 0, "the limit was met"
    assert sum(spent.epsilon for spent in ledger.spent("city")) == limit
    ledger.verify()


def _advance(path, racer, barrier):
    barrier.wait()
    for sequence in range(1, 26):
        Head(path).advance("shared", RACERS * sequence + racer, f"{racer}", "city")
        Head(path).advance(f"ledger {racer}", sequence, "h", f"account {racer}")


def test_racers_for_one_head_file_lose_nothing_and_never_step_back(tmp_path):
    path = tmp_path / "key.head"
    Head(path).create()
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(RACERS)
    racers = [context.Process(target=_advance, args=(path, racer, barrier)) for racer in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * RACERS
    known = Head(path).read_all()
    assert known.keys() == {"shared", *(f"ledger {racer}" for racer in range(RACERS))}
    assert known["shared"]["sequence"] == RACERS * 25 + RACERS - 1
    assert [known[f"ledger {racer}"]["sequence"] for racer in range(RACERS)] == [25] * RACERS
