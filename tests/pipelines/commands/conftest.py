"""`hatstream plan`, as several tests call it."""

import json

import pytest

from pipelines.cli import main


@pytest.fixture
def plan(tmp_path, capsys):
    """Runs `hatstream plan` on a specification and, if given, a file of counts; returns code, output, errors."""

    def run(spec, *options, counts=None, name="counts.csv"):
        (tmp_path / "spec.toml").write_text(spec)
        arguments = ["plan", "--spec", str(tmp_path / "spec.toml"), *options]
        if counts is not None:
            (tmp_path / name).write_text(counts)
            arguments += ["--counts", str(tmp_path / name)]
        code = main(arguments)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def planned(plan):
    """The document that --json prints."""

    def run(*arguments, **named):
        code, out, err = plan(*arguments, "--json", **named)
        assert (code, err) == (0, "")
        return json.loads(out)

    return run
