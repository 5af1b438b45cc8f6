"""Schema, reference and hints of specifications, and what will be refused later is told before an account is opened."""

import datetime
import json
import tomllib
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from pipelines.specification import SpecificationError, foreseen, load
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


TODAY = date(2026, 11, 24)
DAILY = city.SPEC.replace('minutes = 60\nservice = "08:00-12:00"', "minutes = 1440")
FAR = DAILY.replace("Asia/Kolkata", "America/Chicago")


def told(tmp_path, text):
    return tuple(foreseen(city.loaded(tmp_path, text), TODAY))


def test_a_day_that_slots_cannot_cut_is_told(tmp_path):
    (only,) = told(tmp_path, FAR)
    assert only.startswith("America/Chicago changes its clock on 2027-03-14: slots of 1440 minutes cannot follow it")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("limit = 2", "a period asks for epsilon 2.64, more than account.limit allows: 2"),
        (
            "limits = [{ days = 1, epsilon = 9 }, { days = 28, epsilon = 1 }]",
            "a period asks for epsilon 2.64, more than account.limit allows: 9 in a day, 1 in any 28 days",
        ),
    ],
)
def test_a_total_that_no_period_may_have_is_told(limit, said, tmp_path):
    assert told(tmp_path, levels_city.SPEC.replace("limit = 2.64", limit)) == (said,)


MIXED = "limits = [{ days = 1, epsilon = 2.64 }, { days = 28, epsilon = 10, delta = 1e-6 }]"
IN_MU = 'accounting = "gdp"\nlimit = { epsilon = 2.64, delta = 1e-6 }'
IN_MU_SPANS = IN_MU.replace("limit = { ", "limits = [{ days = 1, ").replace(
    "}", "}, { days = 28, epsilon = 10, delta = 1e-6 }]"
)
WITH_DELTA = levels_city.SPEC.replace("epsilon = 2.64\nper", "epsilon = 2.64\ndelta = 1e-6\nper")


@pytest.mark.parametrize("limit", ["limit = 2.64", MIXED])
def test_gaussian_noise_does_not_fit_a_pure_limit(limit, tmp_path):
    (only,) = told(tmp_path, WITH_DELTA.replace("limit = 2.64", limit))
    assert only.startswith("the account has a limit without delta, so it allows no Gaussian noise")


@pytest.mark.parametrize("limit", [IN_MU, IN_MU_SPANS])
@pytest.mark.parametrize("spec", [levels_city.SPEC, city.SPEC.replace("limit = 50", "limit = 2.64")])
def test_pure_noise_does_not_fit_a_limit_in_mu(limit, spec, tmp_path):
    (only,) = told(tmp_path, spec.replace("limit = 2.64", limit))
    assert only.startswith("the account adds up Gaussian noise alone (account.accounting = 'gdp')")


@pytest.mark.parametrize(("limits", "why"), [(MIXED, "no Gaussian noise"), (IN_MU_SPANS, "Gaussian noise alone")])
def test_a_span_of_the_wrong_noise_is_refused_for_its_noise_and_not_for_its_epsilon(limits, why, tmp_path):
    spec = WITH_DELTA if limits is MIXED else levels_city.SPEC
    spec = spec.replace("limit = 2.64", limits).replace("epsilon = 2.64\n", "epsilon = 10\nspan_days = 28\n")
    with pytest.raises(SpecificationError, match=why):
        told(tmp_path, spec)


@pytest.mark.parametrize(("box", "is_told"), [([-180, -90, 180, 90], False), ([12.0, 77.0, 13.0, 78.0], True)])
def test_a_box_without_a_cell_of_the_region_is_told(box, is_told, tmp_path):
    words = told(tmp_path, levels_city.SPEC.replace("resolution = 7", f"resolution = 7\nbbox = {box}"))
    assert [text.startswith("no cell of cells.region lies in cells.bbox") for text in words] == [True] * is_told


def test_check_init_and_plan_tell_it(tmp_path, hatstream):
    spec, _ = city.write(tmp_path, spec=FAR)
    for command in (["spec", "check", spec], city.init(tmp_path), ["plan", "--spec", spec]):
        out = city.done(hatstream, *command)
        assert "America/Chicago changes its clock on" in " ".join(out.split())
        assert len(json.loads(hatstream(*command, "--json")[1])["beware"]) == 1


def test_a_zone_that_is_the_machine_s_own_is_refused(tmp_path):
    spec, _ = city.write(tmp_path, spec=city.SPEC.replace("Asia/Kolkata", "localtime"))
    with pytest.raises(SpecificationError, match=r"timezone must name a zone that is the same on every"):
        load(spec)
