"""What an evaluation of learned estimates shows: tables that fit a terminal, and pictures."""

import io
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from dpops.levels import Fleet, Rows
from dpops.types import Grid
from hatstream_lab.evaluation import learned_tables as tables
from hatstream_lab.evaluation.learned_errors import Coverage, Errors, Evaluated
from hatstream_lab.evaluation.learned_pictures import draw_learned
from hatstream_lab.evaluation.products import ProductErrors
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, half_of, true_day

NOTHING = np.zeros(0, np.int64)
DAYS = [
    TrueDay(f"2016-11-{day}", Rows(*[NOTHING] * 5), (0,), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    for day in range(21, 30)
]
CITY = TrueCity((1,), Grid(step=Fraction(1, 100), upper_steps=6_500), Fleet(), DAYS, made_region=True)


def errors(what: str, total: str = "-", delta: str | None = None, rows: float = 4.0) -> Errors:
    by_day = [None, *[rows] * (len(DAYS) - 1)]
    return Errors(
        what=what, total=total, delta=delta, hats=10.0, rows=rows, from_10=3.0, from_30=2.0, held_back=0.25,
        by_class=[14.0, 10.0, 5.0, rows], rows_by_day=by_day, worst_day=0.9, feed=0.8,
    )  # fmt: skip


def covered(total: str, delta: str | None) -> Coverage:
    return Coverage(total=total, delta=delta, by="predicted", least=10, most=30, hats=900, held=0.95, half_width=7.5)


PAIRS = [(total, delta) for total in ("1", "2.64", "10") for delta in (None, "1e-06")]
FOUND = Evaluated(
    [errors("constant"), errors("no noise", rows=3), *(errors("causal", *pair, rows=4.5) for pair in PAIRS)],
    [covered(*pair) for pair in PAIRS],
    [
        ProductErrors(
            total="1", delta=None, product="city-hour", rows=90, error=1.2, half_width=3, held=0.95, held_reports=0.9
        )
    ],
)


@pytest.mark.parametrize(
    "table",
    [
        tables.error_table(FOUND.errors),
        tables.class_table(FOUND.errors),
        tables.day_table(FOUND.errors, CITY),
        tables.coverage_table(FOUND.coverage),
        tables.product_table(FOUND.products),
    ],
)
def test_a_table_of_three_totals_and_nine_days_fits_80_columns_and_breaks_no_word(table) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("│")]
    assert all(line.split("│")[1].strip() for line in lines), "no row goes on in a second line"


def test_a_class_that_is_worse_than_the_constant_is_marked() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(tables.class_table(FOUND.errors))
    assert "4.50*" in out.getvalue()
    assert "10.00*" not in out.getvalue()


def test_pictures_are_small_and_have_something_on_them(tmp_path: Path) -> None:
    for path in draw_learned(FOUND, CITY, tmp_path):
        assert path.stat().st_size < 60_000
        assert len(Image.open(path).convert("RGB").getcolors() or []) > 5


def test_there_is_no_picture_of_intervals_where_no_hat_is_known(tmp_path: Path) -> None:
    nothing = Evaluated([errors("constant"), errors("no noise"), replace(errors("causal", "1"), rows=None)])
    assert [path.name for path in draw_learned(nothing, CITY, tmp_path)] == ["learned-totals.png", "learned-days.png"]


def test_half_of_a_city_has_half_of_each_days_vehicles_and_their_own_means() -> None:
    """Of 7 vehicles 4: a HAT of one vehicle that is not among them has no mean."""
    vehicles = np.arange(7)
    rows = Rows(vehicles, 0 * vehicles, vehicles, 1 + 0 * vehicles, 1000 * (1 + vehicles))
    day = true_day("2016-11-21", rows, range(7), 1, CITY.grid)
    (half,) = half_of(replace(CITY, days=[day])).days
    assert half.vehicles.sum() == half.reports.sum() == 4
    assert np.array_equal(np.isnan(half.means), half.vehicles == 0)
    assert np.array_equal(half.means[half.vehicles > 0], day.means[half.vehicles > 0])
    (again,) = half_of(replace(CITY, days=[day])).days
    assert np.array_equal(again.rows.vehicle, half.rows.vehicle)
