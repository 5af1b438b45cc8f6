"""The scheduled job as one bounded pipeline: it releases and refuses what the job of one machine does."""

import json

import pytest

from pipelines.runs.beam import judge
from pipelines.specification import load
from tests import city, levels_city
from tests.pipelines.commands.releases import files_in, said_again
from tests.pipelines.runs import test_derived_speed
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink
from transforms.failpoints import FailpointError, acting

WHOLE = city.SPEC.replace('per = "hat"', 'per = "period"\nscope = "period"\ncomposition = "clip-user"')
SHARDED = city.SPEC.replace(
    'per = "hat"', 'per = "hat"\ncomposition = "cap"\nmax_cells = 2\nmax_samples = 2\nrelease_shards = 3'
)


@pytest.fixture(autouse=True)
def on_beam(monkeypatch):
    put_in_the_place_of_flink(monkeypatch)


def audited(folder):
    """Units that differed from what was recorded, and those that were drawn again."""
    ledger = city.account(folder).ledger
    (account,) = ledger.accounts()
    return tuple(ledger.audit(account.name))


def digests(folder):
    spec, ledger = load(folder / "spec.toml"), city.account(folder).ledger
    return [entry.unit.digest for entry in ledger.stages(spec.account.name, spec.spec_id)]


def entries(folder, hatstream):
    return city.done(hatstream, "ledger", "verify", "--ledger", folder / "ledger.sqlite")


def check_equal(folder, hatstream, arguments):
    """On the engine, then on this machine, on one ledger: that compares digests and plans."""
    summary = city.told(hatstream, *arguments, *OPTIONS)
    first = files_in(folder / "out")
    (folder / "out").rename(folder / "first")
    assert summary["slots_new"] > 0
    again = city.told(hatstream, *arguments)
    assert again["slots_new"] == again["slots_that_differ_now"] == 0
    assert said_again(again) == said_again(summary)
    assert files_in(folder / "out") == first
    entries(folder, hatstream)
    return summary


def check_drawn_in_vain(folder, hatstream, arguments):
    """On the engine, then on this machine, which draws all stages again of the same sums."""
    summary = city.told(hatstream, *arguments, *OPTIONS)
    stages, first = digests(folder), files_in(folder / "out")
    (folder / "out").rename(folder / "first")
    again = city.told(hatstream, *arguments)
    assert (again["periods"], files_in(folder / "out")) == (summary["periods"], first)
    assert audited(folder) == (0, len(stages))


@pytest.mark.parametrize("spec", [WHOLE, pytest.param(SHARDED, marks=pytest.mark.slow)])
def test_it_releases_what_the_job_of_one_machine_releases(tmp_path, hatstream, spec):
    city.opened(tmp_path, hatstream, spec=spec, lines=[*city.rows(), *city.rows()[:5], "PLATE1,no time,21,72,3\n"])
    summary = check_equal(tmp_path, hatstream, city.release(tmp_path))
    assert (summary["rows"], summary["duplicates"], summary["refused"]) == (132, 5, {"parse/bad-time": 1})


def test_files_are_read_by_row_groups(tmp_path, hatstream, monkeypatch):
    monkeypatch.setattr("pipelines.runs.beam.reading.SHARE_BYTES", 500)
    city.write_parquet(tmp_path)
    assert hatstream(*city.init(tmp_path))[0] == 0
    summary = check_equal(tmp_path, hatstream, city.release(tmp_path, feed="feed-*.parquet"))
    assert (summary["rows"], summary["duplicates"]) == (127, 1)


def test_periods_by_levels_rest_on_those_before_them(tmp_path, hatstream):
    levels_city.opened(tmp_path, hatstream)
    check_drawn_in_vain(tmp_path, hatstream, city.release(tmp_path))


def test_speeds_are_derived_over_a_whole_day_of_each_vehicle(tmp_path, hatstream):
    header, lines = test_derived_speed.rows(buses=6)
    (tmp_path / "spec.toml").write_text(test_derived_speed.SPEC)
    (tmp_path / "feed.csv").write_text(header + "".join(lines))
    assert hatstream(*city.init(tmp_path))[0] == 0
    arguments = city.release(tmp_path, start=city.DAYS[0], end=city.DAYS[0])
    check_drawn_in_vain(tmp_path, hatstream, arguments)


STREETS = {"north": [[72.83, 21.16], [72.83, 21.22]], "south": [[72.83, 21.22], [72.83, 21.16]]}


@pytest.mark.slow
@pytest.mark.parametrize("of_rows", [True, False])
def test_places_of_one_direction_are_those_of_this_machine(tmp_path, hatstream, of_rows):
    """By a column of headings, or by the way from each vehicle's row before."""
    features = [
        {"properties": {"name": name, "directed": True}, "geometry": {"type": "LineString", "coordinates": line}}
        for name, line in STREETS.items()
    ]
    (tmp_path / "s.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    spec = levels_city.SPEC + "derived_heading = { max_gap_s = 900, min_m = 15 }\n" * (not of_rows)
    spec = spec.replace('speed = "v"', 'heading = "h", speed = "v"') if of_rows else spec
    rows = levels_city.rows(city.DAYS[:1])
    lines = [f"{line.strip()},{('180', '0', '359', '')[number % 4]}\n" for number, line in enumerate(rows)]
    levels_city.write(tmp_path, spec=spec + '[places]\nfile = "s.geojson"\n', lines=lines)
    feed = tmp_path / "feed.csv"
    feed.write_text(feed.read_text().replace("lat,lon,v\n", "lat,lon,v,h\n"))
    assert hatstream(*city.init(tmp_path))[0] == 0
    arguments = city.release(tmp_path, start=city.DAYS[0], end=city.DAYS[0])
    check_drawn_in_vain(tmp_path, hatstream, arguments)
    feed.write_text(feed.read_text().replace(*((",180\n", ",\n") if of_rows else (":13:0", ":20:0"))))
    assert hatstream(*arguments)[0] == 0
    assert audited(tmp_path)[0] == 1, "the look at places alone is of other sums"


def test_a_second_run_says_what_the_first_said_and_one_of_other_input_that_it_differs(tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    arguments = city.release(tmp_path, *OPTIONS)
    first, files = city.told(hatstream, *arguments), files_in(tmp_path / "out")
    assert said_again(city.told(hatstream, *arguments)) == said_again(first)
    assert files_in(tmp_path / "out") == files
    city.write(tmp_path, lines=city.rows()[1:])
    assert city.told(hatstream, *arguments, code=5)["slots_that_differ_now"] == 1
    assert files_in(tmp_path / "out") == files


def refused(folder, hatstream, code):
    """The words of a release on the engine, which are those of one here; the ledger stays as it was."""
    before, arguments = entries(folder, hatstream), city.release(folder)
    said = city.refused(hatstream, *arguments, *OPTIONS, code=code)
    assert (entries(folder, hatstream), files_in(folder / "out")) == (before, {})
    assert city.refused(hatstream, *arguments, code=code) == said
    return said


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["PLATE1,no time,21,72,3\n"] * 5, "none of the 5 rows is usable"),
        (city.rows(days=city.DAYS[:1]), f"of the 63 rows none is of {city.DAYS[1]}"),
        ([], "of the 0 rows none is of"),
    ],
)
def test_an_input_without_usable_rows_of_a_day_seals_nothing(tmp_path, hatstream, lines, said):
    city.opened(tmp_path, hatstream, lines=lines)
    assert said in refused(tmp_path, hatstream, 4)


@pytest.mark.parametrize("levels", [False, True])
def test_over_the_limit_nothing_is_recorded_and_the_words_are_the_same(tmp_path, hatstream, levels):
    if levels:
        levels_city.opened(tmp_path, hatstream, spec=levels_city.SPEC.replace("limit = 2.64", "limit = 1"))
    else:
        city.opened(tmp_path, hatstream, spec=city.SPEC.replace("limit = 50", "limit = 5"))
    refused(tmp_path, hatstream, 3)


def test_a_range_that_is_not_over_and_options_that_do_not_fit_are_wrong_use(tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path, *OPTIONS, start="2098-12-31", end="2099-01-01"))[0] == 1
    for more, words in (
        (["--runner", "flink"], "needs --job-server, --worker-pool and --rest"),
        (["--parallelism", "2"], "go with --runner flink"),
        ([*OPTIONS, "--check-input"], "--check-input runs on this machine alone"),
    ):
        assert words in city.refused(hatstream, *city.release(tmp_path, *more), code=1)


@pytest.mark.parametrize("place", [pytest.param("after-noise", marks=pytest.mark.slow), "after-commit"])
def test_what_is_drawn_again_after_a_fault_gives_what_was_recorded_first(tmp_path, hatstream, place):
    """As an engine does with a stage: everything is drawn anew, and the ledger keeps the first."""
    city.opened(tmp_path, hatstream)

    def fail(name, passage):
        if (name, passage) == (place, 2):
            raise FailpointError(name)

    with acting(fail):
        assert hatstream(*city.release(tmp_path, *OPTIONS))[0] == 4
    assert city.told(hatstream, *city.release(tmp_path, *OPTIONS))["slots_that_differ_now"] == 0
    files = files_in(tmp_path / "out")
    assert hatstream(*city.release(tmp_path, "--json"))[0] == 0
    assert files_in(tmp_path / "out") == files


def test_a_verdict_is_read_back_as_it_was_written():
    facts = [
        json.dumps({"rows": 7, "refused/parse/bad-time": 2, "period/2022-01-01": 5}).encode(),
        json.dumps(["2022-01-01", [["s", 0, 0, "3/7"]], ["1", "2/3", "1"]]).encode(),
    ]
    verdict = judge.verdict_on(facts, 2, ["2022-01-01"], lambda _: [])
    assert judge.decode_verdict(judge.encode_verdict(verdict)) == verdict
    debit = str(verdict.outcome.debits["2022-01-01"].pure)
    assert (verdict.consents, verdict.outcome.observations, debit) == (True, 5, "3/7")
