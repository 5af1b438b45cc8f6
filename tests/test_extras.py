"""The smallest set of packages is enough for all but what extras bring; a missing extra is named before work begins."""

import json
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
WITHOUT = f"""
import contextlib, hatstream.command, io, json, sys
sys.modules.update(dict.fromkeys({[*EXTRA_OF]!r}))
from pipelines.cli import main
"""
ASKING = f"""{WITHOUT}
for arguments in json.loads(sys.stdin.read()):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    print(json.dumps([code, err.getvalue().strip(), out.getvalue()]))
"""
IMPORTED = {
    "prometheus-client": "prometheus_client",
    "confluent-kafka": "confluent_kafka",
    "matplotlib": "matplotlib",
    "pillow": "PIL",
    "psycopg[binary]": "psycopg",
    "apache-beam[aws]": "boto3",
    "apache-beam[gcp]": "google.cloud",
}


def ask(folder, *commands):
    """As command lines answer where no extra is installed: of each its exit code, and what it says."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HATSTREAM_LEDGER": ""}
    lines = subprocess.run(
        [sys.executable, "-c", ASKING], input=json.dumps(commands), cwd=folder, env=environment,
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [tuple(json.loads(line)) for line in lines]


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


@pytest.mark.slow
def test_a_day_is_drafted_released_drawn_and_reported(tmp_path):
    city.write(tmp_path)
    ledger = ("--ledger", "l.sqlite")
    released = ("release", "--spec", "spec.toml", *ledger, "--input", "feed.csv", "--output", "out")
    answers = ask(
        tmp_path,
        ("spec", "new", "--sample", "feed.csv", "--output", "draft.toml"),
        ("init", "--spec", "spec.toml", *ledger),
        (*released, "--from", city.DAYS[0], "--to", city.DAYS[0], "--formats", "parquet,avro,csv"),
        ("map", "--input", "out/*.parquet", "--output", "map.html"),
        ("report", "--spec", "spec.toml", *ledger, "--output", "report.html"),
        ("ledger", "verify", *ledger),
    )
    assert [code for code, _, _ in answers] == [0] * 6, answers


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


def test_a_missing_extra_is_one_sentence_and_wrong_use_before_anything_is_spent(tmp_path):
    city.write(tmp_path)
    opening, verifying = ("init", "--spec", "spec.toml", "--ledger", "l.sqlite"), ("ledger", "verify", "--json")
    commands = (opening, *ASKED.values(), (*verifying, "--ledger", "l.sqlite"), *([name, "-h"] for name in COMMANDS))
    opened, *answers = ask(tmp_path, *commands)
    answers, verified, explained = answers[: len(ASKED)], answers[len(ASKED)], answers[len(ASKED) + 1 :]
    assert opened[0] == 0
    assert [code for code, _, _ in explained] == [0] * len(COMMANDS), "every command says how it is used"
    for extra, (code, err, out) in zip(ASKED, answers, strict=True):
        package = next(name for name in EXTRA_OF if EXTRA_OF[name] == extra and name in err)
        assert (code, out) == (1, "")
        assert err == f"hatstream: {package} is not installed: pip install 'hatstream[{extra}]'"
    assert '"entries":1' in verified[2]  # nothing was spent


def test_only_packages_of_extras_are_told_to_be_installed():
    require("matplotlib")
    assert str(missing(ModuleNotFoundError(name="matplotlib.axes"))).endswith("'hatstream[lab]'")
    assert missing(ModuleNotFoundError(name="matplotlibs")) is None
    assert missing(ValueError("matplotlib")) is None
    assert issubclass(MissingExtra, ModuleNotFoundError)
