"""`spec new` does not take for a vehicle what its rows do not bear out, nor a poll's time for the fix's."""

import json

import pytest

from companions.city.tests.circles import as_csv, drafted, rows


def by_time():
    """Reports as a feed has them: of all buses, one minute after the other."""
    return sorted(rows(), key=lambda row: row[1])


def column_of(field, path, folder):
    result, spec = drafted(path, folder)
    return dict(spec.input.columns)[field], result


NOT_VEHICLES = {
    "row number": ("id", lambda number, _row: number),
    "row number of three files": ("id", lambda number, _row: number // 3),
    "flag": ("device", lambda number, _row: number % 2),
    "line that several vehicles serve": ("unit", lambda _at, row: int(row[0][-1]) // 3),
}


@pytest.mark.parametrize("kind", NOT_VEHICLES)
def test_a_column_of_a_vehicle_s_name_that_its_rows_do_not_bear_out_is_not_taken(kind, tmp_path):
    name, value = NOT_VEHICLES[kind]
    lines = [(value(number, row), *row) for number, row in enumerate(by_time())]
    path = as_csv(tmp_path / "f.csv", (name, "wagen", "t", "lat", "lon", "speed"), lines)
    column, result = column_of("vehicle", path, tmp_path)
    assert column == "wagen"
    assert any("by values alone" in line and "vehicle" in line for line in result.warnings)


def test_a_column_that_is_the_only_one_and_doubtful_is_said_to_be_so(tmp_path):
    lines = [(number % 2, *row[1:]) for number, row in enumerate(by_time())]
    path = as_csv(tmp_path / "f.csv", ("vehicle", "t", "lat", "lon", "speed"), lines)
    column, result = column_of("vehicle", path, tmp_path)
    assert column == "vehicle"
    assert any("Column vehicle looks like no vehicle" in line for line in result.warnings)
    plain = as_csv(tmp_path / "g.csv", ("vehicle", "t", "lat", "lon", "speed"), by_time())
    assert not any("looks like no" in line for line in drafted(plain, tmp_path)[0].warnings)


def test_of_two_times_the_one_that_changes_with_the_position_is_taken(tmp_path):
    lines, fix = [], {}
    for number, (bus, time, *columns) in enumerate(by_time()):
        if bus not in fix or number // 6 % 3 == 0:
            fix[bus] = (time, *columns)
        lines.append((bus, time, *fix[bus]))
    names = ("bus", "timestamp", "position_from", "lat", "lon", "speed")
    assert column_of("time", as_csv(tmp_path / "f.csv", names, lines), tmp_path)[0] == "position_from"
    honest = [(bus, time, "2026-03-02T00:00:00-06:00", *columns) for bus, time, *columns in by_time()]
    assert column_of("time", as_csv(tmp_path / "g.csv", names, honest), tmp_path)[0] == "timestamp"


def test_the_profile_is_drafted_as_a_line_to_fill_in(tmp_path):
    path = as_csv(tmp_path / "f.csv", ("bus", "t", "lat", "lon", "speed"), by_time())
    assert "\n# profile = { hats = 70, cells = 12, " in column_of("time", path, tmp_path)[1].toml


def test_a_snapshot_s_vehicle_is_the_vehicle_s_id_and_not_the_message_s(tmp_path):
    entities = [
        {"id": str(number), "vehicle": {"vehicle": {"id": bus}, "timestamp": time,
         "position": {"latitude": lat, "longitude": lon, "speed": speed}}}
        for number, (bus, time, lat, lon, speed) in enumerate(by_time())
    ]  # fmt: skip
    buses = len({row[0] for row in rows()})
    for name, part in (("poll", entities[:buses]), ("polls", entities)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"header": {"timestamp": 1_772_459_000}, "entity": part}))
        column, result = column_of("vehicle", path, tmp_path)
        assert column == "vehicle.vehicle.id"
        assert any("No id of column" in line for line in result.warnings) == (part is not entities)
