"""`hatstream release` from files to rows: what is published, counted and said."""

import csv
import json
import random
from collections import defaultdict
from datetime import UTC, datetime

import h3
import numpy as np
import pytest

from pipelines.account import location
from pipelines.cli import main
from pipelines.errors import UsageError
from pipelines.inputs import closed_range, range_of, yesterday
from pipelines.job import Outputs
from pipelines.option_types import InputFiles
from pipelines.runs import release as scheduled
from pipelines.runs.beam import bounded
from pipelines.specification import load
from tests import city
from tests.pipelines.commands.releases import files_in, release_real, rows_in, spent_by
from transforms.ledger.head import LedgerError
from transforms.releases.hats.draw import release_shard
from transforms.time.calendar import Timetable


def test_no_second_run_of_any_input_changes_what_was_published_or_spends(town, hatstream, monkeypatch):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    assert len(first) == 8 * 4
    show = ("ledger", "show", "--ledger", town / "ledger.sqlite")
    (account,) = city.told(hatstream, *show)
    assert (city.told(hatstream, *city.release(town))["slots_new"], files_in(town / "out")) == (0, first)
    assert city.told(hatstream, *show) == [account | {"redrawn": 6}]
    lines = city.rows() * 3
    random.Random(1).shuffle(lines)
    city.write(town, lines=lines)
    with monkeypatch.context() as patch:
        patch.setattr(bounded, "PANE_ROWS", 7)
        done = city.told(hatstream, *city.release(town))
    assert (done["slots_that_differ_now"], done["duplicates"]) == (0, 2 * len(city.rows()))
    assert files_in(town / "out") == first, "order, duplicates and parts of the input change nothing"
    city.write(town, lines=[*city.rows(), "LATE,2022-01-01T08:30:00+05:30,21.17,72.83,9\n"])
    assert "1 slots were released before" in " ".join(city.done(hatstream, *city.release(town), code=5).split())
    assert files_in(town / "out") == first, "a late row is told to the operator and never released"
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0


def test_the_report_of_a_day_in_two_runs_counts_both(town, hatstream):
    day, noon = city.DAYS[0], f"{city.DAYS[0]}T09:00"
    morning = city.told(hatstream, *city.release(town, start=f"{day}T08:00", end=noon))["periods"]
    rest = city.told(hatstream, *city.release(town, start=noon, end=day))
    assert (morning[0]["sum_of_slot_maxima"], morning[0]["most_spent_by_a_vehicle"]) == (3, 3)
    assert (rest["periods"][0]["sum_of_slot_maxima"], rest["periods"][0]["most_spent_by_a_vehicle"]) == (9, None)
    assert "(epsilon 9)" in rest["guarantee"]


def test_every_slot_of_the_range_is_published_even_if_nothing_happened(town, hatstream):
    city.write(town, lines=[])
    done = city.told(hatstream, *city.release(town, "--allow-empty"))
    assert (done["rows"], done["slots_new"], len(done["files"])) == (0, 8, 32)
    assert [(period["sum_of_slot_maxima"], period["slots_with_data"]) for period in done["periods"]] == [(0, 0)] * 2
    assert rows_in(town / "out") == []


def test_an_empty_city_publishes_the_same_keys_as_a_full_one(tmp_path, hatstream):
    region = [h3.latlng_to_cell(21.17 + 0.02 * i, 72.83, 7) for i in range(4)]
    spec = city.SPEC.replace('"occupied"', json.dumps(region))
    keys = []
    for name, lines in (("full", None), ("empty", [])):
        (tmp_path / name).mkdir()
        city.opened(tmp_path / name, hatstream, spec=spec, lines=lines)
        assert hatstream(*city.release(tmp_path / name, "--allow-empty"))[0] == 0
        rows = rows_in(tmp_path / name / "out")
        keys.append([(row["slot_start"], row["cell"], row["statistic"]) for row in rows])
        assert {row["status"] for row in rows} == ({"ok", "no-data"} if lines is None else {"no-data"})
    assert keys[0] == keys[1]
    assert len(keys[0]) == 8 * 4


def test_rows_outside_range_service_and_region_are_counted_by_reason(tmp_path, hatstream):
    spec = city.SPEC.replace('"occupied"', json.dumps([h3.latlng_to_cell(21.17, 72.83, 7)]))
    lines = [
        "A,2022-01-01T08:10:00+05:30,21.17,72.83,9\n",
        "A,2022-01-01T07:59:59+05:30,21.17,72.83,9\n",
        "A,2022-01-03T08:10:00+05:30,21.17,72.83,9\n",
        "A,2022-01-01T08:20:00+05:30,22.17,72.83,9\n",
        "A,2022-01-01T08:20:00+05:30,21.17,72.83,fast\n",
    ]
    city.opened(tmp_path, hatstream, spec=spec, lines=lines)
    done = city.told(hatstream, *city.release(tmp_path, "--allow-empty"))
    assert done["refused"] == {
        "assign/outside-region": 1,
        "parse/bad-speed": 1,
        "parse/outside-range": 1,
        "parse/outside-service": 1,
    }
    assert (done["rows"], done["observations"]) == (5, 1)


def test_per_period_bounds_what_any_vehicle_spends_in_the_whole_period(tmp_path, hatstream):
    spec = city.changed(city.SPEC, ('per = "hat"', 'per = "period"'), ("epsilon = 1.0", "epsilon = 6"))
    city.opened(tmp_path, hatstream, spec=spec)
    done = city.told(hatstream, *city.release(tmp_path))
    for period in done["periods"]:
        assert period["sum_of_slot_maxima"] == pytest.approx(6 * 3 / 4)  # three of four slots had vehicles
        assert period["most_spent_by_a_vehicle"] == pytest.approx(6 * 3 / 4)
    assert {float(row["epsilon"]) for row in rows_in(tmp_path / "out")} == {6 / 4 / 3}


def test_a_cap_bounds_cells_and_samples_and_says_what_it_left_out(tmp_path, hatstream):
    capped = 'per = "hat"\ncomposition = "cap"\nmax_cells = 2\nmax_samples = 3'
    city.opened(tmp_path, hatstream, spec=city.SPEC.replace('per = "hat"', capped))
    done = city.told(hatstream, *city.release(tmp_path))
    assert [period["most_spent_by_a_vehicle"] for period in done["periods"]] == [6, 6]
    assert done["left_out_by_the_cap"] > 0
    assert done["observations"] == done["rows"]


def test_many_release_shards_publish_the_same_cells_and_charge_the_cap(tmp_path, hatstream):
    capped = 'per = "hat"\ncomposition = "cap"\nmax_cells = 3\nmax_samples = 99\nrelease_shards = {}'
    cells = []
    for shards in (1, 3):
        folder = tmp_path / str(shards)
        city.opened(folder, hatstream, spec=city.SPEC.replace('per = "hat"', capped.format(shards)))
        assert hatstream(*city.release(folder))[0] == 0
        cells.append([(row["slot_start"], row["cell"]) for row in rows_in(folder / "out")])
    assert cells[0] == cells[1]


@pytest.fixture(scope="module")
def unused_town(tmp_path_factory):
    """The small city with its account opened, of which nothing is ever released."""
    return city.opened(tmp_path_factory.mktemp("unused"), lambda *line: (main([*map(str, line)]),))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--from", "2022-01-01"], 1, "--to"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--yesterday"], 1, "--yesterday"),
        ([], 1, "--yesterday"),
        (["--from", "yesterday", "--to", "2022-01-01"], 1, "yesterday"),
        (["--from", "2022-01-02", "--to", "2022-01-01"], 1, "empty"),
        (["--from", "9999-12-31", "--to", "9999-12-31"], 1, "9999-12-31"),
        (["--from", "0001-01-01", "--to", "0001-01-01T12:00"], 1, "0001-01-01"),
        (["--from", "2022-01-01", "--to", "9999-12-31T23:00-12:00"], 1, "9999-12-31"),
        (["--from", "2022-01-01T08:30", "--to", "2022-01-01T10:00"], 1, "edge"),
        (["--from", "2099-12-29", "--to", "2099-12-30"], 1, "still to come"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--formats", "xml"], 1, "xml"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--runner", "NoRunner"], 1, "FlinkRunner"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--input", "nothing/*.csv"], 4, "nothing/"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--spec", "nothing.toml"], 2, "nothing.toml"),
    ],
)
def test_wrong_use_has_its_exit_code_and_says_what_is_wrong(unused_town, hatstream, arguments, code, said):
    base = city.release(unused_town, *arguments)
    cut = base.index("--from")
    assert said in city.refused(hatstream, *base[:cut], *base[cut + 4 :], code=code)
    assert not (unused_town / "out").exists()


@pytest.mark.parametrize("command", ["init", "release"])
@pytest.mark.parametrize(
    "url", ["://x", "sqlite+foo:///x", "mysql://user:secret@host/db", "postgresql://u:secret@host", "sqlite://"]
)
def test_what_cannot_be_a_ledger_is_said_before_a_key_is_asked_for(town, hatstream, command, url):
    arguments = {"init": city.init, "release": city.release}[command](town)
    arguments[arguments.index("--ledger") + 1] = url
    err = city.refused(hatstream, *arguments)
    assert "ledger" in err
    for unsaid in ("internal", "key", "secret"):
        assert unsaid not in err


def test_a_file_without_its_columns_is_refused_by_name_and_nothing_is_sealed(town, hatstream):
    (town / "feed.csv").write_text("bus,when\nA,1\n")
    assert city.refused(hatstream, *city.release(town)) == f"hatstream: {town / 'feed.csv'}: column 'ts' is missing\n"
    assert spent_by(hatstream, town) == []


def test_a_week_is_one_period_and_its_days_share_its_limit(tmp_path, hatstream):
    spec = city.SPEC.replace("vehicle-day", "vehicle-week").replace("limit = 50", "limit = 17")
    city.opened(tmp_path, hatstream, spec=spec)
    done = city.told(hatstream, *city.release(tmp_path, end="2022-01-01"))
    assert done["periods"][0]["period"] == "2021-W52"
    assert hatstream(*city.release(tmp_path, start="2022-01-02"))[0] == 3
    assert hatstream(*city.release(tmp_path, start="2022-01-02", end="2022-01-02T11:00"))[0] == 3


@pytest.mark.parametrize(
    "command", ["", "init", "release", "demo", "ledger", "ledger show", "ledger verify", "ledger missing"]
)
def test_every_command_explains_itself_with_an_example(hatstream, command):
    out = city.done(hatstream, *command.split(), "--help")
    assert "Example" in out


@pytest.mark.few(1)
@pytest.mark.parametrize("shard", range(3))
def test_the_shards_of_a_slot_share_the_largest_debit_whichever_of_them_is_empty(tmp_path, hatstream, shard):
    """One HAT an hour at epsilon 40, limit 50: an empty shard, which spends 0, must not stand for the slot."""
    lat = next(lat for lat in np.arange(20, 25, 0.01) if shard_of(float(lat), 3) == shard)
    capped = 'epsilon = 40.0\ncomposition = "cap"\nmax_cells = 1\nmax_samples = 5\nrelease_shards = 3'
    lines = [f"PLATE{bus},2022-01-01T{hour:02d}:00:00+05:30,{lat},72.83,{bus}\n" for hour in (8, 9) for bus in range(3)]
    city.opened(tmp_path, hatstream, spec=city.SPEC.replace("epsilon = 1.0", capped), lines=lines)
    assert "asks for 80" in city.refused(hatstream, *city.release(tmp_path, end="2022-01-01"), code=3)
    assert hatstream(*city.release(tmp_path, start="2022-01-01T08:00", end="2022-01-01T09:00"))[0] == 0
    assert hatstream(*city.release(tmp_path, start="2022-01-01T09:00", end="2022-01-01T10:00"))[0] == 3
    assert hatstream(*city.release(tmp_path, "--allow-empty", start="2022-01-01T10:00", end="2022-01-01T12:00"))[0] == 0


def shard_of(lat, shards):
    cell = h3.str_to_int(h3.latlng_to_cell(lat, 72.83, 7))
    return int(release_shard(np.array([cell], np.int64), shards)[0])


@pytest.mark.few(1)
@pytest.mark.parametrize("phase", ["observations read", "slots released"])
def test_of_two_copies_of_a_ledger_only_one_publishes_even_if_their_runs_overlap(town, phase):
    """The second run works on a copy while the first starts and ends: one head, one draw."""
    (town / "copy.sqlite").write_bytes(city.tamper(town).read_bytes())
    spec = load(town / "spec.toml")
    when = range_of(spec.timetable, *city.DAYS)
    first = []

    def release(ledger, folder, report):
        place = location.find(str(town / ledger), town / "ledger.key")
        scheduled.release(
            spec, when, InputFiles(str(town / "feed.csv")), Outputs(town / folder, ("csv",)), place, report
        )

    def meanwhile(reached, *_):
        if reached == phase and not first:
            first.append(reached)
            release("ledger.sqlite", "one", lambda *_: None)

    with pytest.raises(LedgerError, match="rolled back or replaced"):
        release("copy.sqlite", "other", meanwhile)
    assert len(files_in(town / "one")) == 8
    assert files_in(town / "other") == {}


# --- a range of time is over before it is released ---


KOLKATA = Timetable("Asia/Kolkata", "vehicle-day", 60)
MIDNIGHT = datetime(2026, 3, 1, 18, 30, tzinfo=UTC)  # in Kolkata, when 1 March ends


def test_a_day_can_be_released_as_soon_as_it_is_over():
    assert closed_range(KOLKATA, "2026-03-01", "2026-03-01", MIDNIGHT).to_s == MIDNIGHT.timestamp()
    before = datetime(2026, 3, 1, 18, 29, 59, tzinfo=UTC)
    with pytest.raises(UsageError, match=r"2026-03-02T00:00:00\+05:30, which is still to come"):
        closed_range(KOLKATA, "2026-03-01", "2026-03-01", before)


def test_yesterday_is_a_day_on_the_clock_of_the_zone():
    assert yesterday(KOLKATA, MIDNIGHT) == closed_range(KOLKATA, "2026-03-01", "2026-03-01", MIDNIGHT)
    assert yesterday(KOLKATA, MIDNIGHT).periods == ("2026-03-01",)


# --- known figures of real telemetry ---


@pytest.mark.slow
def test_four_days_of_austin_give_the_known_figures(telemetry, tmp_path, hatstream):
    done = release_real(hatstream, tmp_path, city.AUSTIN, telemetry / "capmetro/*.csv", "2016-11-24", "2016-11-27")
    assert (done["rows"], done["observations"], done["duplicates"], done["refused"]) == (115_088, 115_088, 0, {})
    assert [period["hats"] for period in done["periods"]] == [1529, 1580, 1715, 1530]
    assert [period["sum_of_slot_maxima"] for period in done["periods"]] == [223, 199, 235, 226]
    assert [period["most_spent_by_a_vehicle"] for period in done["periods"]] == [123, 133, 141, 125]
    assert len(done["files"]) == 96
    assert len(rows_in(tmp_path / "out")) == 6354


def test_with_hardly_any_noise_the_means_are_those_of_an_independent_count(telemetry, tmp_path, hatstream):
    spec = city.AUSTIN.replace("epsilon = 1.0", "epsilon = 1000000").replace('"array-average"', '"baseline"')
    spec = spec.replace("limit = 300", "limit = 1000000000")
    release_real(hatstream, tmp_path, spec, telemetry / "capmetro/2016-11-24.csv", "2016-11-24", "2016-11-24")
    speeds = defaultdict(list)
    with (telemetry / "capmetro/2016-11-24.csv").open() as file:
        for row in csv.DictReader(file):
            slot = datetime.fromisoformat(row["timestamp"]).replace(minute=0, second=0).isoformat()
            cell = h3.latlng_to_cell(float(row["latitude"]), float(row["longitude"]), 7)
            speeds[slot, cell].append(min(max(float(row["speed"]) * 3.6, 0), 65))
    means = {(row["slot_start"], row["cell"]): float(row["value"]) for row in rows_in(tmp_path / "out")}
    assert means.keys() == speeds.keys()
    for key, values in speeds.items():
        assert means[key] == pytest.approx(sum(values) / len(values), abs=0.01)


@pytest.mark.parametrize(
    ("file", "zone", "day", "rows", "observations", "duplicates"),
    [
        ("mbta", "America/New_York", "2022-11-16", 449, 50, 0),
        ("delhi_otd_2021", "Asia/Kolkata", "2018-12-12", 89, 88, 1),
        ("delhi_otd_2025", "Asia/Kolkata", "2025-09-11", 1715, 1707, 0),
    ],
)
def test_snapshots_of_transit_feeds(telemetry, tmp_path, hatstream, file, zone, day, rows, observations, duplicates):
    spec = city.AUSTIN.replace("America/Chicago", zone).replace("capmetro", "gtfs-realtime")
    done = release_real(hatstream, tmp_path, spec, telemetry / f"gtfs_rt/{file}.pb", day, day)
    assert (done["rows"], done["observations"], done["duplicates"]) == (rows, observations, duplicates)
    assert sum(done["refused"].values()) == rows - observations - duplicates
