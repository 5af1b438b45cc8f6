"""The steps to release a feed work as docs/release.md prints them, on the sample that `make run` leaves."""

import re
import shlex
from pathlib import Path

import pytest

from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.cli import main
from pipelines.specification import load

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
