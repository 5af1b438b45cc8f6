"""A specification's id is the hash of its content, also of a copy in which something was replaced."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpops.types import Grid
from pipelines.specification import Specification, SpecificationError, load
from tests import city


@pytest.fixture
def spec(tmp_path: Path) -> Specification:
    return city.loaded(tmp_path, city.AUSTIN)


def loaded(folder: Path, old: str, new: str) -> Specification:
    assert old in city.AUSTIN
    (folder / "other.toml").write_text(city.AUSTIN.replace(old, new))
    return load(folder / "other.toml")


def test_a_copy_has_the_id_of_the_file_that_says_the_same(spec: Specification, tmp_path: Path) -> None:
    assert spec.spec_id
    half = Grid(step=Fraction(1, 2), upper_steps=130)
    privacy = replace(spec.privacy, allocation=replace(spec.privacy.allocation, epsilon=Fraction(1, 2)))
    copies = {
        "epsilon = 0.5": replace(spec, privacy=privacy),
        "resolution = 8": replace(spec, cells=replace(spec.cells, resolution=8)),
        "minutes = 30": replace(spec, timetable=replace(spec.timetable, slot_minutes=30)),
        "upper_kmh = 65\ngrid_kmh = 0.5": replace(spec, value=replace(spec.value, grid=half)),
    }
    originals = ("epsilon = 1.0", "resolution = 7", "minutes = 60", "upper_kmh = 65")
    for old, (new, copy) in zip(originals, copies.items(), strict=True):
        assert copy.spec_id == loaded(tmp_path, old, new).spec_id, new
    assert len({copy.spec_id for copy in copies.values()} | {spec.spec_id}) == 5


def test_what_decides_no_release_decides_no_id(spec: Specification) -> None:
    assert replace(spec, name="other", input=replace(spec.input, allowed_lateness_s=99)).spec_id == spec.spec_id


def test_the_form_of_ids_decides_the_id_where_it_is_not_that_of_before(spec: Specification, tmp_path: Path) -> None:
    layout = 'layout = "capmetro"'
    forms = [loaded(tmp_path, layout, f'{layout}\nvehicle_form = "{form}"') for form in ("text", "integer", "casefold")]
    assert "vehicle_form" not in spec.text
    assert forms[0].spec_id == spec.spec_id
    assert len({form.spec_id for form in forms}) == 3
    with pytest.raises(SpecificationError, match="vehicle_form"):
        loaded(tmp_path, layout, f'{layout}\nvehicle_form = "number"')
