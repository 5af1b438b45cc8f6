"""Distributions under a small total: what a specification may say, what is recorded, and what rows say."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from pipelines.specification import SpecificationError, load
from tests.city import loaded
from tests.levels_city import CELLS, DAYS, SPEC, opened
from tests.pipelines.commands.releases import entries, released, rows_of, sums_of
from transforms.recorded.stage_plan import as_stored, part_of, stage_of
from transforms.recorded.units import StageUnit
from transforms.releases.periods.products import DISTRIBUTION

BESIDE = '[[statistic]]\nname = "distribution"\nmechanism = "levels"\n'
PRODUCTS = '[[output]]\nproduct = "days"\n[[output]]\nproduct = "cell-part"\nparts = ["08:00-10:00"]\n'
PLACES = "[places]\nresolution = 9\n"


def with_classes(more: str = "", spec: str = SPEC) -> str:
    return spec.replace("[input]", BESIDE + more + "[input]")


def of_classes(folder: Path) -> list[StageUnit]:
    return [entry.unit for entry in entries(folder) if part_of(entry.unit) == "classes"]


def test_each_day_has_a_stage_of_classes_under_its_one_debit_and_rows_say_what_it_teaches(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=with_classes("classes = 6\n") + PRODUCTS + PLACES)
    summary = released(tmp_path, hatstream, end=DAYS[1])
    shares = [[stage["share"] for stage in period["stages"]] for period in summary["periods"]]
    assert [of_day[-2:] for of_day in shares] == [["1/5", "3/10"]] * 2, "each has its own share of the total"
    assert [sum(map(Fraction, of_day)) for of_day in shares] == [1, 1]
    units, spec = of_classes(tmp_path), load(tmp_path / "spec.toml")
    assert [len(unit.integers) for unit in units] == [2 * len(CELLS) * 6] * 2
    stage = stage_of(units[0], spec.cells.region or ())
    assert as_stored(stage) == units[0].plan
    assert stage.levels[0].size == len(CELLS) * 6
    for product in ("days", "cell-part"):
        (day,) = (tmp_path / "out").glob(f"{product}-*-20220102T*.csv")
        rows = rows_of(day)
        assert {row["cell"] for row in rows} == set(CELLS)
        assert set(DISTRIBUTION) <= set(rows[0])
        assert {row["statistic"] for row in rows} == {"mean"}
    rows = [row for row in sums_of(tmp_path, hatstream) if row["level"].startswith("class")]
    assert [row["level"] for row in rows[:6]] == [f"class {low} to {high}" for low, high in pairwise(EDGES)]
    assert [row["cell"] for row in rows] == [cell for cell in sorted(CELLS) for _ in range(6)]
    assert not any(row["speed"] for row in rows)


EDGES = ("0", "1", "13.8", "26.6", "39.4", "52.2", "65")


def test_classes_and_their_share_decide_the_id_and_nothing_does_where_there_are_none(tmp_path):
    options = ("", "share = 0.1\n", "classes = 9\n")
    specs = [loaded(tmp_path, SPEC), *(loaded(tmp_path, with_classes(option)) for option in options)]
    assert len({spec.spec_id for spec in specs}) == len(specs)
    assert "distribution" not in specs[0].text
    assert loaded(tmp_path, with_classes("share = 0.2\nclasses = 8\n")).spec_id == specs[1].spec_id


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (with_classes("share = 1\n"), "share must be above 0 and below 1; it is 1"),
        (with_classes("classes = 5\n"), "classes must be 6 to 10; it is 5"),
        (with_classes("shares = 0.2\n"), "did you mean 'share'"),
        (with_classes("share = 0.7\n") + PLACES, "must leave the mean a part of the total beside places"),
        (with_classes() + "[live]\n", r"goes without \[live\]"),
        (with_classes().replace("upper_kmh = 65", "upper_kmh = 7"), "upper bound above 8 km/h"),
        (with_classes().replace('"add-remove"', '"counts-public"'), "goes with account.adjacency = 'add-remove'"),
        (SPEC.replace('"mean"', '"distribution"'), "must be 'mean' alone, or with"),
        (
            SPEC.replace("[input]", BESIDE.replace("distribution", "variance") + "[input]"),
            "must be 'mean' alone, or with",
        ),
    ],
)
def test_what_distributions_may_not_be_is_refused_in_one_sentence(tmp_path, spec, said):
    with pytest.raises(SpecificationError, match=said):
        loaded(tmp_path, spec)
