"""One vehicle more, or at other speeds: on every road nothing public differs, and every vector keeps to its claim."""

from datetime import date

import pytest

from tests.noninterference import cases
from tests.noninterference.cases import CASES, SLOW
from tests.noninterference.world import apart, watched

ALWAYS = {"all-that-is-made-of-a-release", "release-public-counts", "strange-rows", "one-vehicle-alone"}
"""In each quick run, with one in PART of the others: which ones follows from the date. The slow form runs all."""
PART = 16
FELT = {
    "all-that-is-made-of-a-release", "all-that-is-made-of-a-release-public-counts", "published-public-counts",
    "followed", "library", "release-public-counts",
}  # fmt: skip
SMALL = {"library": (1, 1_500), "release-public-counts": (2, 1_500)}
"""Of roads that show less than 20 files and 3,000 bytes, how much: a day has a row for each of four cells."""
"""Where the vehicle is felt in what is drawn, and much is shown: else the gate would compare nothing with nothing."""


def is_slow(name: str, position: int, day: int) -> bool:
    return name not in ALWAYS and position % PART != day % PART


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * is_slow(name, position, date.today().toordinal()))
        for position, name in enumerate(CASES)
    ],
)
def test_nothing_public_follows_from_one_vehicle(name: str) -> None:
    case = CASES[name]()
    one, other = (watched(case.world.spec, feed, case.history) for feed in (case.world.feed, case.world.other))
    assert apart(one, other) == []
    if name in FELT:
        assert any(unit.released != same.released for unit, same in zip(one.offered, other.offered, strict=True))
        shown = [name for name in one.public if not name.startswith("ledger")]
        files, size = SMALL.get(name, (20, 3_000))
        assert len(shown) >= files
        assert sum(len(one.public[name]) for name in shown) > size
        assert all(value == b"0" for name, value in one.public.items() if "exit code" in name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_nothing_public_follows_from_one_vehicle_where_processes_share_the_work(name: str) -> None:
    assert SLOW[name]().differences() == []


def test_every_road_is_in_the_quick_form_of_some_day() -> None:
    for position, name in enumerate(CASES):
        assert not all(is_slow(name, position, day) for day in range(PART))


def test_worlds_that_differ_in_what_is_public_are_told_apart() -> None:
    case = cases.at_other_speeds(cases.OPEN, cases.Job())
    other = cases.with_and_without(cases.OPEN, cases.bus(), cases.Job()).world.other
    assert cases.differences(cases.World(cases.OPEN, case.world.feed, other), case.history)
