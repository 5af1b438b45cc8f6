"""An account says once how Gaussian noise adds up, and a release with a delta fills it exactly."""

import json
from fractions import Fraction
from itertools import product

import pytest

from dpops.accountant import Accountant, DeltaLimit
from dpops.claims import NOISE_CLAIMS, Accounting, Claim
from pipelines.specification import load
from tests import city, levels_city
from tests.levels_city import DAYS, SPEC
from tests.pipelines.commands.releases import entries, released, rows_of


@pytest.mark.few(1)
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_a_total_with_delta_fills_an_account_of_the_same_numbers(accounting, tmp_path, hatstream):
    levels_city.write(tmp_path)
    limit_text = f'limit = {{ epsilon = 2.64, delta = 1e-6 }}\naccounting = "{accounting}"'
    gaussian = SPEC.replace("limit = 2.64", limit_text)
    gaussian = gaussian.replace('per = "period"', 'per = "period"\ndelta = 1e-6')
    (tmp_path / "spec.toml").write_text(gaussian)
    assert hatstream(*city.init(tmp_path))[0] == 0
    released(tmp_path, hatstream, end=DAYS[0])
    ledger = city.account(tmp_path).ledger
    (spent,) = ledger.spent("small")
    limit = DeltaLimit(Fraction("2.64"), Fraction(1, 10**6), accounting=accounting)
    assert spent.debited.pure == 0
    assert (spent.debited.gaussian > 0) is (accounting == "gdp")
    assert limit.shown(spent.debited).describe() == "2.64 at delta 1e-06"
    assert ledger.verify().entries == 4
    (tmp_path / "spec.toml").write_text(gaussian.replace("epsilon = 2.64\n", "epsilon = 0.1\n"))
    assert hatstream(*city.release(tmp_path, end=DAYS[0]))[0] == 3


def test_an_account_in_mu_says_beforehand_that_it_takes_gaussian_noise_alone(tmp_path, hatstream):
    levels_city.write(tmp_path)
    spec = SPEC.replace("limit = 2.64", 'limit = { epsilon = 2.64, delta = 1e-6 }\naccounting = "gdp"')
    (tmp_path / "spec.toml").write_text(spec)
    _, out, err = hatstream("spec", "check", tmp_path / "spec.toml")
    assert "adds up Gaussian noise alone" in out + err
    assert hatstream(*city.init(tmp_path))[0] == 0
    assert "give privacy.delta" in city.refused(hatstream, *city.release(tmp_path, end=DAYS[0]), code=3)
    assert not entries(tmp_path)


@pytest.mark.parametrize(("opened", "asked"), [("zcdp", "gdp"), ("gdp", "zcdp")])
def test_another_accounting_is_refused_and_named(opened, asked, tmp_path, hatstream):
    """The limits are the same numbers: without a name the operator would be told to write what is there."""
    levels_city.write(tmp_path)
    limit = "limit = { epsilon = 2.64, delta = 1e-6 }"
    for accounting in (opened, asked):
        spec = SPEC.replace("limit = 2.64", f'{limit}\naccounting = "{accounting}"')
        (tmp_path / "spec.toml").write_text(spec.replace('per = "period"', 'per = "period"\ndelta = 1e-6'))
        told = hatstream(*city.init(tmp_path))
    names = {"zcdp": "2.64 at delta 1e-06", "gdp": "2.64 at delta 1e-06, accounting gdp"}
    assert told[0] == 3
    assert f"has the limit {names[opened]}, the specification says {names[asked]}: " in told[2]
    assert hatstream(*city.release(tmp_path, end=DAYS[0]))[0] == 3
    assert not entries(tmp_path)
    _, out, _ = hatstream("ledger", "show", "--json", "--ledger", tmp_path / "ledger.sqlite")
    assert json.loads(out)[0]["limit_text"] == names[opened]


MIXED = "limits = [{ days = 1, epsilon = 2.64 }, { days = 28, epsilon = 10, delta = 1e-6 }]"
IN_MU = 'limit = { epsilon = 2.64, delta = 1e-6 }\naccounting = "gdp"'


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("limit", "delta", "why"),
    [(MIXED, "\ndelta = 1e-6", "has a limit without delta"), (IN_MU, "", "adds up Gaussian noise alone")],
)
def test_noise_that_an_account_does_not_add_up_is_refused_everywhere_by_name(limit, delta, why, tmp_path, hatstream):
    """What a map of places adds up to is then left unsaid: nothing of it is ever released."""
    levels_city.write(tmp_path)
    spec = SPEC.replace("limit = 2.64", limit).replace('per = "period"', f'per = "period"{delta}')
    (tmp_path / "spec.toml").write_text(f"{spec}\n[places]\nresolution = 9\n")
    assert why in hatstream(*city.init(tmp_path))[1]
    code, _, err = hatstream(*city.release(tmp_path, end=DAYS[0]))
    assert (code, why in err, "To ask for less" in err) == (3, True, False)
    assert why in " ".join(city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml").split())
    of_ledger = "--ledger", tmp_path / "ledger.sqlite", "--output", tmp_path / "report.html"
    assert hatstream("report", "--spec", tmp_path / "spec.toml", *of_ledger)[0] == 0


def test_the_accounting_of_before_is_the_default_and_changes_no_identity(tmp_path):
    levels_city.write(tmp_path)
    plain = SPEC.replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }")
    plain = plain.replace('per = "period"', 'per = "period"\ndelta = 1e-6')
    texts = {}
    for accounting in ("", 'accounting = "zcdp"', 'accounting = "gdp"'):
        texts[accounting] = city.loaded(tmp_path, plain.replace("[account]", f"[account]\n{accounting}")).text
    assert texts[""] == texts['accounting = "zcdp"']
    assert '"accounting"' not in texts[""]
    assert '"accounting":"gdp"' in texts['accounting = "gdp"']


SPANS = "limits = [{ days = 1, epsilon = 2.64, delta = 1e-6 }, { days = 7, epsilon = 5, delta = 1e-6 }]"
CLASSES = '[[statistic]]\nname = "distribution"\nmechanism = "levels"\n'
SHARES = "span_days = 7\nday_weights = { sat = 2, sun = 2 }\nfirst_days = { since = 2022-01-03, days = 2, weight = 3 }"


def in_mu_of_days(accounting: Accounting, more: str = "") -> str:
    """A total of seven days with unequal shares, and a fleet that is large enough to be counted first."""
    limits = f'{SPANS}\naccounting = "{accounting}"'
    spec = SPEC.replace("limit = 2.64", limits).replace("epsilon = 2.64\n", "epsilon = 5\ndelta = 1e-6\n")
    spec = spec.replace("vehicles = 50", "vehicles = 5000").replace('per = "period"', f'per = "period"\n{SHARES}')
    return spec.replace("[fleet]", f"{more}[fleet]")


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
@pytest.mark.parametrize("more", ["", "[live]\n", CLASSES, "[places]\nresolution = 9\n"])
def test_all_looks_at_a_day_claim_by_the_accounting_and_no_more_than_the_total(accounting, more, tmp_path):
    spec = city.loaded(tmp_path, in_mu_of_days(accounting, more))
    policy = spec.by_levels.policy(spec.spec_id, spec.cells.region or (), spec.value, b"")
    for day in ("2022-01-03", "2022-01-05", "2022-01-08"):
        of_day = policy.on(day)
        assert of_day.count is not None
        for is_first, counts in product((True, False), repeat=2):
            looks = [*of_day.stages(is_first=is_first, counts=counts)]
            looks += [of_day.live] if of_day.live is not None and not is_first else []
            assert {type(look.claim) for look in looks} == {type(of_day.total)} == {NOISE_CLAIMS[accounting]}
            assert sum(Accountant().compose([look.claim]).concentrated for look in looks) <= total_of(of_day.total)


def total_of(claim: Claim) -> Fraction:
    return Accountant().compose([claim]).concentrated


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_what_days_are_said_to_have_is_of_the_accounting(accounting, tmp_path, hatstream):
    """In a release, its rows and a plan: the epsilon of a day's share, at the total's delta."""
    spec_path, _ = levels_city.write(tmp_path, spec=in_mu_of_days(accounting).replace("5000", "15"))
    span, delta = load(spec_path).by_levels.span, Fraction(1, 10**6)
    assert span is not None
    most = NOISE_CLAIMS[accounting].within(Fraction(5), delta).times(1 / span.share_sum)
    weekend, monday = (float(most.times(part).approx(delta).epsilon) for part in (Fraction(2, 3), Fraction(1)))
    assert hatstream(*city.init(tmp_path))[0] == 0
    assert [day["epsilon"] for day in released(tmp_path, hatstream)["periods"]] == pytest.approx(
        [weekend, weekend, monday]
    )
    of_rows = {float(row["epsilon_slot"]) for path in (tmp_path / "out").glob("*.csv") for row in rows_of(path)}
    assert sorted(of_rows) == pytest.approx([weekend, monday])
    planned = json.loads(hatstream("plan", "--json", "--spec", spec_path)[1])
    (largest,) = (total["epsilon_a_day"] for total in planned["spans"] if total["as_specified"])
    (usual,) = (total["epsilon"] for total in planned["totals"] if total["as_specified"])
    assert (usual, largest) == pytest.approx((weekend, monday))
