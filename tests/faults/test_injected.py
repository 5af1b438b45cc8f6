"""Failures at every place of the road: whatever happens there, one value per release id is ever seen."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import wraps
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.errors import DIFFERS, DONE, FAILED
from tests import city
from tests.faults.processes import Other, other_process
from tests.faults.small_town import Witness, passages
from transforms import atomic_files, tasks
from transforms.failpoints import NAMES, Action, acting
from transforms.ledger import ledger
from transforms.sinks import rows as publish
from transforms.sinks import steps as sinks
from transforms.steps import release

SLOTS, BUSY_SLOTS, FORMATS, FEEDS = 6, 4, ("parquet", "jsonl"), 2
SPENT = [6, 6]  # by the heaviest bus, in each period: three cells in each of two slots

SCOPES = {
    "slot": city.SPEC.replace("08:00-12:00", "08:00-11:00"),
    "period": city.SPEC.replace("08:00-12:00", "08:00-11:00").replace('per = "hat"', 'per = "hat"\nscope = "period"'),
}
PASSAGES = passages(slots=SLOTS, busy_slots=BUSY_SLOTS, files=SLOTS * len(FORMATS), feeds=FEEDS)
WAYS = ("failing", "tried-again", "overtaken")
STEPS = (
    (tasks, "observed"), (tasks, "tally_slot"), (tasks, "draw_units"), (release, "record_units"),
    (publish, "publish_recorded"),
)  # fmt: skip
HOLDING_A_LOCK = ("before-commit", "mid-file", "before-rename")  # places where another process has to wait for this one


class InjectedFault(Exception):
    """What goes wrong where a test wants it."""


@dataclass(frozen=True)
class Scenario:
    """way: what happens at the passage of the place. changed: whether the input is another one afterwards, or for the
    other process. apart: whether the other process publishes in a folder of its own."""

    way: str
    name: str
    passage: int
    scope: str
    changed: bool
    apart: bool

    def __str__(self) -> str:
        words = [self.way, f"{self.name}:{self.passage}", self.scope, "changed" * self.changed, "apart" * self.apart]
        return "-".join(filter(None, words))


def scenario(seed: int) -> Scenario:
    """Neighbouring seeds meet all places and all ways in turn; the rest is left to chance."""
    chance = random.Random(seed)
    way, name, scope = WAYS[seed % len(WAYS)], NAMES[seed % len(NAMES)], chance.choice(list(SCOPES))
    passage = chance.randint(1, PASSAGES[name])
    changed, apart = chance.random() < 0.5, chance.random() < 0.5
    return Scenario(way, name, passage, scope, changed, apart and way == "overtaken")


@dataclass
class Town:
    """A small city in two feeds, in two versions that differ in speeds; its ledger is open and a witness looks on."""

    folder: Path
    scope: str
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.folder / "ledger.sqlite", self.folder / "out", self.folder / "apart")
        city.write(self.folder, spec=SCOPES[self.scope])
        lines = [*city.rows(hours=range(8, 10)), f"PLATE9,{city.DAYS[0]}T08:59:00+05:30,91,72.83,5\n"]
        self._write_feeds("feeds", lines)
        self._write_feeds("changed", [_faster(line) for line in lines])
        assert main(city.init(self.folder)) == DONE

    def _write_feeds(self, name: str, lines: list[str]) -> None:
        (self.folder / name).mkdir()
        for number in range(FEEDS):
            (self.folder / name / f"{number}.csv").write_text(city.HEADER + "".join(lines[number::FEEDS]))

    def command(self, *, changed: bool = False, apart: bool = False) -> list[str]:
        arguments = city.release(self.folder, "--json")
        arguments[arguments.index("--input") + 1] = str(self.folder / ("changed" if changed else "feeds") / "*.csv")
        arguments[arguments.index("--output") + 1] = str(self.folder / ("apart" if apart else "out"))
        arguments[arguments.index("--formats") + 1] = ",".join(FORMATS)
        return arguments

    def release(self, *, changed: bool = False) -> int:
        code = main(self.command(changed=changed))
        self.witness.look()
        return code

    def release_again(self, *, changed: bool) -> None:
        """What is recorded stands; other input for it is reported."""
        differs = changed and bool(self.witness.recorded)
        assert self.release(changed=changed) == (DIFFERS if differs else DONE)
        self.look_at_the_end()

    def look_at_the_end(self) -> None:
        self.witness.look_at_the_end(slots=SLOTS, spent=SPENT, formats=FORMATS)


def _faster(line: str) -> str:
    start, _, speed = line.rpartition(",")
    return f"{start},{int(speed) + 1}\n"


def only_at(place: Scenario, action: Callable[[], object]) -> Action:
    def act(name: str, passage: int) -> None:
        if (name, passage) == (place.name, place.passage):
            action()

    return act


def fail() -> None:
    raise InjectedFault("wanted here")


def fails_and_runs_again(town: Town, place: Scenario) -> None:
    with acting(only_at(place, fail)), redirect_stderr(StringIO()) as said:
        assert town.release() == FAILED
    assert "(InjectedFault)" in said.getvalue()
    town.release_again(changed=place.changed)


def is_tried_again(town: Town, place: Scenario) -> None:
    """As an engine does that keeps nothing of a bundle's first attempt."""
    with pytest.MonkeyPatch.context() as patch, acting(only_at(place, fail)):
        repeated = _try_again(patch)
        assert town.release() == DONE
    assert len(repeated) == 1
    town.look_at_the_end()
    if place.changed:
        town.release_again(changed=True)


def _try_again(patch: pytest.MonkeyPatch) -> list[str]:
    """Does a step that failed once more with the same element. Returns where it lists those that failed."""
    repeated: list[str] = []
    for owner, step in STEPS:
        patch.setattr(owner, step, _trying_again(getattr(owner, step), repeated))
    patch.setattr(sinks, "publish_recorded", publish.publish_recorded)
    return repeated


def _trying_again(do: Any, repeated: list[str]) -> Any:
    @wraps(do)
    def twice(*given: object) -> object:
        given = tuple(map(_kept, given))
        try:
            return _finished(do(*given))
        except InjectedFault:
            repeated.append(do.__qualname__)
            return _finished(do(*given))

    return twice


def _kept(given: object) -> object:
    """Keeps what can be read once for the next attempt, as an engine keeps the input of a bundle."""
    if isinstance(given, Mapping):
        return {key: _kept(value) for key, value in given.items()}
    return _finished(given)


def _finished(done: object) -> object:
    """Takes a step to its end, before anybody sees what it yields."""
    return list(done) if isinstance(done, Iterator) else done


def is_overtaken(town: Town, place: Scenario, other: Other) -> None:
    """Another process, its noise drawn too, releases everything while this one stands there, or as soon as it may."""

    def overtake() -> None:
        other.go_on()
        if place.name not in HOLDING_A_LOCK:
            other.end()
            town.witness.look()

    other.start(town.command(changed=place.changed, apart=place.apart))
    try:
        with acting(only_at(place, overtake)):
            code = town.release()
        assert not other.stands, "the place was passed"
    finally:
        its_code = other.end()
    assert {code, its_code} in ([{DIFFERS}, {DONE, DIFFERS}] if place.changed else [{DONE}]), "who comes second is told"
    town.look_at_the_end()


def happen(place: Scenario, folder: Path, other: Other) -> None:
    town = Town(folder, place.scope)
    if place.way == "overtaken":
        is_overtaken(town, place, other)
    elif place.way == "tried-again":
        is_tried_again(town, place)
    else:
        fails_and_runs_again(town, place)


SHORT, LONG = [scenario(seed) for seed in range(39)], [scenario(seed) for seed in range(39, 1039)]


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    with other_process() as process:
        yield process


def test_the_short_list_meets_every_place_in_every_way():
    assert {(place.way, place.name) for place in SHORT} == set(product(WAYS, NAMES))


@pytest.mark.parametrize("scope", SCOPES)
def test_every_place_is_passed_as_often_as_these_tests_believe(tmp_path, scope):
    passed = Counter()
    with acting(lambda name, _: passed.update([name])):
        assert Town(tmp_path, scope).release() == DONE
    assert BUSY_SLOTS <= passed["tally"] <= 2 * BUSY_SLOTS
    assert passed | {"tally": BUSY_SLOTS} == {name: PASSAGES[name] for name in NAMES}


@pytest.mark.few(6)  # all take about 19 minutes of one core
@pytest.mark.parametrize("place", SHORT + LONG, ids=str)
def test_whatever_happens_at_a_place_nothing_is_lost_or_released_twice(tmp_path, other, place):
    happen(place, tmp_path, other)


@pytest.mark.few(1)
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("scope", SCOPES)
def test_an_undisturbed_release_can_be_repeated(tmp_path, scope, changed):
    town = Town(tmp_path, scope)
    assert town.release() == DONE
    town.release_again(changed=changed)


# the test on wrong code

FOUND_BY = [
    Scenario("failing", "after-commit", 1, "slot", False, False),
    Scenario("failing", "after-publish", 2, "period", False, False),
    Scenario("tried-again", "after-noise", 1, "slot", True, False),
    Scenario("overtaken", "before-record", 1, "slot", False, True),
    Scenario("overtaken", "after-noise", 1, "period", True, False),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("place", FOUND_BY, ids=str)
def test_a_ledger_whose_last_writer_wins_is_found_out(tmp_path, other, monkeypatch, place):
    record = ledger.Ledger.record

    def forgetful(self, account, limit, spec_name, spec_text, units):
        return record(self, account, limit, spec_name, spec_text, units)._replace(units=units)

    monkeypatch.setattr(ledger.Ledger, "record", forgetful)
    # The folder refuses other values of a release too: without it, the ledger's fault has to be seen alone.
    monkeypatch.setattr(publish, "refuse_other_values", lambda *_: None)
    with pytest.raises(AssertionError, match="two values"):
        happen(place, tmp_path, other)


def test_a_file_that_is_written_in_place_is_found_out(tmp_path, other, monkeypatch):
    monkeypatch.setattr(atomic_files, "replacing", lambda path, _mode: path.open("wb"))
    with pytest.raises(AssertionError, match="is not whole"):
        happen(Scenario("failing", "mid-file", 2, "slot", False, False), tmp_path, other)
