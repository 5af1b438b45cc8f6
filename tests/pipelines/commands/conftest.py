"""`hatstream plan`, as several tests call it."""

import json

import pytest

from pipelines.cli import main
from pipelines.plan import needs

_KNOWN = {}
_half_width = needs._half_width


def _remembered(spec, *asked):
    """How wide an interval is depends on grid, mechanism, epsilon and number of vehicles alone: worked out once for all
    plans."""
    key = (spec.value.grid, *asked)
    if key not in _KNOWN:
        _KNOWN[key] = _half_width(spec, *asked)
    return _KNOWN[key]


@pytest.fixture
def plan(tmp_path, capsys, monkeypatch):
    """Runs `hatstream plan` on a specification and, if given, a file of counts; returns code, output, errors."""
    monkeypatch.setattr(needs, "_half_width", _remembered)

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
