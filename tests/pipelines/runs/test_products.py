"""[[output]]: coarser products that a specification asks for, beside its slots, of the same release."""

from pathlib import Path

import pytest

from pipelines.specification import SpecificationError
from tests import city, levels_city
from tests.levels_city import CELLS, DAYS, SPEC, opened
from tests.pipelines.commands.releases import files_in, released, rows_in, rows_of
from tests.statistical.checks import seeded
from transforms.releases import base
from transforms.sinks.kafka import message_of

OUTPUT = """
[[output]]
product = "cell-part"
parts = ["08:00-10:00", "10:00-12:00"]
[[output]]
product = "city-hour"
"""


def test_a_release_writes_products_and_estimates_give_the_same_bytes(tmp_path, hatstream):
    levels_city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path, end=DAYS[0]))[0] == 0
    without = files_in(tmp_path / "out")

    (tmp_path / "spec.toml").write_text(levels_city.SPEC + OUTPUT)  # later: nothing is spent, drawn or changed
    files = city.told(hatstream, *city.release(tmp_path, end=DAYS[0]))["files"]
    released = files_in(tmp_path / "out")
    assert {Path(path).name for path in files} == set(released)
    assert {name: released[name] for name in without} == without
    assert sorted({name[:9] for name in released.keys() - without.keys()}) == ["cell-part", "city-hour"]
    assert len(released) == len(without) + 2 * len(city.FORMATS)

    assert hatstream(*city.estimate(tmp_path, "again", "--formats", ",".join(city.FORMATS)))[0] == 0
    assert files_in(tmp_path / "again") == released

    (tmp_path / "spec.toml").write_text((levels_city.SPEC + OUTPUT).replace("08:00-10:00", "09:00-10:00"))
    assert "holds other values" in city.refused(hatstream, *city.release(tmp_path, end=DAYS[0]))
    assert files_in(tmp_path / "out") == released, "values of products are never overwritten by others"


def test_rows_of_products_are_there_whatever_happened(tmp_path, hatstream):
    levels_city.opened(tmp_path, hatstream, spec=levels_city.SPEC + OUTPUT, lines=[])
    city.done(hatstream, *city.release(tmp_path, end=DAYS[0]))
    (parts,), (hours,) = ((tmp_path / "out").glob(f"{name}-*.jsonl") for name in ("cell-part", "city-hour"))
    assert len(parts.read_bytes().splitlines()) == 2 * len(CELLS)
    assert len(hours.read_bytes().splitlines()) == 4
    rows = rows_in(tmp_path / "out", "*.jsonl")
    assert len({message_of(row).key for row in rows}) == len(rows)  # none takes another one's place in a topic
    out = city.done(hatstream, "map", "--input", tmp_path / "out" / "*.csv", "--output", tmp_path / "map.html")
    assert out.startswith(f"{len(CELLS)} places, 1 slots:")  # nothing is known but of the day


def of_few_buses(day: str) -> list[str]:
    """40 buses, each in one cell for an hour of four; in the other twenty hours of service nothing drives."""
    return [
        f"PLATE{bus},{day}T{8 + bus // 3 % 4:02}:{7 * i:02}:0{bus % 10}+05:30,{21.17 + 0.02 * (bus % 3)},72.83,"
        f"{5 + 20 * (bus % 3) + bus % 4}\n"
        for bus in range(40)
        for i in range(8)
    ]


def test_what_is_known_of_a_day_alone_is_repeated_in_none_of_its_slots(tmp_path, hatstream, monkeypatch):
    noise = seeded(6)
    monkeypatch.setattr(base, "Noise", lambda: noise)
    spec = levels_city.SPEC.replace("08:00-12:00", "00:00-24:00").replace("2.64", "60")
    levels_city.opened(tmp_path, hatstream, spec=spec, lines=of_few_buses(DAYS[0]))
    assert hatstream(*city.release(tmp_path, end=DAYS[0]))[0] == 0
    hats, days = (rows_in(tmp_path / "out", f"{name}-*.jsonl") for name in ("hats", "days"))
    assert [row["cell"] for row in days] == sorted(CELLS)
    assert len([row for row in days if row["status"] == "ok"]) >= 3
    assert 0 < len(hats) < 24 * len(CELLS) / 3, "most hours are known by their day alone"
    assert {row["status"] for row in hats} <= {"ok", "parent"}
    shown = [(row["cell"], row.get("parent_value") or row["value"]) for row in hats]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (city.SPEC + '[[output]]\nproduct = "days"\n', "output goes with mechanism = 'levels'"),
        (levels_city.SPEC + '[[output]]\nproduct = "cell-dya"\n', "did you mean 'cell-day'?"),
        (levels_city.SPEC + '[[output]]\nproduct = "cell-part"\npart = ["08:00-10:00"]\n', "did you mean 'parts'?"),
        (levels_city.SPEC + 2 * '[[output]]\nproduct = "days"\n', "output.product must not repeat"),
        (levels_city.SPEC + '[[output]]\nproduct = "cell-part"\n', "output: the product cell-part needs parts"),
        (levels_city.SPEC + OUTPUT.replace("08:00", "08:30"), "output: a part of the day must lie on slots of 60"),
    ],
)
def test_outputs_that_cannot_be_are_refused_and_say_why(spec, rule, tmp_path):
    with pytest.raises(SpecificationError) as refusal:
        city.loaded(tmp_path, spec)
    assert rule in str(refusal.value)


# --- hours without a trip have no rows, and nothing else changes ---


def test_hours_without_a_trip_have_no_rows_and_nothing_released_changes(tmp_path, hatstream):
    """Of a Saturday: cell 0 has trips at 8 and 9, cell 1 at 10 on Saturdays and cell 2 at 8 on Sundays alone."""
    lines = zip(CELLS, ("sat sun,8 9", "sat,10", "sun,8"), strict=False)
    (tmp_path / "hours.csv").write_text("cell,weekdays,hours\n" + "".join(f"{cell},{rest}\n" for cell, rest in lines))
    opened(tmp_path, hatstream, lines=levels_city.rows(buses=60))
    plain = released(tmp_path, hatstream, "--columns", "counts", end=DAYS[0])
    (tmp_path / "out").rename(tmp_path / "plain")
    (tmp_path / "spec.toml").write_text(SPEC.replace("[cells]", 'trips = "hours.csv"\n[cells]'))
    summary = released(tmp_path, hatstream, "--columns", "counts", end=DAYS[0])
    assert (summary["spec_id"], summary["stages_new"], summary["without_trip"]) == (plain["spec_id"], 0, 4 * 4 - 3)
    assert "without_trip" not in plain
    assert str(summary["usable"]).startswith("Of 100 rows, a place in a slot with a trip each,")
    for path in (tmp_path / "plain").glob("hats-*.csv"):
        hour = int(path.name.partition("T")[2][:2])
        served = {8: CELLS[:1], 9: CELLS[:1], 10: CELLS[1:2], 11: []}[hour]
        assert rows_of(tmp_path / "out" / path.name) == [row for row in rows_of(path) if row["cell"] in served]
    for path in (tmp_path / "plain").glob("days-*"):
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    out = city.done(hatstream, "plan", f"--spec={tmp_path / 'spec.toml'}")
    assert "a trip: 6 of a week's 112 HATs" in out.replace("\n", " ")
    (tmp_path / "hours.csv").write_text(f"cell,weekdays,hours\n{CELLS[0]},sat,11\n")
    err = city.refused(hatstream, *city.release(tmp_path, "--columns", "counts", start=DAYS[0], end=DAYS[0]))
    assert "has slot.trips changed" in err
