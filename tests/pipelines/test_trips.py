"""A release with a public list of hours with a trip: rows of other hours are left out, and nothing else changes."""

from pathlib import Path

from tests import city, levels_city
from tests.levels_city import CELLS, DAYS, SPEC, opened
from tests.pipelines.levels_runs import Run, released, rows_of


def test_hours_without_a_trip_have_no_rows_and_nothing_released_changes(tmp_path: Path, hatstream: Run) -> None:
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
    code, out, _ = hatstream("plan", f"--spec={tmp_path / 'spec.toml'}")
    assert (code, "a trip: 6 of a week's 112 HATs" in out.replace("\n", " ")) == (0, True)
    (tmp_path / "hours.csv").write_text(f"cell,weekdays,hours\n{CELLS[0]},sat,11\n")
    code, _, err = hatstream(*city.release(tmp_path, "--columns", "counts", start=DAYS[0], end=DAYS[0]))
    assert (code, "has slot.trips changed" in err) == (4, True)
