"""What `hatstream release` makes of its input and output folder: read from anywhere, or refused with the reason.

Where nothing can be used, nothing is sealed or spent.
"""

import gzip
from pathlib import Path

import pytest

from tests import city, levels_city
from tests.kit.static_server import object_store
from tests.pipelines.commands.releases import denied, files_in, spent_by
from tests.pipelines.runs.on_beam import OPTIONS, put_in_the_place_of_flink
from transforms.errors import StepError
from transforms.layouts.open_file import fetched, is_remote

FIRST, LAST = city.DAYS


def test_an_input_that_may_not_be_read_is_named_with_the_reason(town, hatstream, monkeypatch):
    monkeypatch.setattr("transforms.layouts.mapped.csv.opened_text", denied)
    assert city.refused(hatstream, *city.release(town)) == f"hatstream: {town / 'feed.csv'}: Permission denied\n"
    assert spent_by(hatstream, town) == []


def test_an_output_folder_that_may_not_be_written_is_noticed_before_anything_is_spent(town, hatstream, monkeypatch):
    monkeypatch.setattr("pipelines.job.locked", denied)
    err = city.refused(hatstream, *city.release(town))
    assert err == f"hatstream: the output folder {town / 'out'} cannot be written: Permission denied\n"
    assert spent_by(hatstream, town) == []


def test_a_look_at_the_input_needs_no_folder_for_results_and_a_release_does(town, hatstream):
    asked = city.release(town)
    start = asked.index("--output")
    without = asked[:start] + asked[start + 2 :]
    checked = city.told(hatstream, *without, "--check-input")["operator_only"]
    assert [period["slots_with_rows"] for period in checked["periods"]] == [3, 3]
    assert city.refused(hatstream, *without, code=1) == "hatstream: give --output, a folder for the results\n"
    assert spent_by(hatstream, town) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("broken", ["transforms.sinks.rows.write_whole", "transforms.ledger.head.Head.advance"])
def test_a_failure_after_recording_says_that_the_same_command_publishes_what_was_recorded(
    town, hatstream, monkeypatch, broken
):
    with monkeypatch.context() as patch:
        patch.setattr(broken, denied)
        err = city.refused(hatstream, *city.release(town))
    assert "Permission denied. The release is recorded; running the same command again publishes it." in err
    assert files_in(town / "out") == {}
    city.done(hatstream, *city.release(town))
    assert len(files_in(town / "out")) == 8 * 4


def test_a_folder_is_all_the_files_in_it_but_hidden_ones(town, hatstream):
    (town / "feed" / "of-may").mkdir(parents=True)
    (town / "feed.csv").rename(town / "feed" / "of-may" / "a.csv")
    (town / "feed" / ".part").write_text("half a file")
    assert city.told(hatstream, *city.release(town, "--input", town / "feed"))["rows"] > 0


@pytest.mark.parametrize("command", ["release", "plan", "map", "report"])
def test_an_input_that_is_given_twice_is_refused_and_none_of_them_is_left_out(town, hatstream, command):
    twice = [option for name in ("a.csv", "feed.csv") for option in ("--input", town / name)]
    output = () if command == "plan" else ("--output", town / "out")
    err = city.refused(hatstream, command, "--spec", town / "spec.toml", *twice, *output, code=1)
    assert "'--input': one folder or quoted pattern, not 2" in err
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
    err = city.refused(hatstream, *city.release(town, "--json"))
    assert said in err
    assert "nothing was recorded or spent" in err
    assert files_in(town / "out") == {}
    city.write(town)
    assert city.told(hatstream, *city.release(town))["slots_new"] == 8


# --- files that cannot be decoded: they stop a release, or are dead letters with their names ---

PAGE = b"<!DOCTYPE html><title>maintenance</title>"


@pytest.fixture(params=["here", "engine"])
def where(request, monkeypatch):
    """On this machine, and as the bounded pipeline."""
    if request.param == "here":
        return []
    put_in_the_place_of_flink(monkeypatch)
    return OPTIONS


@pytest.fixture
def parquet(tmp_path, hatstream):
    """Two files that are read, and one that is a page."""
    city.write_parquet(tmp_path)
    (tmp_path / "feed-c.parquet").write_bytes(PAGE)
    assert hatstream(*city.init(tmp_path))[0] == 0
    return tmp_path


@pytest.mark.few(1)
def test_one_file_of_many_stops_the_release_or_is_left_out_by_name(parquet, hatstream, where):
    err = city.refused(hatstream, *city.release(parquet, "--json", feed="feed-*.parquet"), *where)
    assert f"{parquet}/feed-c.parquet: " in err
    assert spent_by(hatstream, parquet) == []

    summary = city.told(hatstream, *city.release(parquet, "--skip-unreadable", feed="feed-*.parquet"), *where)
    assert summary["refused"]["read/unreadable-file"] == 1
    assert [name.partition(": ")[0] for name in summary["files_left_out"]] == [f"{parquet}/feed-c.parquet"]
    assert summary["rows"] == 127 + 1 == summary["observations"] + summary["duplicates"] + 1


def test_an_input_of_pages_alone_is_refused_nevertheless(parquet, hatstream, where):
    for name in ("feed-a.parquet", "feed-b.parquet"):
        (parquet / name).write_bytes(PAGE)
    err = city.refused(hatstream, *city.release(parquet, "--skip-unreadable", feed="feed-*.parquet"), *where)
    assert err.startswith("hatstream: no file of the input can be decoded")
    assert (spent_by(hatstream, parquet), files_in(parquet / "out")) == ([], {})


def test_so_it_is_under_secret_counts_where_no_row_decides_anything(tmp_path, hatstream):
    city.opened(tmp_path, hatstream, spec=levels_city.SPEC)
    (tmp_path / "page.csv").write_bytes(PAGE)
    err = city.refused(hatstream, *city.release(tmp_path, "--json", "--skip-unreadable", feed="page.csv"))
    assert "no file of the input can be decoded" in err
    summary = city.told(hatstream, *city.release(tmp_path, "--skip-unreadable", feed="*.csv"))
    assert [name.partition(": ")[0] for name in summary["operator_only"]["files_left_out"]] == [f"{tmp_path}/page.csv"]


# --- periods without rows: they are sealed for ever, so the operator must say that they are empty ---


WORKDAYS = '[slot]\nweekdays = ["mon", "tue", "wed", "thu", "fri"]'  # both days are none of them


@pytest.mark.few(1)
@pytest.mark.parametrize("runner", [(), ("--runner", "FnApiRunner")])
@pytest.mark.parametrize("spec", [city.SPEC, levels_city.SPEC])
def test_days_on_which_nothing_is_released_are_done_and_have_no_files(tmp_path, hatstream, spec, runner):
    city.opened(tmp_path, hatstream, spec=spec.replace("[slot]", WORKDAYS))
    assert hatstream(*city.release(tmp_path, *runner))[0] == 0
    assert files_in(tmp_path / "out") == {}


def test_yesterdays_file_under_todays_date_is_refused_and_the_right_file_later_is_released(town, hatstream):
    city.write(town, lines=city.rows(days=(FIRST,)))
    err = city.refused(hatstream, *city.release(town, start=LAST, end=LAST))
    assert f"of the 63 rows none is of {LAST}; nothing was recorded or spent" in err
    assert "63 refused: parse/outside-range" in err
    assert "--allow-empty" in err
    assert (spent_by(hatstream, town), files_in(town / "out")) == ([], {})
    city.write(town)
    assert hatstream(*city.release(town, start=LAST, end=LAST))[0] == 0


@pytest.mark.parametrize(
    "spec",
    [
        city.SPEC,
        city.SPEC.replace('per = "hat"', 'per = "period"\nscope = "period"'),
        city.SPEC.replace('"occupied"', '["876181ab6ffffff"]'),  # rows of the day, but none in the region
    ],
)
def test_a_file_without_rows_is_refused_under_every_plan(tmp_path, hatstream, spec):
    city.opened(tmp_path, hatstream, spec=spec, lines=city.rows() if "ffffff" in spec else [])
    assert f"none is of {FIRST}, {LAST};" in city.refused(hatstream, *city.release(tmp_path))


def test_a_period_of_which_a_slot_is_open_needs_rows(town, hatstream):
    city.write(town)
    assert hatstream(*city.release(town, start=FIRST, end=f"{FIRST}T11:00"))[0] == 0
    city.write(town, lines=[])
    assert hatstream(*city.release(town, start=FIRST, end=FIRST))[0] == 4


# --- a feed as an agency has it: local times without an offset, another delimiter, compressed ---

LOCAL = city.SPEC + 'time_zone = "Asia/Kolkata"\ndelimiter = ";"\n'


def test_a_feed_in_local_time_is_released_slot_by_slot_as_one_with_offsets(tmp_path, hatstream):
    lines = [line.replace("+05:30", "").replace(",", ";") for line in city.rows()]
    _, feed = city.write(tmp_path, spec=LOCAL, lines=lines)
    (tmp_path / "feed.csv.gz").write_bytes(gzip.compress(feed.read_bytes().replace(b",", b";")))
    feed.unlink()
    assert hatstream(*city.init(tmp_path))[0] == 0
    out = city.done(hatstream, *city.release(tmp_path, "--json", feed="feed.csv.gz"))
    assert f'"observations":{len(city.rows())}' in out
    assert any(b"\n" in data.strip() for name, data in files_in(tmp_path / "out").items() if name.endswith(".csv"))


def test_times_without_an_offset_are_refused_with_the_remedy(tmp_path, hatstream):
    city.write(tmp_path, lines=[line.replace("+05:30", "") for line in city.rows()])
    hatstream(*city.init(tmp_path))
    assert "set input.time_zone" in city.refused(hatstream, *city.release(tmp_path))


def test_how_a_feed_is_read_is_part_of_what_a_release_is(tmp_path):
    def spec_id(text):
        return city.loaded(tmp_path, text).spec_id

    ids = {spec_id(city.SPEC + more) for more in ("", 'time_zone = "UTC"', 'delimiter = ";"', "header = false")}
    assert len(ids) == 4
    assert spec_id(city.SPEC + 'delimiter = ","\nheader = true') == spec_id(city.SPEC)


# --- an object store ---


@pytest.fixture(scope="module")
def store():
    """An S3 in this process; its buckets are those of one test after another."""
    with object_store("fleet") as client:
        yield client


@pytest.mark.slow
def test_a_store_gives_the_bytes_and_digests_that_local_files_give(store, tmp_path, hatstream, monkeypatch):
    city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path))[0] == 0
    first = files_in(tmp_path / "out")
    head, *lines = (tmp_path / "feed.csv").read_text().splitlines(keepends=True)
    store.put_object(Bucket="fleet", Key="day/one.csv", Body=(head + "".join(lines[::2])).encode())
    store.put_object(Bucket="fleet", Key="day/two.csv.gz", Body=gzip.compress((head + "".join(lines[1::2])).encode()))
    arguments = city.release(tmp_path, feed="s3://fleet/day/*")
    assert hatstream(*arguments)[0] == 0, "another digest would be exit code 5"
    assert files_in(tmp_path / "out") == first
    put_in_the_place_of_flink(monkeypatch)
    assert hatstream(*arguments, *OPTIONS)[0] == 0
    assert "no input file matches" in city.refused(hatstream, *city.release(tmp_path, feed="s3://fleet/night/*"))


def test_what_cannot_be_read_is_named_as_it_is_in_the_store(store, tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    store.put_object(Bucket="fleet", Key="bad/feed.csv", Body=b"no,column,of,ours\n1,2,3,4\n")
    assert "s3://fleet/bad/feed.csv: " in city.refused(hatstream, *city.release(tmp_path, feed="s3://fleet/bad/*.csv"))


def test_nothing_that_was_fetched_has_a_name_on_disk(store, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store.put_object(Bucket="fleet", Key="some/feed.csv", Body=b"secret")
    with fetched("s3://fleet/some/feed.csv") as path:
        assert Path(path).read_bytes() == b"secret"
        assert path.endswith("feed.csv")
        (folder,) = tmp_path.iterdir()
        assert [path.is_symlink() for path in folder.iterdir()] == [True], "a link, which holds nothing"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StepError, match=r"s3://fleet/none: cannot be fetched"), fetched("s3://fleet/none"):
        pass


def test_a_store_that_nobody_knows_is_told_with_what_would_help(tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    err = city.refused(hatstream, *city.release(tmp_path, feed="nowhere://x/*"))
    assert "no file system is installed for nowhere://" in err
    assert not is_remote("feed/*.csv")
    assert not is_remote("C:/feed.csv")
