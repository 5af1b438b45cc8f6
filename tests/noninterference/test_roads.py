"""One vehicle more, or at other speeds: on every road nothing public differs, and every vector keeps to its claim.

The roads are of all that a specification may ask for: each layout, accounting, product and format is in the table.
"""

import re
from datetime import date
from typing import get_args

import pytest

from dpops.claims import Accounting
from tests.noninterference import cases
from tests.noninterference.cases import CASES, PAST, SLOW
from tests.noninterference.roads import EVERY_FORMAT
from tests.noninterference.world import apart, watched
from transforms.layouts import FIXED, MAPPED
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.rows import FORMATS

ALWAYS = {"all-that-is-made-of-a-release", "release-public-counts", "strange-rows", "one-vehicle-alone"}
"""In each quick run, with one in PART of the others: which ones follows from the date. The slow form runs all."""
PART = 16
FELT = {
    "all-that-is-made-of-a-release", "all-that-is-made-of-a-release-public-counts", "published-public-counts",
    "followed", "library", "release-public-counts",
}  # fmt: skip
"""Where the vehicle is felt in what is drawn, and much is shown: else the gate would compare nothing with nothing."""
SMALL = {"library": (1, 1_500), "release-public-counts": (2, 1_500)}
"""Of roads that show less than 20 files and 3,000 bytes, how much: a day has a row for each of four cells."""


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


DEFAULTS = {"accounting": "zcdp"}
KINDS = {"layout": {*FIXED, *MAPPED}, "accounting": {*get_args(Accounting)}, "product": {*PRODUCTS}}


def in_table(key: str) -> set[str]:
    """Values of a key in the specifications of all cases."""
    specs = {case().world.spec for case in (*CASES.values(), *PAST.values(), *SLOW.values())}
    return {name for spec in specs for name in re.findall(rf'^{key} = "([\w-]+)"', spec, re.MULTILINE)} | {
        DEFAULTS[key] for key in {key} & {*DEFAULTS}
    }


@pytest.mark.parametrize("key", KINDS)
def test_every_kind_that_exists_is_in_the_table(key: str) -> None:
    assert KINDS[key] - in_table(key) == set(), "add a case to tests/noninterference/cases.py"


def test_every_format_of_files_is_in_the_table() -> None:
    assert {*FORMATS} - {*EVERY_FORMAT} == set()
