"""Commands are imported when they are called, and errors become exit codes; documents print what exists."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines import option_types
from pipelines.cli import _CODE_BY_ERROR, COMMANDS, hatstream, main
from pipelines.specification import load
from tests import city
from tests.kit.results import CELLS, row, write
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.rows import FORMATS


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_where_the_table_says(name):
    command = hatstream.get_command(None, name)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", list(_CODE_BY_ERROR))
def test_every_error_with_an_exit_code_is_where_the_table_says(name):
    module, _, kind = name.rpartition(".")
    error = getattr(importlib.import_module(module), kind)
    assert issubclass(error, Exception)
    assert f"{error.__module__}.{error.__qualname__}" == name


def test_an_unknown_command_is_wrong_use(hatstream):
    assert "relase" in city.refused(hatstream, "relase", code=1)


LINES = """
import sys
from pathlib import Path
own = [m for n, m in sys.modules.items() if n.split(".")[0] in ("hatstream", "pipelines", "transforms", "dpops")]
files = {m.__file__ for m in own if getattr(m, "__file__", None)}
print(sum(len(Path(file).read_text().splitlines()) for file in files))
"""


def said_by(program, *arguments):
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_help_of_all_commands_together_imports_little_and_nothing_that_computes():
    """Reading how a command is used, or that its options are wrong, costs what the command line costs, without Beam."""
    names = [[], *([name] for name in COMMANDS), *(["spec", verb] for verb in ("check", "new", "schema", "reference"))]
    names += [["ledger", verb] for verb in ("show", "verify", "missing")]
    ask = f"from pipelines.cli import main\nfor name in {names!r}:\n    assert main([*name, '--help']) == 0, name"
    heavy = "{'numpy', 'pyarrow', 'h3', 'sqlalchemy', 'fastavro', 'apache_beam', 'matplotlib', 'confluent_kafka'}"
    *shown, loaded, lines = said_by(f"{ask}\nimport sys\nprint(sorted({heavy} & set(sys.modules))){LINES}")
    assert loaded == "[]"
    assert {*COMMANDS} <= {line.split()[0] for line in shown if line.strip()}
    assert int(lines) < 4_600


def test_a_map_is_drawn_with_less_than_4_000_lines_of_ours(tmp_path):
    write(tmp_path / "hats.parquet", [row(cell, 6, 30.0) for cell in CELLS])
    ask = "import sys\nfrom pipelines.cli import main\nassert main(sys.argv[1:]) == 0"
    asked = ("map", "--input", str(tmp_path / "hats.parquet"), "--output", str(tmp_path / "map.html"))
    assert int(said_by(ask + LINES, *asked)[-1]) < 4_000


def test_what_options_offer_is_what_there_is():
    assert tuple(FORMATS) == option_types.FORMATS
    assert option_types.PRODUCTS == PRODUCTS


def test_every_command_that_is_called_takes_json():
    def leaves(command, *path):
        if not isinstance(command, click.Group):
            return [(path, command)]
        context = click.Context(command)
        inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        return [leaf for name, command in inner for leaf in leaves(command, *path, name)]

    prints_what_it_is_asked_for = {("spec", "schema"), ("spec", "reference")}
    without = {path for path, leaf in leaves(hatstream) if "--json" not in {o for p in leaf.params for o in p.opts}}
    assert without == prints_what_it_is_asked_for


# --- Commands that documents print exist with their options; deployment files fit the locked versions. ----------------


ROOT = Path(__file__).parents[2]
DATAFLOW = ROOT / "deploy" / "dataflow"


def commands_in(path):
    text = (ROOT / path).read_text().replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^ {4,6}hatstream (.*)$", text, re.MULTILINE)]


def parsed(words):
    """The command that the words name, and the options that they give it."""
    command = hatstream
    while isinstance(command, click.Group):
        command = command.get_command(None, words.pop(0))
    return command, {word for word in words if word.startswith("--")}


@pytest.mark.parametrize("path", ["docs/runbook.md", "deploy/dataflow/README.md", "deploy/flink/README.md"])
def test_printed_commands_have_the_options_that_they_are_printed_with(path):
    for words in commands_in(path):
        if words[0] in COMMANDS:
            command, given = parsed(words)
            assert given <= {name for option in command.params for name in option.opts}, command.name


def test_the_runbook_shows_how_to_find_and_fill_what_is_missing():
    shown = {tuple(words[:2]) for words in commands_in("docs/runbook.md")}
    assert {("ledger", subcommand) for subcommand in ("missing", "verify", "backup", "restore")} < shown
    assert {"init", "release", "stream"} <= {first for first, _ in shown}


def test_the_dataflow_image_has_the_beam_of_the_lock():
    (image,) = re.findall(r"^FROM apache/beam_python3\.11_sdk:(\S+)", (DATAFLOW / "Dockerfile").read_text(), re.M)
    assert f"\napache-beam=={image} " in "\n" + (ROOT / "requirements.lock").read_text()


def test_beam_knows_every_dataflow_option():
    program = ["sh", DATAFLOW / "beam-options.sh", "project", "region", "gs://bucket", "image"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    options = PipelineOptions(printed).get_all_options()
    assert {re.split("[-=]+", text)[1] for text in printed} - set(options) == {"no_use_public_ips"}
    assert options["use_public_ips"] is False


# --- the steps of docs/release.md, on the sample that make run leaves ---


PAGE = (Path(__file__).parents[2] / "docs" / "release.md").read_text()


@pytest.mark.slow
def test_the_steps_to_release_a_feed_work_as_they_are_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("build/demo").mkdir(parents=True)
    write_sample(MadeUpFleet(), Path("build/demo/sample.parquet"))
    write_timetable(MadeUpFleet(), Path("build/demo/town-gtfs.zip"))
    commands = re.findall(r"\.venv/bin/hatstream .*", PAGE.replace("\\\n", " "))
    asked = ["spec", "init", "release", "ledger", "ledger", "publish"]
    assert [shlex.split(command)[1] for command in commands] == asked
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    shown = capsys.readouterr().out
    spec = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)[0]
    assert Path("build/town.toml").read_text().startswith(spec)  # the page shows its beginning
    assert load(Path("build/town.toml")).spec_id in PAGE
    for line in (
        "account 'town-speeds': created",
        "38 files, first ... last:",
        "│ observations                    │ 267,871 │",
    ):
        assert line in shown
        assert line in PAGE
    assert Path("build/portal/datapackage.json").exists()
