"""The commands that the documents print exist with their options; deployment files fit the locked versions."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.cli import COMMANDS, hatstream, main
from pipelines.specification import load

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
