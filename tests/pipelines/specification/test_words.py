"""Schema, reference and hints of specifications: made from the tables that read them."""

import datetime
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from pipelines.specification import SpecificationError, load
from pipelines.specification.schema import reference, schema
from tests import city, levels_city

ROOT = Path(__file__).parents[3]
GOOD = [
    *((path.name, path.read_text()) for path in sorted((ROOT / "examples").glob("*.toml"))),
    ("demo", (ROOT / "companions" / "lab" / "hatstream_lab" / "demo" / "demo.toml").read_text()),
    ("city", city.SPEC),
    ("levels", levels_city.SPEC),
]


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def as_json(text):
    return json.loads(json.dumps(tomllib.loads(text), default=datetime.date.isoformat))


@pytest.mark.parametrize("text", [text for _, text in GOOD], ids=[name for name, _ in GOOD])
def test_the_schema_takes_every_good_specification(validator, text):
    validator.validate(as_json(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon = 1.0", "epsilom = 1.0"),
        ("epsilon = 1.0", 'epsilon = "1.0"'),
        ('unit = "vehicle-day"', 'unit = "vehicle-month"'),
        ('adjacency = "counts-public"', 'adjacency = "public"'),
        ('mechanism = "array-average"', 'mechanism = "array-avg"'),
        ('mechanism = "array-average"', 'mechanism = "array-average"\nbins = 3'),
        ('mechanism = "array-average"', 'mechanism = "array-average"\nm_ub = "mode"'),
        ('layout = "csv"', 'layout = "cvs"'),
        ("resolution = 7\n", ""),
        ("limit = 50", "limit = { epsilon = 2 }"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(validator, tmp_path, old, new):
    assert old in city.SPEC
    text = city.SPEC.replace(old, new)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(as_json(text))
    with pytest.raises(SpecificationError):
        city.loaded(tmp_path, text)


def test_the_reference_page_is_current():
    assert (ROOT / "docs" / "specification.md").read_text() == reference(), (
        "run: hatstream spec reference > docs/specification.md"
    )


def test_every_field_has_its_words():
    assert "| |\n" not in reference().replace("| if left out | |", "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("epsilon = 1.0", "epsilom = 1.0", "did you mean 'epsilon'?"),
        ("[privacy]", "[privcy]", "did you mean 'privacy'?"),
        ("minutes = 60", "minutes = 60\ntimezone = 'Asia/Kolkata'", "it belongs to [account]"),
        ('"vehicle-day"', '"vehicle-dya"', "did you mean 'vehicle-day'?"),
        ('"counts-public"', '"count-public"', "did you mean 'counts-public'?"),
        ('"Asia/Kolkata"', '"Asia/Kolkatta"', "did you mean 'Asia/Kolkata'?"),
        ('"array-average"', '"array-averge"', "did you mean 'array-average'?"),
        ('"array-average"', '"array-average"\nm_bu = "median"', "did you mean 'm_ub'?"),
        ('name = "mean"', 'name = "means"', "did you mean 'mean'?"),
        ('per = "hat"', 'per = "hats"', "did you mean 'hat'?"),
        ('"csv"', '"cvs"', "did you mean 'csv'?"),
        ('layout = "csv"', 'layout = "csv"\nspeed_unit = "kmh"', "did you mean 'km/h'?"),
        ('"vehicle-day"', '"bus"', "account.unit may be 'vehicle-day', 'vehicle-week', 'vehicle-ever'"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(tmp_path, old, new, told):
    assert old in city.SPEC
    with pytest.raises(SpecificationError) as refusal:
        city.loaded(tmp_path, city.SPEC.replace(old, new, 1))
    assert told in str(refusal.value)


def test_check_says_what_a_specification_asks_for(tmp_path, hatstream):
    spec, _ = city.write(tmp_path)
    assert "mean by array-average" in city.done(hatstream, "spec", "check", spec)
    described = city.told(hatstream, "spec", "check", spec)
    assert (described["spec_id"], described["outputs"]) == (load(spec).spec_id, "HATs")
    spec.write_text("nonsense")
    assert hatstream("spec", "check", spec)[0] == 2


def test_check_tells_distributions_and_places_beside_a_mean(tmp_path, hatstream):
    asked = '[[statistic]]\nname = "distribution"\nmechanism = "levels"\n[places]\nresolution = 9\n[input]'
    spec, _ = levels_city.write(tmp_path, spec=levels_city.SPEC.replace("[input]", asked))
    described = json.loads(hatstream("spec", "check", spec, "--json")[1])
    assert described["statistics"] == "mean by levels, distribution by levels"
    assert described["places"] == "196, within the cells"
    plain = json.loads(hatstream("spec", "check", levels_city.write(tmp_path)[0], "--json")[1])
    assert (plain["statistics"], "places" in plain) == ("mean by levels", False)
