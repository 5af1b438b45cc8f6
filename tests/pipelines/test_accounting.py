"""An account says once how Gaussian noise adds up, and a release with a delta fills it exactly."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dpops.accountant import DeltaLimit
from dpops.claims import Accounting
from pipelines.account import location
from pipelines.specification import load
from tests import city, levels_city
from tests.levels_city import DAYS, SPEC
from tests.pipelines.levels_runs import Run, entries, released


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_a_total_with_delta_fills_an_account_of_the_same_numbers(
    accounting: Accounting, tmp_path: Path, hatstream: Run
) -> None:
    levels_city.write(tmp_path)
    limit_text = f'limit = {{ epsilon = 2.64, delta = 1e-6 }}\naccounting = "{accounting}"'
    gaussian = SPEC.replace("limit = 2.64", limit_text)
    gaussian = gaussian.replace('per = "period"', 'per = "period"\ndelta = 1e-6')
    (tmp_path / "spec.toml").write_text(gaussian)
    assert hatstream(*city.init(tmp_path))[0] == 0
    released(tmp_path, hatstream, end=DAYS[0])
    ledger = location.find(str(tmp_path / "ledger.sqlite"), None).ledger
    (spent,) = ledger.spent("small")
    limit = DeltaLimit(Fraction("2.64"), Fraction(1, 10**6), accounting=accounting)
    assert spent.debited.pure == 0
    assert (spent.debited.gaussian > 0) is (accounting == "gdp")
    assert limit.shown(spent.debited).said() == "2.64 at delta 1e-06"
    assert ledger.verify().entries == 4
    (tmp_path / "spec.toml").write_text(gaussian.replace("epsilon = 2.64\n", "epsilon = 0.1\n"))
    assert hatstream(*city.release(tmp_path, end=DAYS[0]))[0] == 3


def test_an_account_in_mu_says_beforehand_that_it_takes_gaussian_noise_alone(tmp_path: Path, hatstream: Run) -> None:
    levels_city.write(tmp_path)
    spec = SPEC.replace("limit = 2.64", 'limit = { epsilon = 2.64, delta = 1e-6 }\naccounting = "gdp"')
    (tmp_path / "spec.toml").write_text(spec)
    _, out, err = hatstream("spec", "check", tmp_path / "spec.toml")
    assert "adds up Gaussian noise alone" in out + err
    assert hatstream(*city.init(tmp_path))[0] == 0
    code, _, err = hatstream(*city.release(tmp_path, end=DAYS[0]))
    assert code == 3
    assert "give privacy.delta" in err
    assert not entries(tmp_path)


@pytest.mark.parametrize(("opened", "asked"), [("zcdp", "gdp"), ("gdp", "zcdp")])
def test_another_accounting_is_refused_and_named(opened: str, asked: str, tmp_path: Path, hatstream: Run) -> None:
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


@pytest.mark.parametrize(
    ("limit", "delta", "why"),
    [(MIXED, "\ndelta = 1e-6", "has a limit without delta"), (IN_MU, "", "adds up Gaussian noise alone")],
)
def test_noise_that_an_account_does_not_add_up_is_refused_everywhere_by_name(
    limit: str, delta: str, why: str, tmp_path: Path, hatstream: Run
) -> None:
    """What a map of places adds up to is then left unsaid: nothing of it is ever released."""
    levels_city.write(tmp_path)
    spec = SPEC.replace("limit = 2.64", limit).replace('per = "period"', f'per = "period"{delta}')
    (tmp_path / "spec.toml").write_text(f"{spec}\n[places]\nresolution = 9\n")
    assert why in hatstream(*city.init(tmp_path))[1]
    code, _, err = hatstream(*city.release(tmp_path, end=DAYS[0]))
    assert (code, why in err, "To ask for less" in err) == (3, True, False)
    code, out, _ = hatstream("plan", "--spec", tmp_path / "spec.toml")
    assert (code, why in " ".join(out.split())) == (0, True)
    of_ledger = "--ledger", tmp_path / "ledger.sqlite", "--output", tmp_path / "report.html"
    assert hatstream("report", "--spec", tmp_path / "spec.toml", *of_ledger)[0] == 0


def test_an_account_without_delta_is_kept_in_epsilon(tmp_path: Path, hatstream: Run) -> None:
    levels_city.write(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC.replace("limit = 2.64", 'limit = 2.64\naccounting = "gdp"'))
    code, _, err = hatstream("spec", "check", tmp_path / "spec.toml")
    assert code == 2
    assert "goes with limits that all have a delta" in err


def test_the_accounting_of_before_is_the_default_and_changes_no_identity(tmp_path: Path) -> None:
    levels_city.write(tmp_path)
    plain = SPEC.replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }")
    plain = plain.replace('per = "period"', 'per = "period"\ndelta = 1e-6')
    ids = {}
    for accounting in ("", 'accounting = "zcdp"', 'accounting = "gdp"'):
        (tmp_path / "spec.toml").write_text(plain.replace("[account]", f"[account]\n{accounting}"))
        ids[accounting] = load(tmp_path / "spec.toml").spec_id
    assert ids[""] == ids['accounting = "zcdp"'] != ids['accounting = "gdp"']
