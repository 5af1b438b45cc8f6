"""`hatstream release` and the account: limits, keys, heads and ledgers that do not fit are refused."""

import os
import secrets
from contextlib import closing
from fractions import Fraction
from shutil import copy

import pytest

from dpops.accountant import PureLimit
from pipelines.cli import main
from tests import city, levels_city
from tests.pipelines.commands.releases import files_in, spent_by
from tests.transforms.ledger.entries import unit
from transforms.ledger import chain
from transforms.ledger.ledger import Ledger


def test_a_release_over_the_limit_is_refused_and_says_who_spent_what_and_when(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    other = city.SPEC.replace("epsilon = 1.0", "epsilon = 5").replace('"small-city"', '"greedy"')
    city.write(town, spec=other)
    err = city.refused(hatstream, *city.release(town), code=3)
    assert "no delta" not in err
    said = ("allows a vehicle 50", "nothing was released", "greedy", "asks for 45", "9 spent by small-city", "202")
    assert [text for text in said if text not in err] == []
    assert files_in(town / "out") == first
    assert spent_by(hatstream, town)[0]["epsilon"] == 9


def test_a_limit_without_delta_says_that_it_allows_no_gaussian_noise(tmp_path, hatstream):
    spec = levels_city.SPEC.replace("limit = 2.64", "limit = 40").replace(
        "epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6"
    )
    levels_city.opened(tmp_path, hatstream, spec=spec)
    err = city.refused(hatstream, *city.release(tmp_path), code=3)
    assert "limit without delta" in err
    assert "privacy.delta" in err


def test_one_period_over_the_limit_refuses_the_whole_range(town, hatstream):
    city.write(town, spec=city.SPEC.replace("epsilon = 1.0", "epsilon = 4"))
    assert hatstream(*city.release(town, start=city.DAYS[1]))[0] == 0
    city.write(town, spec=city.SPEC.replace("epsilon = 1.0", "epsilon = 5"))
    before = files_in(town / "out")
    assert hatstream(*city.release(town))[0] == 3
    assert files_in(town / "out") == before


def test_a_budget_that_another_job_takes_meanwhile_refuses_its_period_and_the_others_are_named(
    town, hatstream, monkeypatch
):
    look = Ledger.excess

    def look_and_lose(ledger, *arguments):
        result = look(ledger, *arguments)
        rival = unit(spec_id="r", period=city.DAYS[1], epsilon="45")
        ledger.record("small", PureLimit(Fraction(50)), "rival", "{}", [rival])
        return result

    monkeypatch.setattr(Ledger, "excess", look_and_lose)
    err = city.refused(hatstream, *city.release(town), code=3)
    assert "Only this was released: 2022-01-01" in err
    assert "nothing was released" not in err
    assert "period 2022-01-02: this release" in err
    assert "45 spent by rival" in err
    assert len(files_in(town / "out")) == 4 * 4


def test_a_release_without_init_is_refused_and_makes_no_ledger(tmp_path, hatstream):
    city.write(tmp_path)
    assert "init" in city.refused(hatstream, *city.release(tmp_path), code=3)
    assert not (tmp_path / "ledger.sqlite").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [('"vehicle-day"', '"vehicle-week"'), ("Asia/Kolkata", "Asia/Kathmandu"), ("limit = 50", "limit = 51")],
)
def test_a_release_that_does_not_match_its_account_is_refused(town, hatstream, old, new):
    city.write(town, spec=city.SPEC.replace(old, new))
    assert "account 'small'" in city.refused(hatstream, *city.release(town), code=3)


def test_init_makes_a_key_that_only_its_owner_may_read_and_keeps_it(town, hatstream):
    assert (town / "ledger.key").stat().st_mode & 0o777 == 0o600
    key = (town / "ledger.key").read_bytes()
    assert hatstream(*city.init(town))[0] == 0
    assert (town / "ledger.key").read_bytes() == key


def test_a_copied_key_without_its_head_opens_no_account(town, hatstream):
    (town / "copy.key").write_bytes((town / "ledger.key").read_bytes())
    (town / "copy.key").chmod(0o600)
    fresh = ["init", "--spec", town / "spec.toml", "--ledger", town / "fresh.sqlite", "--key", town / "copy.key"]
    err = city.refused(hatstream, *fresh)
    assert "copy.key.head" in err
    assert "backup" in err
    assert not (town / "fresh.sqlite").exists()


def test_a_release_without_its_head_file_is_refused_and_names_it(town, hatstream):
    (town / "ledger.key.head").unlink()
    for command in (city.release(town), city.init(town)):
        assert "ledger.key.head" in city.refused(hatstream, *command)
    assert not (town / "ledger.key.head").exists()


def test_a_changed_ledger_is_refused_by_release_and_init(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    whole = (town / "ledger.sqlite").read_bytes()
    for entry, change in (
        (4, "update entry set body = '{}' where seq = 4"),
        (5, "update entry set hash = 'x' where seq = 5"),
        (5, "delete from entry where seq = 5"),
        (None, "update entry set epsilon = '0' where kind = 'release'"),
    ):
        (town / "ledger.sqlite").write_bytes(whole)
        city.tamper(town, change, "update entry set epsilon = '1/9' where seq = 9")
        err = city.refused(hatstream, "ledger", "verify", "--ledger", town / "ledger.sqlite")
        assert f"entry {entry or ''}" in err, "the first that is not as it was written"
        for command in (city.release(town), city.init(town), [*city.init(town), "--key", town / "new.key"]):
            assert "tampered" in city.refused(hatstream, *command)
        assert not list(town.glob("new.key*"))


def test_a_refused_init_leaves_no_new_key_behind(town, hatstream):
    assert "new.key" in city.refused(hatstream, *city.init(town), "--key", town / "new.key", code=3)
    assert not list(town.glob("new.key*"))


# --- A key that is named must be usable and the account's: a check that could not be made is never said to be passed. -


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The small city with its first day released, by a key of the usual place."""
    folder = tmp_path_factory.mktemp("town")
    city.write(folder)
    assert main(city.init(folder)) == 0
    assert main(city.release(folder, end=city.DAYS[0])) == 0
    return folder


def wrong(path):
    path.write_text(f"{secrets.token_hex(32)}\n")
    path.chmod(0o600)


def opened_to_others(path):
    path.chmod(0o644)


def pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


SPOILED = {
    "wrong": (wrong, "is of no account in the ledger"),
    "empty": (lambda path: path.write_bytes(b""), "does not hold a key"),
    "open": (opened_to_others, "is open to other users"),
    "missing": (lambda path: path.unlink(), "there is no key file"),
    "pipe": (pipe, "cannot be read"),
}


def test_a_key_without_a_name_is_wrong_use(released, hatstream):
    """An empty variable of a shell, where a name was meant: the path would be the current folder."""
    err = city.refused(
        hatstream, "init", "--spec", released / "spec.toml", "--ledger", released / "other.sqlite", "--key", "", code=1
    )
    assert "'--key': a path is needed" in err


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("command", ["verify", "show", "report"])
def test_a_key_that_was_named_and_cannot_be_used_is_an_error(how, command, released, tmp_path, hatstream):
    spoil, said = SPOILED[how]
    for name in ("ledger.key", "ledger.key.head"):
        copy(released / name, tmp_path / name)
    spoil(tmp_path / "ledger.key")
    place = ["--ledger", released / "ledger.sqlite", "--key", tmp_path / "ledger.key"]
    assert said in city.refused(hatstream, *asked(command, released, tmp_path), *place)
    assert not (tmp_path / "report.html").exists()


def asked(command, released, folder):
    if command == "report":
        return ["report", "--spec", released / "spec.toml", "--output", folder / "report.html"]
    return ["ledger", command]


@pytest.mark.parametrize("named", [True, False])
def test_whether_signatures_were_compared_is_said(named, released, tmp_path, hatstream):
    place = ["--ledger", released / "ledger.sqlite", *(["--key", released / "ledger.key"] if named else [])]
    for command in ("verify", "show", "report"):
        out = city.done(hatstream, *asked(command, released, tmp_path), *place)
        text = (tmp_path / "report.html").read_text() if command == "report" else " ".join(out.split())
        assert "all signatures were compared with the key" in text
    assert "were compared" in city.told(hatstream, "ledger", "show", *place)[0]["signatures"]


@pytest.mark.parametrize("has_signature", [False, True])
def test_nothing_forged_is_shown_without_a_word(has_signature, released, tmp_path, hatstream):
    for name in ("ledger.sqlite", "ledger.key", "ledger.key.head"):
        copy(released / name, tmp_path / name)
    book = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "ledger.key.head")
    forged = {"kind": "limit", "account": "small", "epsilon": "1000000", "body": "{}"}
    signature = chain.Signature(b"x" * 32, "0" * 16) if has_signature else None
    with closing(book._engine.connect()) as db, db.begin():
        chain.append(db, signature, forged)
    for command in ("verify", "show", "report"):
        err = city.refused(hatstream, *asked(command, released, tmp_path), "--ledger", tmp_path / "ledger.sqlite")
        assert "it is forged" in err
    assert not (tmp_path / "report.html").exists()
