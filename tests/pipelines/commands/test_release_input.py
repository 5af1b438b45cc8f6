"""`hatstream release` where input or output cannot be used: nothing is sealed or spent, and the reason is said."""

import pytest

from tests import city
from tests.pipelines.commands.releases import denied, files_in, spent_by, summary_of


def test_an_input_that_may_not_be_read_is_named_with_the_reason(town, hatstream, monkeypatch):
    monkeypatch.setattr("transforms.layouts.mapped.csv.opened_text", denied)
    code, out, err = hatstream(*city.release(town))
    assert (code, out, err) == (4, "", f"hatstream: {town / 'feed.csv'}: Permission denied\n")
    assert spent_by(hatstream, town) == []


def test_an_output_folder_that_may_not_be_written_is_noticed_before_anything_is_spent(town, hatstream, monkeypatch):
    monkeypatch.setattr("pipelines.outputs.locked", denied)
    code, out, err = hatstream(*city.release(town))
    assert (code, out) == (4, "")
    assert err == f"hatstream: the output folder {town / 'out'} cannot be written: Permission denied\n"
    assert spent_by(hatstream, town) == []


def test_a_look_at_the_input_needs_no_folder_for_results_and_a_release_does(town, hatstream):
    asked = city.release(town)
    start = asked.index("--output")
    without = asked[:start] + asked[start + 2 :]
    code, out, _ = hatstream(*without, "--check-input", "--json")
    assert (code, [period["slots_with_rows"] for period in summary_of(out)["operator_only"]["periods"]]) == (0, [3, 3])
    code, out, err = hatstream(*without)
    assert (code, out, err) == (1, "", "hatstream: give --output, a folder for the results\n")
    assert spent_by(hatstream, town) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("broken", ["transforms.sinks.rows.write_whole", "transforms.ledger.head.Head.advance"])
def test_a_failure_after_recording_says_that_the_same_command_publishes_what_was_recorded(
    town, hatstream, monkeypatch, broken
):
    with monkeypatch.context() as patch:
        patch.setattr(broken, denied)
        code, out, err = hatstream(*city.release(town))
    assert (code, out) == (4, "")
    assert "Permission denied. The release is recorded; running the same command again publishes it." in err
    assert files_in(town / "out") == {}
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, len(files_in(town / "out"))) == (0, 8 * 4)


def test_a_folder_is_all_the_files_in_it_but_hidden_ones(town, hatstream):
    (town / "feed" / "of-may").mkdir(parents=True)
    (town / "feed.csv").rename(town / "feed" / "of-may" / "a.csv")
    (town / "feed" / ".part").write_text("half a file")
    code, out, _ = hatstream(*city.release(town, "--json", "--input", town / "feed"))
    assert (code, summary_of(out)["rows"] > 0) == (0, True)


@pytest.mark.parametrize("command", ["release", "plan", "map", "report"])
def test_an_input_that_is_given_twice_is_refused_and_none_of_them_is_left_out(town, hatstream, command):
    twice = [option for name in ("a.csv", "feed.csv") for option in ("--input", town / name)]
    output = () if command == "plan" else ("--output", town / "out")
    code, out, err = hatstream(command, "--spec", town / "spec.toml", *twice, *output)
    assert (code, out, "'--input': one folder or quoted pattern, not 2" in err) == (1, "", True)
    assert spent_by(hatstream, town) == []


OUTSIDE = "PLATE0,2021-12-31T08:00:00+05:30,21.17,72.83,7\n"
NO_SPEED = "PLATE0,2022-01-01T08:00:00+05:30,21.17,72.83,fast\n"
BROKEN = "PLATE0,yesterday,21.17,72.83,7\n"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("spec", "lines", "said"),
    [
        (city.SPEC, [BROKEN], "1 refused: parse/bad-time"),
        (city.SPEC, [BROKEN, BROKEN, OUTSIDE], "1 refused: parse/outside-range"),
        (city.SPEC, ["one,two\n"], "1 refused: read/malformed"),
        (city.SPEC, [NO_SPEED, *[OUTSIDE] * 9], "1 refused: parse/bad-speed"),
        (city.SPEC + 'time_unit = "s"\n', ["A,1641006000000,21,72,9\n"], "implausible-time"),
        (city.SPEC.replace('"csv"', '"jsonl"'), None, "read/malformed"),
    ],
)
def test_an_input_of_which_no_row_is_usable_seals_nothing_and_spends_nothing(town, hatstream, spec, lines, said):
    city.write(town, spec=spec, lines=lines)
    code, out, err = hatstream(*city.release(town, "--json"))
    assert (code, out) == (4, "")
    assert said in err
    assert "nothing was recorded or spent" in err
    assert files_in(town / "out") == {}
    city.write(town)
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, summary_of(out)["slots_new"]) == (0, 8)
