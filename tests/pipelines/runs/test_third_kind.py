"""A third kind of release is one file and one line of a registry, whoever runs it."""

import pytest

from tests import city
from tests.pipelines.commands.releases import files_in, summary_of
from transforms.releases.registry import KINDS, Kind

RUNNERS = ("local", "FnApiRunner")


@pytest.mark.parametrize("first", RUNNERS)
def test_a_kind_that_a_line_names_runs_here_and_in_a_pipeline_with_the_same_bytes(
    tmp_path, hatstream, monkeypatch, first
):
    monkeypatch.setitem(KINDS, "hats", Kind("tests.pipelines.runs.in_turn:InTurn"))
    city.write(tmp_path)
    assert hatstream(*city.init(tmp_path))[0] == 0
    day = {"start": city.DAYS[0], "end": city.DAYS[0]}
    found = {}
    for runner in sorted(RUNNERS, key=lambda name: name != first):
        code, out, err = hatstream(*city.release(tmp_path, "--json", **day), "--runner", runner)
        assert (code, err) == (0, "")
        assert summary_of(out)["slots_new"] == (4 if runner == first else 0)
        (tmp_path / "out").rename(tmp_path / runner)
        found[runner] = files_in(tmp_path / runner)
    assert found[first]
    assert len({str(sorted(files.items())) for files in found.values()}) == 1


def test_a_period_over_the_limit_is_refused_before_it_is_drawn(tmp_path, hatstream, monkeypatch):
    monkeypatch.setitem(KINDS, "hats", Kind("tests.pipelines.runs.in_turn:InTurn"))
    city.write(tmp_path, spec=city.SPEC.replace("limit = 50", "limit = 11"))
    assert hatstream(*city.init(tmp_path))[0] == 0
    for runner in RUNNERS:
        assert hatstream(*city.release(tmp_path), "--runner", runner)[0] == 3
        assert files_in(tmp_path / "out") == {}
