"""The smallest set of packages is enough for all but what extras bring; a missing extra is named before work begins."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipelines.cli import COMMANDS
from tests import city
from transforms.errors import EXTRA_OF, MissingExtra, missing, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({[*EXTRA_OF]!r})); from hatstream.command import run; "
IMPORTED = {
    "prometheus-client": "prometheus_client",
    "confluent-kafka": "confluent_kafka",
    "matplotlib": "matplotlib",
    "pillow": "PIL",
    "psycopg[binary]": "psycopg",
    "apache-beam[aws]": "boto3",
    "apache-beam[gcp]": "google.cloud",
}


def ask(folder, *arguments):
    """As the command line answers where no extra is installed: its exit code, and what it says."""
    program = f"{WITHOUT}sys.argv[1:] = {[str(argument) for argument in arguments]!r}; run()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HATSTREAM_LEDGER": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.strip(), done.stdout


def test_every_package_of_an_extra_is_in_the_table_and_no_other_one():
    needed_by = dict(PROJECT["optional-dependencies"])
    del needed_by["dev"], needed_by["images"]
    for path in (ROOT / "companions").glob("*/pyproject.toml"):
        needed_by[path.parent.name] = tomllib.loads(path.read_text())["project"]["dependencies"]
    names = {(re.split("[>=]=", text)[0], extra) for extra, needed in needed_by.items() for text in needed}
    named = {(IMPORTED[name], extra) for name, extra in names if not name.startswith("hatstream")}
    assert {*named, ("botocore", "s3")} >= set(EXTRA_OF.items())
    assert {package for package, _ in named} <= set(EXTRA_OF)
    assert not {requirement.split(">")[0] for requirement in PROJECT["dependencies"]} & set(IMPORTED)


def test_dpops_asks_for_numpy_and_scipy_alone():
    """So `pip install --no-deps hatstream` beside these two is an installation of it."""
    program = (
        "import importlib, pkgutil, sys, dpops\n"
        "for module in pkgutil.walk_packages(dpops.__path__, 'dpops.'): importlib.import_module(module.name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    names = {
        requirement.partition("[")[0]
        for requirement in (re.split("[>=]=", text)[0] for text in PROJECT["dependencies"])
    }
    others = sorted(name.lower().replace("-", "_") for name in names - {"numpy", "scipy"})
    run = subprocess.run([sys.executable, "-c", program, *others], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert "apache_beam" in others


def test_every_command_says_how_it_is_used():
    program = f"{WITHOUT}from pipelines.cli import main\nfor name in {[*COMMANDS]!r}: assert main([name, '-h']) == 0"
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


@pytest.mark.slow
def test_a_day_is_drafted_released_drawn_and_reported(tmp_path):
    city.write(tmp_path)
    ledger = ("--ledger", "l.sqlite")
    released = ("release", "--spec", "spec.toml", *ledger, "--input", "feed.csv", "--output", "out")
    for asked in (
        ("spec", "new", "--sample", "feed.csv", "--output", "draft.toml"),
        ("init", "--spec", "spec.toml", *ledger),
        (*released, "--from", city.DAYS[0], "--to", city.DAYS[0], "--formats", "parquet,avro,csv"),
        ("map", "--input", "out/*.parquet", "--output", "map.html"),
        ("report", "--spec", "spec.toml", *ledger, "--output", "report.html"),
        ("ledger", "verify", *ledger),
    ):
        code, err, _ = ask(tmp_path, *asked)
        assert code == 0, err


ASKED = {
    "postgres": ("init", "--spec", "spec.toml", "--ledger", "postgresql://somebody@127.0.0.1:1/hats", "--key", "k"),
    "kafka": (
        "release", "--spec", "spec.toml", "--ledger", "l.sqlite", "--input", "feed.csv", "--output", "out",
        "--from", city.DAYS[0], "--to", city.DAYS[0], "--kafka-output", "127.0.0.1:1/hats",
    ),
    "flink": (
        "stream", "--spec", "spec.toml", "--ledger", "l.sqlite", "--folder", ".", "--output", "out",
        "--metrics", "127.0.0.1:0", "--local",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A folder with a feed, a specification and its account."""
    folder = tmp_path_factory.mktemp("extras")
    city.write(folder)
    assert ask(folder, "init", "--spec", "spec.toml", "--ledger", "l.sqlite")[0] == 0
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize("extra", ASKED)
def test_a_missing_extra_is_one_sentence_and_wrong_use_before_anything_is_spent(extra, opened):
    code, err, out = ask(opened, *ASKED[extra])
    package = next(name for name in EXTRA_OF if EXTRA_OF[name] == extra and name in err)
    assert (code, out) == (1, "")
    assert err == f"hatstream: {package} is not installed: pip install 'hatstream[{extra}]'"
    if extra == "kafka":  # the one that would have spent
        assert '"entries":1' in ask(opened, "ledger", "verify", "--ledger", "l.sqlite", "--json")[2]


def test_only_packages_of_extras_are_told_to_be_installed():
    require("matplotlib")
    assert str(missing(ModuleNotFoundError(name="matplotlib.axes"))).endswith("'hatstream[lab]'")
    assert missing(ModuleNotFoundError(name="matplotlibs")) is None
    assert missing(ValueError("matplotlib")) is None
    assert issubclass(MissingExtra, ModuleNotFoundError)
