"""`hatstream plan` on places smaller than cells: which are worth it, from when on, and when none are."""

import json
from pathlib import Path
from typing import Any

import h3
import msgspec
import pytest

from pipelines.plan.levels import known_of
from pipelines.plan.parts import plan_places
from pipelines.specification import load
from tests import levels_city

SPEC = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace(
    "limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }"
)
LINE = {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]}
FILE = {"type": "FeatureCollection", "features": [{"properties": {"name": "Ring Road"}, "geometry": LINE}]}


@pytest.fixture
def planned(tmp_path: Path) -> Any:
    """What a plan says of places, for a fleet and [places]."""

    def run(vehicles: int, more: str = "", spec: str = SPEC, document: object = FILE) -> Any:
        (tmp_path / "segments.geojson").write_text(json.dumps(document))
        (tmp_path / "spec.toml").write_text(spec.replace("vehicles = 50", f"vehicles = {vehicles}") + more)
        loaded = load(tmp_path / "spec.toml")
        assert loaded.levels is not None
        return msgspec.to_builtins(plan_places(loaded, known_of(loaded)))

    return run


def test_a_few_vehicles_are_told_to_leave_places_out_and_how_many_it_takes(planned: Any) -> None:
    document = planned(1)
    assert not document["is_asked"]
    (said,) = document["answers"]
    assert "Places are not worth it for this fleet and total" in said
    assert "Leave [places] out" in said
    needed = int(said.split("it needs some ")[1].split(" vehicles")[0].replace(",", ""))
    assert "resolution 8 are worth it" in " ".join(planned(needed)["answers"])
    assert "not worth it" in " ".join(planned(needed - 1)["answers"])


def test_a_larger_fleet_has_finer_places_sooner(planned: Any) -> None:
    few, many = planned(10), planned(300)
    of = [{(kind["what"], kind["traffic"]): kind for kind in document["kinds"]} for document in (few, many)]
    assert list(of[0]) == [
        (f"resolution {resolution}", traffic) for resolution in (8, 9) for traffic in ("spread", "concentrated")
    ]
    for name in of[0]:
        assert of[1][name]["ok"][-1] >= of[0][name]["ok"][-1]
        assert of[1][name]["half_width"] < of[0][name]["half_width"]
        for kinds in of:
            assert kinds[name]["ok"] == sorted(kinds[name]["ok"])
            errors = zip(kinds[name]["error"], kinds[name]["cell_error"], strict=True)
            assert all(map_error <= cell_error for map_error, cell_error in errors)
    assert "Places of resolution 9 are worth it" in many["answers"][0]


def test_of_segments_that_many_share_alike_less_is_promised_than_of_hexagons(planned: Any) -> None:
    """No few of the segments have most of the traffic."""
    middles = {child: h3.cell_to_latlng(child) for cell in levels_city.CELLS for child in h3.cell_to_children(cell, 9)}
    lines = [
        {"properties": {"name": name}, "geometry": {**LINE, "coordinates": [[x - 0.0008, y], [x + 0.0008, y]]}}
        for name, (y, x) in middles.items()
    ]
    of = planned(100, '[places]\nfile = "segments.geojson"\n', document=FILE | {"features": lines})["kinds"]
    segments, hexagons = (
        next(kind["ok"] for kind in of if (kind["what"], kind["traffic"]) == (what, "spread"))
        for what in ("the file's", "resolution 9")
    )
    assert segments[2] < hexagons[2] / 2, "after four days"


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_table_shows_half_widths_and_the_part_that_is_ok(
    tmp_path: Path, hatstream: Any, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """However wide a terminal is, no row's name is broken."""
    monkeypatch.setenv("COLUMNS", columns)
    (tmp_path / "segments.geojson").write_text(json.dumps(FILE))
    (tmp_path / "spec.toml").write_text(SPEC + '[places]\nfile = "segments.geojson"\n')
    code, out, _ = hatstream("plan", "--spec", tmp_path / "spec.toml")
    assert code == 0
    assert "A map of places" in out
    rows = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│ ")]
    assert {"resolution 8", "resolution 9", "the file's"} <= set(rows)
