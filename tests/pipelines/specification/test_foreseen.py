"""What will be refused later is told before an account is opened, by each command that looks at a specification."""

import json
from datetime import date

import pytest

from pipelines.specification import SpecificationError, foreseen, load
from tests import city, levels_city

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
