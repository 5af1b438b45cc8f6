"""What is no specification, key, region, ledger or input at all is said in one sentence, at once, and costs nothing."""

import json
import os
import sys
from contextlib import suppress

import pytest

from pipelines.cli import run
from tests import city

DEEP = 100_000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "small-city"', 'name = "a\\u001b[2Jb"', "name must be at most 200 printable letters"),
        ('name = "small-city"', f'name = "{"x" * 5_000}"', "name must be at most 200 printable letters"),
        ('name = "small"', 'name = "\\r"', "account.name must"),
        ("limit = 50", "limit = 1" + "0" * 400, "between 1e-30 and 1e30"),
        ("limit = 50", "limit = 1" + "0" * 5_000, "a number of more than 4,300 digits"),
        ("limit = 50", "limit = 1e400", "between 1e-30 and 1e30"),
        ("minutes = 60", "minutes = 1" + "0" * 3_000, "slot.minutes"),
        ('name = "small-city"', "name = " + "[" * DEEP + "]" * DEEP, "nested too deeply"),
        ('name = "small-city"', "a" + ".a" * DEEP + " = 1", "nested too deeply"),
        ("[account]", "['a'" + '."b"' * 1_000 + "]", "nested too deeply"),
        ('lat = "lat"', 'lat = "v"', "columns.lat: needs a column of its own, 'v' is given twice"),
        ('region = "occupied"', 'region = "pipe"', "is not a regular file"),
        ('region = "occupied"', 'region = "/dev/zero"', "is not a regular file"),
        ('region = "occupied"', 'region = "deep.json"', "nested"),
        ('region = "occupied"', 'region = "world.json"', "at most 20,000,000"),
    ],
)
def test_a_strange_specification_is_refused_by_field_rule_and_shortened_value(tmp_path, hatstream, old, new, said):
    os.mkfifo(tmp_path / "pipe")
    deep = '{"type":"Feature","geometry":' * DEEP + "null" + "}" * DEEP
    (tmp_path / "deep.json").write_text(deep)
    ring = "[[-170,-80],[170,-80],[170,80],[-170,80],[-170,-80]]"
    (tmp_path / "world.json").write_text(f'{{"type":"Polygon","coordinates":[{ring}]}}')
    city.write(tmp_path, spec=city.SPEC.replace(old, new, 1))
    code, out, err = hatstream(*city.init(tmp_path))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err) < 800
    assert "\x1b" not in err
    assert not list(tmp_path.glob("ledger*"))


@pytest.mark.parametrize("option", ["--spec", "--key", "--ledger", "--input"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused_at_once(town, hatstream, option, kind):
    path = town / "strange"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    code, _, err = hatstream(*city.release(town, "--key", str(town / "ledger.key"), option, str(path)))
    assert code in (2, 4)
    assert "regular file" in err


def test_names_with_markup_are_shown_as_they_are(tmp_path, hatstream):
    spec = city.SPEC.replace('"small-city"', '"[/x]"').replace('"small"', '"[bold]"')
    city.opened(tmp_path, hatstream, spec=spec)
    assert "[/x]" in hatstream(*city.release(tmp_path))[1]
    assert "[bold]" in hatstream("ledger", "show", "--ledger", tmp_path / "ledger.sqlite")[1]


def into(monkeypatch, stream, arguments):
    """The exit code of the console script with that standard output."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "argv", ["hatstream", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            run()
    with suppress(OSError):  # what could not be written
        stream.close()
    return done.value.code


def unread():
    """A pipe that nobody reads any more, as that of `| head -0`."""
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["unread", "full"])
def test_output_that_nobody_reads_or_that_is_full_leaves_nothing_half_done(town, hatstream, monkeypatch, capsys, kind):
    def lost():
        return unread() if kind == "unread" else open("/dev/full", "w")

    for command in (city.release(town), ["plan", "--spec", town / "spec.toml"], ["--help"]):
        assert into(monkeypatch, lost(), command) == 4
        err = capsys.readouterr().err
        assert err == "" if kind == "unread" else "No space left" in err
        assert "internal" not in err
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, json.loads(out)["slots_new"]) == (0, 0)  # it was recorded and published whole before
    assert len(list((town / "out").iterdir())) == 32
