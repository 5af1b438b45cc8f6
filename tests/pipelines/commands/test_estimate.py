"""`hatstream estimate`: the ledger alone gives a day's rows again, by then and by now, and days to come."""

from pathlib import Path

import h3
import numpy as np
import pytest

from tests import city, levels_city
from tests.levels_city import CELLS, DAYS
from tests.pipelines.commands.releases import Run, files_in, rows_in, rows_of
from tests.statistical.checks import seeded
from transforms.recorded.stage_plan import stage_of
from transforms.releases import base
from transforms.releases.periods.products import PRODUCTS

KNOWN = levels_city.SPEC.replace("2.64", "60").replace("vehicles = 50", "vehicles = 200")


def different_cells() -> list[str]:
    """200 buses, of 5 to 10 km/h in the first cell, 25 to 30 and 45 to 50 in the others; faster by the hour."""
    return [
        f"PLATE{bus},{day}T{hour:02}:{13 * i:02}:0{bus % 10}+05:30,{21.17 + 0.02 * ((bus + i) % 3)},72.83,"
        f"{5 + 20 * ((bus + i) % 3) + bus % 4 + hour - 8}\n"
        for day in DAYS
        for hour in range(8, 11)
        for bus in range(200)
        for i in range(4)
    ]


def made(folder: Path, hatstream: Run, *days: str, is_known: bool = False) -> Path:
    """Days released one by one, in the order given; the input is then taken away.

    is_known: at once, with so little noise, and so different cells, that nothing is held back.
    """
    if is_known:
        levels_city.opened(folder, hatstream, spec=KNOWN, lines=different_cells())
    else:
        levels_city.opened(folder, hatstream)
    for start, end in [(days[0], days[-1])] if is_known else zip(days, days, strict=True):
        city.done(hatstream, *city.release(folder, start=start, end=end))
    for path in folder.glob("feed*"):
        path.unlink()
    return folder


def estimated(folder: Path, hatstream: Run, name: str, *more: str) -> dict[str, bytes]:
    city.done(hatstream, *city.estimate(folder, name, "--formats", "csv,jsonl", *more, end=DAYS[-1]))
    return files_in(folder / name)


def test_causal_estimates_are_the_published_bytes_without_the_data(known, again):
    files = files_in(again)
    assert len(files) == 3 * (4 + 1) * 2  # of each day the HATs of four slots, and the table of days
    assert all((known / "out" / name).read_bytes() == data for name, data in files.items())


@pytest.mark.slow
def test_a_day_that_is_recorded_later_counts_as_later(tmp_path, hatstream):
    made(tmp_path, hatstream, DAYS[0], DAYS[2])
    before = estimated(tmp_path, hatstream, "before")
    levels_city.write(tmp_path)
    assert hatstream(*city.release(tmp_path, start=DAYS[1], end=DAYS[1]))[0] == 0
    after = estimated(tmp_path, hatstream, "after")
    assert {name: after[name] for name in before} == before
    assert len(after) > len(before)


def test_a_plan_says_how_the_accounts_newest_day_turned_out(known, again, hatstream):
    where = ("plan", "--spec", str(known / "spec.toml"), "--ledger")
    newest = city.told(hatstream, *where, str(known / "ledger.sqlite"))["newest_day"]
    assert (newest["period"], newest["days"], newest["unit"]) == (DAYS[-1], 3, "km/h")
    rows = rows_in(again, "hats-*.jsonl")
    rows = [row for row in rows if row["slot_start"].startswith(DAYS[-1])]
    hats = 4 * len(CELLS)  # from 08:00 to 12:00; those of no row are unknown
    assert newest["rows"] == sum(row["status"] == "ok" for row in rows) / hats > 0
    assert newest["rows"] <= newest["reports"] <= 1
    assert 0 < newest["error"] < newest["constant"]
    assert city.done(hatstream, *where, str(known / "ledger.sqlite")).startswith("This account's released days (")
    assert city.told(hatstream, *where, str(known / "none.sqlite"))["newest_day"] is None


@pytest.mark.slow
def test_days_to_come_are_forecast_for_every_cell_and_say_so(tmp_path, hatstream):
    made(tmp_path, hatstream, *DAYS)
    past = estimated(tmp_path, hatstream, "a")
    estimated(tmp_path, hatstream, "b", "--forecast", "2")
    rows = [row for path in (tmp_path / "b").glob("*.jsonl") if path.name not in past for row in rows_of(path)]
    assert len([row for row in rows if row.get("product") == "days"]) == 2 * len(CELLS)
    assert {row["status"] for row in rows} <= {"forecast", "unreliable", "held-back"}


def test_what_was_released_itself_stands_in_a_file_of_its_own(tmp_path, hatstream):
    made(tmp_path, hatstream, DAYS[0])
    plain, more = estimated(tmp_path, hatstream, "again"), estimated(tmp_path, hatstream, "more", "--released")
    assert {name: more[name] for name in plain} == plain
    (path,) = (tmp_path / "more").glob("released-*.jsonl")
    rows = rows_of(path)
    ledger = city.account(tmp_path).ledger
    entries = ledger.stages("small", rows[0]["spec_id"])
    assert len(entries) == 2
    for place, entry in enumerate(entries, 1):
        own_rows = [row for row in rows if row["sequence"] == place]
        stage = stage_of(entry.unit, sorted(int(cell, 16) for cell in CELLS))
        integers = np.array(entry.unit.integers)
        assert len(own_rows) == stage.groups == integers.size / 2
        for column, its in (("weight", integers[: stage.groups]), ("speed", integers[stage.groups :])):
            values = np.array([row[column] for row in own_rows])
            spread = np.array([row[f"{column}_sd"] for row in own_rows])
            np.testing.assert_allclose(values / spread, its / stage.noise_sd, rtol=1e-4)
    assert {row["cell"] for row in rows if row["level"] == "hour"} == {"city"}
    assert {row["cell"] for row in rows if row["level"] == "cell"} == set(CELLS)
    assert {row["centre_kmh"] for row in rows if row["stage"] == 0} == {20.0}


OF_CELLS = [name for name in PRODUCTS if not name.startswith("place-")]
COARSE = [word for name in OF_CELLS for word in ("--product", name)] + [
    *("--part", "08:00-10:00", "--part", "10:00-11:00")
]


def quietly(*line: str) -> tuple[int, str, str]:
    """A command line whose output is not looked at, for a whole module."""
    from pipelines.cli import main

    return main(list(line)), "", ""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 buses' days, released. The noise repeats itself: nothing is left to luck."""
    noise = seeded(11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "Noise", lambda: noise)
        return made(tmp_path_factory.mktemp("known"), quietly, *DAYS, is_known=True)


@pytest.fixture(scope="module")
def again(known: Path) -> Path:
    """The folder of estimates of these days from the ledger alone."""
    estimated(known, quietly, "again")
    return known / "again"


@pytest.fixture(scope="module")
def coarse(known: Path) -> Path:
    """The folder of estimates of these days, with a forecast of one more."""
    estimated(known, quietly, "coarse", *COARSE, "--forecast", "1")
    return known / "coarse"


def test_coarser_products_have_a_row_for_each_place_and_time(coarse):
    parents = {h3.cell_to_parent(cell, 6) for cell in CELLS}
    wanted = {
        "days": (set(CELLS), {("08", "12")}),
        "cell-part": (set(CELLS), {("08", "10"), ("10", "11")}),
        "parent-hour": (parents, {(f"{hour:02}", f"{hour + 1:02}") for hour in range(8, 12)}),
        "city-hour": ({"city"}, {(f"{hour:02}", f"{hour + 1:02}") for hour in range(8, 12)}),
    }
    for product, (places, times) in wanted.items():
        rows = rows_in(coarse, f"{product}-*.jsonl")
        keys = [(row["cell"], row["slot_start"][:10], row["slot_start"][11:13], row["slot_end"][11:13]) for row in rows]
        days = (*DAYS, "2022-01-04")
        assert sorted(keys) == sorted((place, day, *time) for place in places for day in days for time in times)
        assert {row["product"] for row in rows} == {product}


def test_a_citys_hours_hold_its_mean_and_forecasts_say_what_they_are(coarse):
    """Reports are spread evenly over the cells: their mean is that of the second cell."""
    city_rows = rows_in(coarse, "city-hour-*.jsonl")
    last = [row for row in city_rows if row["slot_start"].startswith(DAYS[-1])]
    assert "ok" in {row["status"] for row in last}
    for row in last[:3]:
        assert row["lower95"] < 26.5 + int(row["slot_start"][11:13]) - 8 < row["upper95"]
    ahead = {row["status"] for row in city_rows if row["slot_start"].startswith("2022-01-04")}
    assert "forecast" in ahead
    assert ahead <= {"forecast", "unreliable"}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--product", "cell-part"], "needs parts"),
        (["--product", "cell-part", "--part", "08:30-10:00"], "slots of 60 minutes"),
        (["--product", "cell-part", "--part", "06:00-10:00"], "within slot.service"),
        (["--product", "cell-part", "--part", "08:00-10:00", "--part", "09:00-11:00"], "overlap"),
        (["--product", "cell-part", "--part", "morning"], "must look like"),
        (["--product", "days", "--part", "08:00-10:00"], "goes with --product cell-part"),
        (["--product", "cell-dya"], "days"),
    ],
)
def test_products_that_cannot_be_are_refused_and_say_why(options, rule, tmp_path, hatstream):
    levels_city.write(tmp_path)
    code, _, err = hatstream(*city.estimate(tmp_path, "o", *options))
    assert code != 0
    assert rule in " ".join(err.split())
