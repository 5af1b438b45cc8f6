"""Travel times of routes: intervals that hold the truth where places of one cell err together, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpops.types import Float64s
from hatstream_publish.travel_times import DrivenRoute, drawn_minutes
from tests import levels_city

PLACES, CELLS = 12, 3
ROUTE = DrivenRoute(
    names=tuple(f"segment {number}" for number in range(PLACES)),
    lengths_m=np.linspace(200, 900, PLACES),
    group=np.arange(PLACES) * CELLS // PLACES,
)


def held(minutes: Any, shared: float, own: float, trials: int = 200) -> float:
    """How many of the 95 % intervals hold the true time; errors, km/h: a part that a cell shares, and each own."""
    rng, inside = np.random.default_rng(5), 0
    for _ in range(trials):
        truth = 15 + 20 * rng.random(PLACES)
        of_cells = shared * rng.normal(size=CELLS)[ROUTE.group]
        values = truth + of_cells + own * rng.normal(size=PLACES)
        drawn = minutes(values, np.full(PLACES, np.hypot(shared, own)), ROUTE)
        low, high = np.quantile(drawn, [0.025, 0.975])
        inside += int(low <= np.sum(ROUTE.lengths_m / truth) * 0.06 <= high)
    return inside / trials


@pytest.mark.parametrize(("shared", "own"), [(3.0, 0.0), (2.0, 2.0), (0.0, 3.0)])
def test_an_interval_holds_the_time_whatever_part_of_an_error_cells_share(shared: float, own: float) -> None:
    assert held(drawn_minutes, shared, own) >= 0.93


def test_intervals_as_if_places_erred_independently_would_not() -> None:
    """The check of the check: wrong where cells share their error."""

    def alone(values: Float64s, sds: Float64s, route: DrivenRoute) -> Float64s:
        return drawn_minutes(
            values, sds, DrivenRoute(names=route.names, lengths_m=route.lengths_m, group=np.arange(PLACES))
        )

    assert held(alone, 3.0, 0.0) < 0.85


HEAD = "spec_id,slot_start,slot_end,cell,statistic,value,unit,lower95,upper95,noise_std,bias_bound,mechanism,epsilon,"
FEATURES = [
    {
        "type": "Feature",
        "properties": {"name": name},
        "geometry": {"type": "LineString", "coordinates": [[72.83, south], [72.83, south + 0.009]]},
    }
    for name, south in (("First", 21.165), ("Second", 21.185))
]
SPEC = levels_city.SPEC + '[places]\nfile = "segments.geojson"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A specification with two segments of 1,001 m, and their rows of one hour, the second one's not ok."""
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "segments.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": FEATURES}))
    of = (
        "0000,2022-01-01T08:00:00+05:30,2022-01-01T09:00:00+05:30,{},mean,{},km/h,1,60,{},,levels,,2.64,{},place-slot\n"
    )
    rows = of.format("First", 20, 1, "ok") + of.format("Second", 30, 4, "parent")
    (tmp_path / "place-slot.csv").write_text(HEAD + "epsilon_slot,status,product\n" + rows)
    (tmp_path / "route.csv").write_text("place\nFirst\nSecond\n")
    return tmp_path


def asked(folder: Path, *more: str, route: str = "route.csv") -> list[str]:
    where = ("--spec", folder / "spec.toml", "--input", folder / "place-slot.csv", "--route", folder / route)
    return ["travel-time", *map(str, where), *more]


def test_a_routes_time_is_lengths_over_speeds(folder: Path, hatstream: Any) -> None:
    code, out, _ = hatstream(*asked(folder, "--json"))
    assert code == 0
    (time,) = json.loads(out)["times"]
    assert time["minutes"] == pytest.approx(0.06 * 1000.8 * (1 / 20 + 1 / 30), abs=0.01)
    assert time["lower95"] < time["minutes"] < time["upper95"]
    assert (time["km"], time["ok"]) == (pytest.approx(2.002, abs=0.002), pytest.approx(0.5, abs=0.01))
    (folder / "route.geojson").write_text(json.dumps({"features": FEATURES[:1]}))
    code, out, _ = hatstream(*asked(folder, route="route.geojson"))
    assert (code, "3.0 min for 1.00 km" in out, "100% of it at places that are ok" in out) == (0, True, True)
    (folder / "route.csv").write_text("place,length_m\nFirst,500\n")
    assert "1.5 min for 0.50 km" in hatstream(*asked(folder))[1]


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("place\nThird\n", "'Third' is no place of the specification"),
        ("street\nFirst\n", "a CSV file with a column place"),
        ("place\n", "1 to 2,000 places; it has 0"),
        ("place,length_m\nFirst,-1\n", "needs a length_m above 0"),
    ],
)
def test_what_is_no_route_is_refused_in_one_sentence(folder: Path, hatstream: Any, route: str, said: str) -> None:
    (folder / "route.csv").write_text(route)
    code, _, err = hatstream(*asked(folder))
    assert (code, said in err) == (4, True), err


def test_slots_without_a_value_are_said_beside_those_that_have_all(folder: Path, hatstream: Any) -> None:
    rows = (folder / "place-slot.csv").read_text()
    first, second = rows.splitlines()[1:]
    earlier, later = first.replace("T08:", "T07:").replace("T09:", "T08:"), second.replace("T09:", "T10:")
    later = later.replace("T08:", "T09:").replace(",30,", ",,")
    (folder / "place-slot.csv").write_text("\n".join([rows.splitlines()[0], earlier, first, second, later, ""]))
    code, out, _ = hatstream(*asked(folder, "--json"))
    told = json.loads(out)
    assert (code, [time["slot_start"][11:13] for time in told["times"]]) == (0, ["08"])
    lacking = {slot["slot_start"][11:13]: slot["places"] for slot in told["without_value"]}
    assert lacking == {"07": ["Second"], "09": ["First", "Second"]}
    _, out, _ = hatstream(*asked(folder))
    assert "to 08:00: no time, for its place 'Second' has no value" in out
    assert "'First' and 1 more of the route's places have no value" in out


def with_days_held_back(folder: Path, *days: str, hours: int = 3) -> None:
    """Adds days to the folder's rows of which nothing is published."""
    head, *rows = (folder / "place-slot.csv").read_text().splitlines()
    for day in days:
        for hour in range(7, 7 + hours):
            at = (
                row.replace("2022-01-01T08", f"{day}T{hour:02}").replace("2022-01-01T09", f"{day}T{hour + 1:02}")
                for row in rows[:2]
            )
            rows += [
                row.replace(",20,", ",,")
                .replace(",30,", ",,")
                .replace(",ok,", ",held-back,")
                .replace(",parent,", ",held-back,")
                for row in at
            ]
    (folder / "place-slot.csv").write_text("\n".join([head, *rows, ""]))


def test_a_day_that_is_held_back_is_said_once(folder: Path, hatstream: Any) -> None:
    with_days_held_back(folder, "2022-01-02", "2021-12-31")
    code, out, _ = hatstream(*asked(folder))
    assert code == 0
    assert out.count("held back") == 2
    assert "2022-01-02: no times, for this day is held back" in out
    assert "no value" not in out
    told = json.loads(hatstream(*asked(folder, "--json"))[1])
    assert (told["held_back"], told["without_value"], len(told["times"])) == (["2021-12-31", "2022-01-02"], [], 1)


def test_files_of_days_that_are_held_back_give_no_time_and_say_what_helps(folder: Path, hatstream: Any) -> None:
    with_days_held_back(folder, "2022-01-02")
    head, _, _, *rows = (folder / "place-slot.csv").read_text().splitlines()
    (folder / "place-slot.csv").write_text("\n".join([head, *rows, ""]))
    code, _, err = hatstream(*asked(folder))
    assert (code, "each day of the files is held back. What helps: more days" in err) == (4, True), err


def test_a_place_without_a_value_is_named(folder: Path, hatstream: Any) -> None:
    text = (folder / "place-slot.csv").read_text()
    (folder / "place-slot.csv").write_text(text[: text.index("0000,", text.index("0000,") + 9)])
    code, _, err = hatstream(*asked(folder))
    assert (code, "'Second' has none in the slot 2022-01-01T08" in err) == (4, True)


@pytest.mark.parametrize(
    ("former", "now", "said"),
    [
        ("place-slot\n", "\n", "no row of the route's places: take those of one product of places"),
        ("levels,,2.64,ok,place-slot", "levels,,2.64,ok,place-day", "one product of places, such as 'place-slot-*'"),
        (",60,1,,levels", ",60,,,levels", "the files leave out how well values are known (noise_std)"),
    ],
    ids=["hexagons", "two products", "published"],
)
def test_files_that_tell_no_travel_time_are_refused_and_others_named(
    folder: Path, hatstream: Any, former: str, now: str, said: str
) -> None:
    text = (folder / "place-slot.csv").read_text().replace(",60,4,,levels", ",60,1,,levels")
    text = text.replace("First", levels_city.CELLS[0]).replace("Second", levels_city.CELLS[1]) if now == "\n" else text
    (folder / "place-slot.csv").write_text(text.replace(former, now))
    code, _, err = hatstream(*asked(folder))
    assert (code, said in err) == (4, True), err


def test_a_route_may_have_its_ending_in_capitals(folder: Path, hatstream: Any) -> None:
    (folder / "ROUTE.CSV").write_text("place\nFirst\n")
    code, out, _ = hatstream(*asked(folder, route="ROUTE.CSV"))
    assert (code, "3.0 min for 1.00 km" in out) == (0, True)


def test_a_specification_without_places_has_no_routes(folder: Path, hatstream: Any) -> None:
    (folder / "spec.toml").write_text(levels_city.SPEC)
    code, _, err = hatstream(*asked(folder))
    assert (code, "needs a specification with [places]" in err) == (1, True)
