"""A key that is named must be usable and the account's: a check that could not be made is never said to be passed."""

import json
import os
import secrets
from contextlib import closing
from shutil import copy

import pytest

from pipelines.cli import main
from tests import city
from transforms.ledger import chain
from transforms.ledger.ledger import Ledger


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
    code, _, err = hatstream(
        "init", "--spec", released / "spec.toml", "--ledger", released / "other.sqlite", "--key", ""
    )
    assert (code, "'--key': a path is needed" in err) == (1, True)


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("command", ["verify", "show", "report"])
def test_a_key_that_was_named_and_cannot_be_used_is_an_error(how, command, released, tmp_path, hatstream):
    spoil, said = SPOILED[how]
    for name in ("ledger.key", "ledger.key.head"):
        copy(released / name, tmp_path / name)
    spoil(tmp_path / "ledger.key")
    place = ["--ledger", released / "ledger.sqlite", "--key", tmp_path / "ledger.key"]
    code, out, err = hatstream(*asked(command, released, tmp_path), *place)
    assert (code, out) == (4, "")
    assert said in err
    assert not (tmp_path / "report.html").exists()


def asked(command, released, folder):
    if command == "report":
        return ["report", "--spec", released / "spec.toml", "--output", folder / "report.html"]
    return ["ledger", command]


@pytest.mark.parametrize("named", [True, False])
def test_whether_signatures_were_compared_is_said(named, released, tmp_path, hatstream):
    place = ["--ledger", released / "ledger.sqlite", *(["--key", released / "ledger.key"] if named else [])]
    for command in ("verify", "show", "report"):
        code, out, err = hatstream(*asked(command, released, tmp_path), *place)
        assert (code, err) == (0, "")
        text = (tmp_path / "report.html").read_text() if command == "report" else " ".join(out.split())
        assert "all signatures were compared with the key" in text
    code, out, _ = hatstream("ledger", "show", "--json", *place)
    assert "were compared" in json.loads(out)[0]["signatures"]


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
        code, out, err = hatstream(*asked(command, released, tmp_path), "--ledger", tmp_path / "ledger.sqlite")
        assert (code, out) == (4, ""), command
        assert "it is forged" in err
    assert not (tmp_path / "report.html").exists()
