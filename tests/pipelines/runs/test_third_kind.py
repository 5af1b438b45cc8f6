"""A third kind of release is one file and a line in a registry, whoever names it and whoever runs it."""

import pytest

from pipelines.specification import SpecificationError, load
from pipelines.specification.schema import reference, schema
from tests import city
from tests.pipelines.commands.releases import files_in, summary_of
from transforms.releases.registry import KINDS, Kind

RUNNERS = ("local", "FnApiRunner")
ASKED = "[in_turn]\nmost_hats = 3\n"


@pytest.fixture(autouse=True)
def third(monkeypatch):
    """The line."""
    kind = Kind("tests.pipelines.runs.in_turn:InTurn", table="in_turn", worded="hats")
    monkeypatch.setitem(KINDS, "in-turn", kind)


@pytest.mark.parametrize("first", RUNNERS)
def test_a_kind_that_a_specification_names_runs_here_and_in_a_pipeline_with_the_same_bytes(tmp_path, hatstream, first):
    city.write(tmp_path, spec=city.SPEC + ASKED)
    assert hatstream(*city.init(tmp_path))[0] == 0
    day = {"start": city.DAYS[0], "end": city.DAYS[0]}
    files_of = {}
    for runner in sorted(RUNNERS, key=lambda name: name != first):
        code, out, err = hatstream(*city.release(tmp_path, "--json", **day), "--runner", runner)
        assert (code, err) == (0, "")
        assert summary_of(out)["slots_new"] == (4 if runner == first else 0)
        (tmp_path / "out").rename(tmp_path / runner)
        files_of[runner] = files_in(tmp_path / runner)
    assert files_of[first]
    assert len({str(sorted(files.items())) for files in files_of.values()}) == 1


def test_a_period_over_the_limit_is_refused_before_it_is_drawn(tmp_path, hatstream):
    city.write(tmp_path, spec=city.SPEC.replace("limit = 50", "limit = 11") + ASKED)
    assert hatstream(*city.init(tmp_path))[0] == 0
    for runner in RUNNERS:
        assert hatstream(*city.release(tmp_path), "--runner", runner)[0] == 3
        assert files_in(tmp_path / "out") == {}


def test_its_table_decides_the_specification_and_is_in_the_documents(tmp_path):
    hats = load(city.write(tmp_path)[0])
    three, four = (load(city.write(tmp_path, spec=city.SPEC + ASKED.replace("3", most))[0]) for most in "34")
    assert (hats.kind, three.kind, three.kind_options.most_hats) == ("hats", "in-turn", 3)
    assert len({hats.spec_id, three.spec_id, four.spec_id}) == 3
    assert "## [in_turn]\n\nDraws slots in turn. May be left out.\n" in reference()
    assert "most_hats" in str(schema()["properties"]["in_turn"])


@pytest.mark.parametrize(
    ("table", "said"),
    [("most_hats = 0", "most_hats"), ("most_hat = 3", "did you mean"), ("most_hats = 3\nelse = 1", "else")],
)
def test_what_is_wrong_in_its_table_is_named(tmp_path, table, said):
    with pytest.raises(SpecificationError, match=said):
        load(city.write(tmp_path, spec=f"{city.SPEC}[in_turn]\n{table}\n")[0])
