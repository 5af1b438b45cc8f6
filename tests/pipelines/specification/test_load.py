"""The specification: strict, exact, and with an id that changes when a release would."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from dpops.accountant import DeltaLimit, PureLimit
from dpops.mechanisms import registered
from dpops.mechanisms.baseline import Baseline
from dpops.types import Grid
from pipelines.specification import SpecificationError, load
from tests.city import AUSTIN


@pytest.fixture
def spec(tmp_path):
    def write(*changes, text=AUSTIN):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "spec.toml"
        path.write_text(text)
        return load(path)

    return write


def test_numbers_are_taken_as_written(spec):
    assert spec(("epsilon = 1.0", "epsilon = 0.1")).privacy.allocation.epsilon == Fraction(1, 10)
    assert spec(("upper_kmh = 65", "upper_kmh = 65\ngrid_kmh = 0.1")).value.grid.upper_steps == 650


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "austin-hourly"', 'name = "renamed"'),
        ("limit = 300.0", "limit = 200"),
        ("minutes = 60", "minutes = 60\nallowed_lateness_s = 120"),
        ("epsilon = 1.0", "epsilon = 1"),
        ("upper_kmh = 65", "upper_kmh = 65.00\ngrid_kmh = 0.010"),
        ("minutes = 60", 'minutes = 60\nservice = "00:00-24:00"'),
        ('mechanism = "array-average"', 'mechanism = "array-average"\nweight = 3\nm_ub = "median"'),
        ("[slot]", "# a comment\n\n[slot]"),
        ("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }"),  # no mechanism uses it
    ],
)
def test_a_cosmetic_or_operational_edit_keeps_the_id(spec, old, new):
    assert spec((old, new)).spec_id == spec().spec_id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon = 1.0", "epsilon = 1.01"),
        ("minutes = 60", "minutes = 30"),
        ("minutes = 60", 'minutes = 60\nservice = "05:00-24:00"'),
        ("minutes = 60", 'minutes = 60\nservice = "05:00-09:00, 15:00-26:00"'),
        ("resolution = 7", "resolution = 8"),
        ("upper_kmh = 65", "upper_kmh = 66"),
        ('mechanism = "array-average"', 'mechanism = "baseline"'),
        ('mechanism = "array-average"', 'mechanism = "array-average"\nm_ub = 40'),
        ('mechanism = "array-average"', 'mechanism = "array-average"\ngrouping = "wrap-around"'),
        ('region = "occupied"', 'region = "occupied"\nbbox = [-98.2, 30.0, -97.3, 30.7]'),
        ('per = "hat"', 'per = "period"'),
        ('per = "hat"', 'per = "hat"\ncomposition = "cap"\nmax_cells = 4\nmax_samples = 9'),
        ('layout = "capmetro"', 'layout = "iudx"'),
        ('name = "austin-speeds"', 'name = "other-account"'),
    ],
)
def test_an_edit_that_would_change_a_release_changes_the_id(spec, old, new):
    assert spec((old, new)).spec_id != spec().spec_id


def test_a_prior_counts_where_a_mechanism_is_chosen_by_it(spec):
    auto, prior = ('"array-average"', '"auto"'), "upper_kmh = 65\nprior = {{ mean_kmh = {}, sd_kmh = 12 }}"
    ids = {spec(auto, ("upper_kmh = 65", prior.format(mean))).spec_id for mean in (20, 21, "20.0")}
    assert len(ids) == 2
    assert spec(auto).spec_id not in ids


def test_a_renamed_source_column_and_another_layout_change_the_id_but_units_that_are_the_default_do_not(spec):
    mapped = 'columns = { vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "v" }'
    texts = [
        f'layout = "csv"\n{mapped}',
        f'layout = "csv"\n{mapped}\ntime_unit = "iso"\nspeed_unit = "km/h"',
        f'layout = "csv"\n{mapped.replace("bus", "plate")}',
        f'layout = "parquet"\n{mapped}',
        f'layout = "csv"\n{mapped}\ntime_unit = "s"',
    ]
    first, default, *others = [spec(('layout = "capmetro"', text)).spec_id for text in texts]
    assert default == first
    assert len({first, *others}) == 4


def test_the_id_is_the_same_on_every_machine_and_in_every_version(spec):
    assert spec().spec_id == "ed0f62ccd8aa7d74"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("minutes = 60", "minutes = 60\nlenght = 3", "lenght"),
        ("epsilon = 1.0", "epsilon = 0", "privacy.epsilon"),
        ("epsilon = 1.0", "epsilon = nan", "finite"),
        ("epsilon = 1.0", "epsilon = 1e400", "privacy.epsilon"),
        ("epsilon = 1.0", "epsilon = 1e-400", "privacy.epsilon"),
        ("epsilon = 1.0", "epsilon = 1.000001e6", "privacy.epsilon"),
        ("epsilon = 1.0", "epsilon = true", "epsilon"),
        ("epsilon = 1.0", 'epsilon = "1"', "epsilon"),
        ("minutes = 60", "minutes = 7", "slot.minutes"),
        ("minutes = 60", 'minutes = 60\nservice = "05:30-24:00"', "slot.service"),
        ("minutes = 60", 'minutes = 60\nservice = "22:00-02:00"', "slot.service"),
        ("minutes = 60", 'minutes = 60\nservice = "5-24"', "slot.service"),
        ("minutes = 60", 'minutes = 60\nservice = "05:00-09:00, 08:00-12:00"', "slot.service"),
        ("minutes = 60", 'minutes = 60\nservice = "01:00-09:00, 20:00-26:00"', "slot.service"),
        ("minutes = 60", 'minutes = 60\nservice = "24:00-26:00"', "slot.service"),
        ("resolution = 7", "resolution = 16", "cells.resolution"),
        ("upper_kmh = 65", "upper_kmh = 65\ngrid_kmh = 0.3", "speed.grid_kmh"),
        ("upper_kmh = 65", "upper_kmh = -1", "speed.upper_kmh"),
        ("America/Chicago", "Mars/Olympus", "account.timezone"),
        ('"vehicle-day"', '"vehicle-month"', "unit"),
        ('"vehicle-day"', '"vehicle-ever"', "account.until"),
        ("limit = 300.0", "limit = 0", "account.limit"),
        ("limit = 300.0", "limit = { epsilon = 1 }", "account.limit"),
        ("limit = 300.0", "limit = { epsilon = 1, delta = 1 }", "delta must be above 0 and below 1"),
        ("limit = 300.0", "limit = { epsilon = 1, delta = 1e-6, pure = 1 }", "pure must be"),
        ('"counts-public"', '"add-remove"', "add-remove"),
        ('"counts-public"', '"replace"', "account.adjacency"),
        ('name = "mean"', 'name = "variance"', "variance"),
        ('name = "mean"', 'name = "distribution"', "array-tree"),
        ('"array-average"', '"average"', "average"),
        ('"array-average"', '"levy"\ngrouping = "wrap-around"', "grouping"),
        ('"array-average"', '"opt-array"\nm_ub = 3', "m_ub"),
        ('"array-average"', '"auto"\nprior = [20, 12]', "prior"),
        ('"array-average"', '"array-average"\nm_ub = "best"', "best"),
        ("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 66, sd_kmh = 12 }", "speed.prior.mean_kmh"),
        ("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 0 }", "speed.prior.sd_kmh"),
        ("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 1e9 }", "speed.prior.sd_kmh"),
        ("upper_kmh = 65", "upper_kmh = 1e400", "1e30"),
        ("upper_kmh = 65", "upper_kmh = 1e9\ngrid_kmh = 1e4", "speed.upper_kmh"),
        ("limit = 300.0", "limit = 1e400", "1e30"),
        ('"array-average"', '"array-average"\nm_ub = true', "m_ub"),
        ("upper_kmh = 65", "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 9, between = 2 }", "speed.prior.between"),
        ('"array-average"', '"array-average"\nm_ub = 0', "m_ub"),
        ('"array-average"', '"array-average"\nmub = 3', "mub"),
        ('"array-average"', '"array-average"\nweight = -1', "statistic.weight"),
        ('per = "hat"', 'per = "hat"\ncomposition = "clip"', "clip"),
        ('per = "hat"', 'per = "hat"\nscope = "day"', "scope"),
        ('per = "hat"', 'per = "hat"\ncomposition = "clip-user"\nrelease_shards = 2', "privacy.release_shards"),
        (
            'per = "hat"',
            'per = "hat"\ncomposition = "cap"\nmax_cells = 3\nmax_samples = 9\nrelease_shards = 2\nscope = "period"',
            "privacy.release_shards",
        ),
        ('per = "hat"', 'per = "hat"\nmax_cells = 3', "privacy.max_cells"),
        ('per = "hat"', 'per = "hat"\ncomposition = "cap"\nmax_cells = 3', "privacy.max_samples"),
        ('per = "hat"', 'per = "hat"\nrelease_shards = 2', "privacy.release_shards"),
        ('per = "hat"', 'per = "day"', "per"),
        ('region = "occupied"', 'region = "nowhere.geojson"', "nowhere.geojson"),
        ('region = "occupied"', 'region = ["872830828ffffff", "8828308281fffff"]', "resolution 8"),
        ('region = "occupied"', 'region = "occupy"', '"occupied" for all cells'),
        ('region = "occupied"', 'region = ["hello"]', "hello"),
        ('region = "occupied"', 'region = "occupied"\nbbox = [0, 3, 1, 2]', "cells.bbox"),
        ('region = "occupied"', 'region = "occupied"\nbbox = [1, 2, 1, 3]', "cells.bbox"),
        ('region = "occupied"', 'region = "occupied"\nbbox = [179, 2, 181, 3]', "cells.bbox"),
        ('layout = "capmetro"', 'layout = "csv"', "columns"),
        ('layout = "capmetro"', 'layout = "xml"', "xml"),
        ('layout = "capmetro"', 'layout = "capmetro"\ndelimiter = ";"', "own columns"),
        ("[privacy]", "[privacy", "TOML"),
    ],
)
def test_an_error_names_the_field_or_the_value(spec, old, new, named):
    with pytest.raises(SpecificationError, match=named):
        spec((old, new))


SQUARE = {
    "type": "Polygon",
    "coordinates": [[[-97.9, 30.1], [-97.6, 30.1], [-97.6, 30.4], [-97.9, 30.4], [-97.9, 30.1]]],
}


def test_a_region_counts_by_its_cells_wherever_its_file_lies(spec, tmp_path):
    for name, document in (("a", SQUARE), ("b", {"type": "Feature", "properties": {"x": 1}, "geometry": SQUARE})):
        (tmp_path / f"{name}.geojson").write_text(json.dumps(document, indent=2))
    first, second = (spec(('"occupied"', f'"{name}.geojson"')) for name in ("a", "b"))
    assert first.cells.region == second.cells.region
    assert len(first.cells.region) > 50
    assert first.spec_id == second.spec_id
    cells = ", ".join(f'"{cell:x}"' for cell in reversed(first.cells.region))
    assert spec(('"occupied"', f"[{cells}]")).spec_id == first.spec_id


def test_a_region_whose_content_changes_is_another_release(spec, tmp_path):
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps(SQUARE))
    before = spec(('"occupied"', '"a.geojson"')).spec_id
    path.write_text(json.dumps(SQUARE).replace("30.4", "30.5"))
    assert spec(('"occupied"', '"a.geojson"')).spec_id != before


def rectangle(west, east):
    return [[[west, -18.5], [east, -18.5], [east, -17.5], [west, -17.5], [west, -18.5]]]


@pytest.mark.parametrize("side", [(179.5, 180.5), (-180.5, -179.5)])
@pytest.mark.parametrize("kind", ["Polygon", "MultiPolygon"])
def test_a_region_beyond_180_degrees_is_refused_because_its_cells_would_be_lost(spec, tmp_path, kind, side):
    part = rectangle(*side)
    document = {"type": kind, "coordinates": part if kind == "Polygon" else [rectangle(178, 179), part]}
    (tmp_path / "a.geojson").write_text(json.dumps(document))
    with pytest.raises(
        SpecificationError, match=r"180\.5 is beyond 180 degrees: .* split the region at the antimeridian"
    ):
        spec(('"occupied"', '"a.geojson"'))


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ("2.64", PureLimit(Fraction("2.64"))),
        ("{ epsilon = 2.64, delta = 1e-6 }", DeltaLimit(Fraction("2.64"), Fraction(1, 10**6))),
        ("{ epsilon = 2, delta = 1e-6, pure = 0.5 }", DeltaLimit(Fraction(2), Fraction(1, 10**6), Fraction(1, 2))),
    ],
)
def test_a_limit_is_an_epsilon_or_has_a_delta_and_may_set_a_pure_part_apart(spec, written, limit):
    assert spec(("limit = 300.0", f"limit = {written}")).account.limit == limit


class Misnamed(Baseline):
    """Gives its number another name than the mean has."""

    name = "misnamed"
    outputs = ("average",)


def test_a_mechanism_of_other_outputs_than_the_statistics_is_refused_when_a_specification_is_loaded(spec, monkeypatch):
    """It would publish empty values with the status ok, and debit the account for them."""
    mechanisms = registered() | {"misnamed": Misnamed}
    monkeypatch.setattr("pipelines.specification.statistics.registered", lambda: mechanisms)
    with pytest.raises(SpecificationError, match="misnamed gives average, but mean puts out one number"):
        spec(('mechanism = "array-average"', 'mechanism = "misnamed"'))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "mean"', "name = []"),
        ('mechanism = "array-average"', "mechanism = {}"),
        ("minutes = 60", f"minutes = 0x{'f' * 4_000}"),
        ("resolution = 7", f"resolution = 0x{'f' * 4_000}"),
        ("minutes = 60", f"minutes = 60\nallowed_lateness_s = 0x{'f' * 3_000}"),
        ("minutes = 60", "minutes = 61"),
    ],
)
def test_whatever_is_wrong_is_an_error_that_names_the_file(spec, old, new):
    with pytest.raises(SpecificationError, match=r"\.toml") as caught:
        spec((old, new))
    assert len(str(caught.value)) < 600


# --- the id is the hash of the content, also of a copy in which something was replaced ---


def test_a_copy_has_the_id_of_the_file_that_says_the_same(spec):
    first, half = spec(), Grid(step=Fraction(1, 2), upper_steps=130)
    privacy = replace(first.privacy, allocation=replace(first.privacy.allocation, epsilon=Fraction(1, 2)))
    copies = {
        ("epsilon = 1.0", "epsilon = 0.5"): replace(first, privacy=privacy),
        ("resolution = 7", "resolution = 8"): replace(first, cells=replace(first.cells, resolution=8)),
        ("minutes = 60", "minutes = 30"): replace(first, timetable=replace(first.timetable, slot_minutes=30)),
        ("upper_kmh = 65", "upper_kmh = 65\ngrid_kmh = 0.5"): replace(first, value=replace(first.value, grid=half)),
    }
    for change, copy in copies.items():
        assert copy.spec_id == spec(change).spec_id, change
    assert len({copy.spec_id for copy in copies.values()} | {first.spec_id}) == 5
    renamed = replace(first, name="other", input=replace(first.input, allowed_lateness_s=99))
    assert renamed.spec_id == first.spec_id, "what decides no release decides no id"


def test_the_form_of_ids_decides_the_id_where_it_is_not_that_of_before(spec):
    layout = 'layout = "capmetro"'
    forms = [spec((layout, f'{layout}\nvehicle_form = "{form}"')) for form in ("text", "integer", "casefold")]
    assert "vehicle_form" not in spec().text
    assert forms[0].spec_id == spec().spec_id
    assert len({form.spec_id for form in forms}) == 3
    with pytest.raises(SpecificationError, match="vehicle_form"):
        spec((layout, f'{layout}\nvehicle_form = "number"'))
