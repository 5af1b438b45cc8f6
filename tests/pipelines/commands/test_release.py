"""`hatstream release` end to end, as a user runs it: figures on real data, exactly once, refusals, exit codes."""

import csv
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from datetime import datetime
from fractions import Fraction

import h3
import numpy as np
import pytest

from dpops.accountant import PureLimit
from pipelines.account import location
from pipelines.scheduled import parts as local
from pipelines.scheduled import release as scheduled
from pipelines.scheduled.spool import Spool
from pipelines.specification import load
from tests import city
from tests.transforms.ledger.test_ledger import unit
from transforms.count.wire import Exposure, pack_exposure
from transforms.ledger import Ledger
from transforms.ledger.head import LedgerError
from transforms.release.policy import release_shard


@pytest.fixture
def town(tmp_path, hatstream):
    """The small city with its account opened."""
    city.write(tmp_path)
    assert hatstream(*city.init(tmp_path))[0] == 0
    return tmp_path


def summary_of(output):
    return json.loads(output.splitlines()[-1])


def files_in(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def rows_in(folder):
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            rows += csv.DictReader(file)
    return rows


def release_real(hatstream, folder, spec, pattern, start, end, *more):
    (folder / "spec.toml").write_text(spec)
    place = ["--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite"]
    assert hatstream("init", *place)[0] == 0
    rest = ["--from", start, "--to", end, "--output", folder / "out", "--formats", "csv", "--json"]
    code, out, _ = hatstream("release", *place, "--input", pattern, *rest, *more)
    assert code == 0
    return summary_of(out)


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
    found = {(row["slot_start"], row["cell"]): float(row["value"]) for row in rows_in(tmp_path / "out")}
    assert found.keys() == speeds.keys()
    for key, values in speeds.items():
        assert found[key] == pytest.approx(sum(values) / len(values), abs=0.01)


def test_surat_at_ten_o_clock_has_64_hats(telemetry, tmp_path, hatstream):
    spec = city.AUSTIN.replace("America/Chicago", "Asia/Kolkata").replace("capmetro", "iudx")
    at = ("2022-01-01T10:00", "2022-01-01T11:00")
    done = release_real(hatstream, tmp_path, spec, telemetry / "surat/suratITMS.json", *at)
    assert (done["rows"], done["periods"][0]["hats"], done["periods"][0]["slots"]) == (5_000, 64, 1)


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


def test_an_input_file_may_have_a_name_that_is_not_utf_8(town, hatstream):
    (town / "feed.csv").rename(os.fsdecode(bytes(town) + b"/feed-\xff.csv"))
    arguments = city.release(town)
    arguments[arguments.index("--input") + 1] = town / "feed-*.csv"
    assert hatstream(*arguments)[0] == 0


def test_the_same_release_twice_publishes_the_same_bytes_and_spends_once(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    show = ("ledger", "show", "--ledger", town / "ledger.sqlite", "--json")
    (account,) = json.loads(hatstream(*show)[1])
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, summary_of(out)["slots_new"]) == (0, 0)
    assert files_in(town / "out") == first
    assert json.loads(hatstream(*show)[1]) == [account | {"redrawn": 6}]
    assert len(first) == 8 * 4


def test_the_report_of_a_rerun_says_what_the_first_run_said(town, hatstream):
    first = summary_of(hatstream(*city.release(town, "--json"))[1])
    assert [period["sum_of_slot_maxima"] for period in first["periods"]] == [9, 9]
    assert [period["most_spent_by_a_vehicle"] for period in first["periods"]] == [9, 9]
    for lines in (None, []):
        city.write(town, lines=lines)
        again = summary_of(hatstream(*city.release(town, "--json"))[1])
        assert (again["periods"], again["guarantee"]) == (first["periods"], first["guarantee"])


def test_the_report_of_a_day_in_two_runs_counts_both(town, hatstream):
    day, noon = city.DAYS[0], f"{city.DAYS[0]}T09:00"
    morning = summary_of(hatstream(*city.release(town, "--json", start=f"{day}T08:00", end=noon))[1])["periods"]
    rest = summary_of(hatstream(*city.release(town, "--json", start=noon, end=day))[1])
    assert (morning[0]["sum_of_slot_maxima"], morning[0]["most_spent_by_a_vehicle"]) == (3, 3)
    assert (rest["periods"][0]["sum_of_slot_maxima"], rest["periods"][0]["most_spent_by_a_vehicle"]) == (9, None)
    assert "(epsilon 9)" in rest["guarantee"]


def test_the_report_counts_what_other_specifications_of_the_account_spent(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    city.write(town, spec=city.SPEC.replace("epsilon = 1.0", "epsilon = 2"))
    done = summary_of(hatstream(*city.release(town, "--json"))[1])
    assert [period["sum_of_slot_maxima"] for period in done["periods"]] == [27, 27]
    assert [period["most_spent_by_a_vehicle"] for period in done["periods"]] == [None, None]
    assert "(epsilon 27," in done["guarantee"]


def test_the_most_spent_is_compared_exactly():
    tiny = Fraction(1, 10**20)
    rates = {0: Fraction(1, 10), 1: Fraction(2, 10), 2: Fraction(3, 10) + tiny}
    with Spool() as exposures:
        for slot_s, vehicle in ((0, 7), (1, 7), (2, 8)):
            exposures.append(slot_s, pack_exposure(Exposure(np.array([vehicle]), np.array([1]))))
        assert local._spend(rates, exposures).most == Fraction(3, 10) + tiny


def test_what_half_and_nine_tenths_of_the_vehicles_spent_at_most_is_counted_too():
    with Spool() as exposures:
        exposures.append(0, pack_exposure(Exposure(np.arange(10), np.arange(1, 11))))
        assert local._spend({0: Fraction(1, 2)}, exposures) == (Fraction(5), Fraction(5, 2), Fraction(9, 2))
    with Spool() as exposures:
        exposures.append(0, pack_exposure(Exposure(np.zeros(0, np.int64), np.zeros(0, np.int64))))
        assert local._spend({0: Fraction(1, 2)}, exposures) == (0, 0, 0)


def test_order_duplicates_and_parts_of_the_input_change_nothing(town, hatstream, monkeypatch):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    lines = city.rows() * 3
    random.Random(1).shuffle(lines)
    city.write(town, lines=lines)
    monkeypatch.setattr(local, "PART_ROWS", 7)
    code, out, _ = hatstream(*city.release(town, "--json"))
    done = summary_of(out)
    assert (code, done["slots_that_differ_now"], done["duplicates"]) == (0, 0, 2 * len(city.rows()))
    assert files_in(town / "out") == first


def test_a_late_row_is_told_to_the_operator_and_never_released(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    city.write(town, lines=[*city.rows(), "LATE,2022-01-01T08:30:00+05:30,21.17,72.83,9\n"])
    code, out, _ = hatstream(*city.release(town))
    assert code == 5
    assert "1 slots were released before" in " ".join(out.split())
    assert files_in(town / "out") == first
    assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0


def test_a_release_over_the_limit_is_refused_and_says_who_spent_what_and_when(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    other = city.SPEC.replace("epsilon = 1.0", "epsilon = 5").replace('"small-city"', '"greedy"')
    city.write(town, spec=other)
    code, out, err = hatstream(*city.release(town))
    assert (code, out) == (3, "")
    for said in (
        "allows a vehicle 50",
        "nothing was released",
        "greedy",
        "asks for 45",
        "9 spent by small-city",
        "202",
    ):
        assert said in err
    assert files_in(town / "out") == first
    assert (
        summary_of(hatstream("ledger", "show", "--ledger", town / "ledger.sqlite", "--json")[1])[0]["spent"][0][
            "epsilon"
        ]
        == 9
    )


def test_one_period_over_the_limit_refuses_the_whole_range(town, hatstream):
    city.write(town, spec=city.SPEC.replace("epsilon = 1.0", "epsilon = 4"))
    assert hatstream(*city.release(town, start=city.DAYS[1]))[0] == 0
    city.write(town, spec=city.SPEC.replace("epsilon = 1.0", "epsilon = 5"))
    before = files_in(town / "out")
    assert hatstream(*city.release(town))[0] == 3
    assert files_in(town / "out") == before


def test_a_budget_that_another_job_takes_meanwhile_refuses_its_period_and_the_others_are_named(
    town, hatstream, monkeypatch
):
    look = Ledger.excess

    def look_and_lose(ledger, *arguments):
        found = look(ledger, *arguments)
        rival = unit(spec_id="r", period=city.DAYS[1], epsilon="45")
        ledger.record("small", PureLimit(Fraction(50)), "rival", "{}", [rival])
        return found

    monkeypatch.setattr(Ledger, "excess", look_and_lose)
    code, out, err = hatstream(*city.release(town))
    assert (code, out) == (3, "")
    assert "Only this was released: 2022-01-01" in err
    assert "nothing was released" not in err
    assert "period 2022-01-02: this release" in err
    assert "45 spent by rival" in err
    assert len(files_in(town / "out")) == 4 * 4


def test_a_release_without_init_is_refused_and_makes_no_ledger(tmp_path, hatstream):
    city.write(tmp_path)
    code, _, err = hatstream(*city.release(tmp_path))
    assert code == 3
    assert "init" in err
    assert not (tmp_path / "ledger.sqlite").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [('"vehicle-day"', '"vehicle-week"'), ("Asia/Kolkata", "Asia/Kathmandu"), ("limit = 50", "limit = 51")],
)
def test_a_release_that_does_not_match_its_account_is_refused(town, hatstream, old, new):
    city.write(town, spec=city.SPEC.replace(old, new))
    code, _, err = hatstream(*city.release(town))
    assert code == 3
    assert "account 'small'" in err


def test_a_release_with_another_key_is_refused(town, hatstream):
    assert hatstream("init", "--spec", town / "spec.toml", "--ledger", town / "other.sqlite")[0] == 0
    code, _, err = hatstream(*city.release(town, "--key", str(town / "other.key")))
    assert code == 3
    assert "key" in err


def test_a_key_that_others_may_read_is_refused(town, hatstream):
    (town / "ledger.key").chmod(0o644)
    assert hatstream(*city.release(town))[0] == 4
    assert (town / "ledger.key").stat().st_mode & 0o777 == 0o644


def test_init_makes_a_key_that_only_its_owner_may_read_and_keeps_it(town, hatstream):
    assert (town / "ledger.key").stat().st_mode & 0o777 == 0o600
    key = (town / "ledger.key").read_bytes()
    assert hatstream(*city.init(town))[0] == 0
    assert (town / "ledger.key").read_bytes() == key


def test_a_copied_key_without_its_head_opens_no_account(town, hatstream):
    (town / "copy.key").write_bytes((town / "ledger.key").read_bytes())
    (town / "copy.key").chmod(0o600)
    fresh = ["init", "--spec", town / "spec.toml", "--ledger", town / "fresh.sqlite", "--key", town / "copy.key"]
    code, out, err = hatstream(*fresh)
    assert (code, out) == (4, "")
    assert "copy.key.head" in err
    assert "backup" in err
    assert not (town / "fresh.sqlite").exists()


def test_a_fresh_ledger_made_elsewhere_is_refused_beside_the_key(town, hatstream):
    (town / "copy.key").write_bytes((town / "ledger.key").read_bytes())
    (town / "copy.key").chmod(0o600)
    (town / "copy.key.head").write_text("{}")
    fresh = ["--spec", town / "spec.toml", "--ledger", town / "fresh.sqlite"]
    assert hatstream("init", *fresh, "--key", town / "copy.key")[0] == 0
    code, _, err = hatstream(*city.release(town, "--ledger", town / "fresh.sqlite", "--key", town / "ledger.key"))
    assert code == 3
    assert "another ledger" in err
    assert not (town / "out").exists()


def test_a_release_without_its_head_file_is_refused_and_names_it(town, hatstream):
    (town / "ledger.key.head").unlink()
    for command in (city.release(town), city.init(town)):
        code, _, err = hatstream(*command)
        assert code == 4
        assert "ledger.key.head" in err
    assert not (town / "ledger.key.head").exists()


@pytest.mark.parametrize(
    "change", ["delete from entry where seq = 5", "update entry set epsilon = '0' where kind = 'release'"]
)
def test_a_changed_ledger_is_refused_by_release_and_init(town, hatstream, change):
    assert hatstream(*city.release(town))[0] == 0
    with closing(sqlite3.connect(town / "ledger.sqlite")) as db, db:
        db.execute(change)
    for command in (city.release(town), city.init(town), [*city.init(town), "--key", town / "new.key"]):
        code, out, err = hatstream(*command)
        assert (code, out) == (4, "")
        assert "tampered" in err
    assert not list(town.glob("new.key*"))


def test_a_lost_key_is_not_replaced_by_a_new_one(town, hatstream):
    (town / "ledger.key").unlink()
    assert hatstream(*city.init(town))[0] == 4
    assert not (town / "ledger.key").exists()


def test_a_refused_init_leaves_no_new_key_behind(town, hatstream):
    code, _, err = hatstream(*city.init(town), "--key", town / "new.key")
    assert code == 3
    assert "new.key" in err
    assert not list(town.glob("new.key*"))


def test_a_refused_init_leaves_no_new_ledger_behind(town, hatstream):
    code, _, err = hatstream(*city.init(town), "--ledger", town / "new.sqlite", "--key", town / "ledger.key")
    assert (code, "lives in another ledger" in err) == (3, True)
    assert not list(town.glob("new.sqlite*"))


def test_every_slot_of_the_range_is_published_even_if_nothing_happened(town, hatstream):
    city.write(town, lines=[])
    code, out, _ = hatstream(*city.release(town, "--allow-empty", "--json"))
    done = summary_of(out)
    assert (code, done["rows"], len(done["files"])) == (0, 0, 32)
    assert [period["sum_of_slot_maxima"] for period in done["periods"]] == [0, 0]
    assert rows_in(town / "out") == []


def test_an_empty_city_publishes_the_same_keys_as_a_full_one(tmp_path, hatstream):
    region = [h3.latlng_to_cell(21.17 + 0.02 * i, 72.83, 7) for i in range(4)]
    spec = city.SPEC.replace('"occupied"', json.dumps(region))
    keys = []
    for name, lines in (("full", None), ("empty", [])):
        (tmp_path / name).mkdir()
        city.write(tmp_path / name, spec=spec, lines=lines)
        assert hatstream(*city.init(tmp_path / name))[0] == 0
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
    city.write(tmp_path, spec=spec, lines=lines)
    assert hatstream(*city.init(tmp_path))[0] == 0
    done = summary_of(hatstream(*city.release(tmp_path, "--allow-empty", "--json"))[1])
    assert done["refused"] == {
        "assign/outside-region": 1,
        "parse/bad-speed": 1,
        "parse/outside-range": 1,
        "parse/outside-service": 1,
    }
    assert (done["rows"], done["observations"]) == (5, 1)


def test_per_period_bounds_what_any_vehicle_spends_in_the_whole_period(tmp_path, hatstream):
    city.write(
        tmp_path, spec=city.SPEC.replace('per = "hat"', 'per = "period"').replace("epsilon = 1.0", "epsilon = 6")
    )
    assert hatstream(*city.init(tmp_path))[0] == 0
    done = summary_of(hatstream(*city.release(tmp_path, "--json"))[1])
    for period in done["periods"]:
        assert period["sum_of_slot_maxima"] == pytest.approx(6 * 3 / 4)  # three of four slots had vehicles
        assert period["most_spent_by_a_vehicle"] == pytest.approx(6 * 3 / 4)
    assert {float(row["epsilon"]) for row in rows_in(tmp_path / "out")} == {6 / 4 / 3}


def test_a_cap_bounds_cells_and_samples_and_says_what_it_left_out(tmp_path, hatstream):
    capped = 'per = "hat"\ncomposition = "cap"\nmax_cells = 2\nmax_samples = 3'
    city.write(tmp_path, spec=city.SPEC.replace('per = "hat"', capped))
    assert hatstream(*city.init(tmp_path))[0] == 0
    done = summary_of(hatstream(*city.release(tmp_path, "--json"))[1])
    assert [period["most_spent_by_a_vehicle"] for period in done["periods"]] == [6, 6]
    assert done["left_out_by_the_cap"] > 0
    assert done["observations"] == done["rows"]


def test_many_release_shards_publish_the_same_cells_and_charge_the_cap(tmp_path, hatstream):
    capped = 'per = "hat"\ncomposition = "cap"\nmax_cells = 3\nmax_samples = 99\nrelease_shards = {}'
    cells = []
    for shards in (1, 3):
        folder = tmp_path / str(shards)
        folder.mkdir()
        city.write(folder, spec=city.SPEC.replace('per = "hat"', capped.format(shards)))
        assert hatstream(*city.init(folder))[0] == 0
        assert hatstream(*city.release(folder))[0] == 0
        cells.append([(row["slot_start"], row["cell"]) for row in rows_in(folder / "out")])
    assert cells[0] == cells[1]


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
        (["--from", "2022-01-01", "--to", "2099-12-30"], 1, "still to come"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--formats", "xml"], 1, "xml"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--runner", "FlinkRunner"], 1, "FlinkRunner"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--input", "nothing/*.csv"], 4, "nothing/"),
        (["--from", "2022-01-01", "--to", "2022-01-01", "--spec", "nothing.toml"], 2, "nothing.toml"),
    ],
)
def test_wrong_use_has_its_exit_code_and_says_what_is_wrong(town, hatstream, arguments, code, said):
    base = city.release(town)
    cut = base.index("--from")
    found, out, err = hatstream(*base[:cut], *base[cut + 4 :], *arguments)
    assert (found, out) == (code, "")
    assert said in err
    assert not (town / "out").exists()


@pytest.mark.parametrize("command", ["init", "release"])
@pytest.mark.parametrize(
    "url", ["://x", "sqlite+foo:///x", "mysql://user:secret@host/db", "postgresql://u:secret@host", "sqlite://"]
)
def test_what_cannot_be_a_ledger_is_said_before_a_key_is_asked_for(town, hatstream, command, url):
    arguments = {"init": city.init, "release": city.release}[command](town)
    arguments[arguments.index("--ledger") + 1] = url
    code, out, err = hatstream(*arguments)
    assert (code, out) == (4, "")
    assert "ledger" in err
    for unsaid in ("internal", "key", "secret"):
        assert unsaid not in err


def test_a_file_without_its_columns_is_refused_by_name_and_nothing_is_sealed(town, hatstream):
    (town / "feed.csv").write_text("bus,when\nA,1\n")
    code, _, err = hatstream(*city.release(town))
    assert code == 4
    assert err == f"hatstream: {town / 'feed.csv'}: column 'ts' is missing\n"
    assert summary_of(hatstream("ledger", "show", "--ledger", town / "ledger.sqlite", "--json")[1])[0]["spent"] == []


def denied(*_arguments, **_options):
    raise PermissionError(13, "Permission denied")


def spent_by(hatstream, folder):
    _, out, _ = hatstream("ledger", "show", "--ledger", folder / "ledger.sqlite", "--json")
    return summary_of(out)[0]["spent"]


def test_an_input_that_may_not_be_read_is_named_with_the_reason(town, hatstream, monkeypatch):
    monkeypatch.setattr("transforms.layouts.csv_table.open", denied, raising=False)
    code, out, err = hatstream(*city.release(town))
    assert (code, out, err) == (4, "", f"hatstream: {town / 'feed.csv'}: Permission denied\n")
    assert spent_by(hatstream, town) == []


def test_an_output_folder_that_may_not_be_written_is_noticed_before_anything_is_spent(town, hatstream, monkeypatch):
    monkeypatch.setattr("pipelines.output_folder.locked", denied)
    code, out, err = hatstream(*city.release(town))
    assert (code, out) == (4, "")
    assert err == f"hatstream: the output folder {town / 'out'} cannot be written: Permission denied\n"
    assert spent_by(hatstream, town) == []


def test_the_proof_that_the_output_folder_can_be_written_leaves_nothing_in_it(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    assert all(path.name.startswith("hats-") for path in (town / "out").iterdir())


@pytest.mark.parametrize("broken", ["transforms.sinks.files.write_whole", "transforms.ledger.head.Head.advance"])
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


OUTSIDE = "PLATE0,2021-12-31T08:00:00+05:30,21.17,72.83,7\n"
NO_SPEED = "PLATE0,2022-01-01T08:00:00+05:30,21.17,72.83,fast\n"
BROKEN = "PLATE0,yesterday,21.17,72.83,7\n"


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
    assert "nothing was spent" in err
    assert files_in(town / "out") == {}
    city.write(town)
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, summary_of(out)["slots_new"]) == (0, 8)


@pytest.mark.parametrize("lines", [[], [OUTSIDE], [BROKEN, OUTSIDE, OUTSIDE]])
def test_an_input_in_which_nothing_happened_is_sealed_as_such_where_the_operator_says_so(town, hatstream, lines):
    city.write(town, lines=lines)
    code, out, _ = hatstream(*city.release(town, "--allow-empty", "--json"))
    assert (code, summary_of(out)["slots_new"], summary_of(out)["observations"]) == (0, 8, 0)


def test_one_usable_row_among_many_parts_is_enough(town, hatstream, monkeypatch):
    monkeypatch.setattr(local, "PART_ROWS", 1)
    city.write(town, lines=[BROKEN, BROKEN, city.rows()[-1]])
    code, out, _ = hatstream(*city.release(town, "--json", start=city.DAYS[1]))
    assert (code, summary_of(out)["observations"]) == (0, 1)


def test_beams_own_name_for_the_local_runner_means_the_same_runner(town, hatstream):
    assert hatstream(*city.release(town, "--runner", "DirectRunner"))[0] == 0
    pipeline = local.pipeline()
    assert type(pipeline.runner).__name__ == "FnApiRunner"


def test_yesterday_is_the_local_day_before_today(town, hatstream):
    base = city.release(town, "--json")
    cut = base.index("--from")
    code, out, _ = hatstream(*base[:cut], *base[cut + 4 :], "--yesterday", "--allow-empty")
    assert code == 0
    assert summary_of(out)["periods"][0]["slots"] == 4


def test_a_week_is_one_period_and_its_days_share_its_limit(tmp_path, hatstream):
    spec = city.SPEC.replace("vehicle-day", "vehicle-week").replace("limit = 50", "limit = 17")
    city.write(tmp_path, spec=spec)
    assert hatstream(*city.init(tmp_path))[0] == 0
    done = summary_of(hatstream(*city.release(tmp_path, "--json", end="2022-01-01"))[1])
    assert done["periods"][0]["period"] == "2021-W52"
    assert hatstream(*city.release(tmp_path, start="2022-01-02"))[0] == 3
    assert hatstream(*city.release(tmp_path, start="2022-01-02", end="2022-01-02T11:00"))[0] == 3


def test_an_account_for_ever_ends_at_its_until(tmp_path, hatstream):
    spec = city.SPEC.replace('"vehicle-day"', '"vehicle-ever"\nuntil = 2022-01-02')
    city.write(tmp_path, spec=spec)
    assert hatstream(*city.init(tmp_path))[0] == 0
    assert hatstream(*city.release(tmp_path, end="2022-01-01"))[0] == 0
    assert hatstream(*city.release(tmp_path))[0] == 3


@pytest.mark.parametrize(
    "command", ["", "init", "release", "demo", "ledger", "ledger show", "ledger verify", "ledger missing"]
)
def test_every_command_explains_itself_with_an_example(hatstream, command):
    code, out, _ = hatstream(*command.split(), "--help")
    assert code == 0
    assert "Example" in out


def test_the_command_line_runs_as_a_module_too():
    command = [sys.executable, "-m", "pipelines.cli", "release"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--spec" in done.stderr


def test_reasons_that_no_row_had_are_not_counted(town, hatstream):
    cells = sorted({h3.latlng_to_cell(21.17 + 0.02 * i, 72.83, 7) for i in range(3)})
    city.write(town, spec=city.SPEC.replace('"occupied"', json.dumps(cells)))
    code, out, _ = hatstream(*city.release(town, "--json"))
    assert (code, summary_of(out)["refused"]) == (0, {})


@pytest.mark.parametrize("shard", range(3))
def test_the_shards_of_a_slot_share_the_largest_debit_whichever_of_them_is_empty(tmp_path, hatstream, shard):
    """One HAT an hour at epsilon 40, limit 50: an empty shard, which spends 0, must not stand for the slot."""
    lat = next(lat for lat in np.arange(20, 25, 0.01) if shard_of(float(lat), 3) == shard)
    capped = 'epsilon = 40.0\ncomposition = "cap"\nmax_cells = 1\nmax_samples = 5\nrelease_shards = 3'
    lines = [f"PLATE{bus},2022-01-01T{hour:02d}:00:00+05:30,{lat},72.83,{bus}\n" for hour in (8, 9) for bus in range(3)]
    city.write(tmp_path, spec=city.SPEC.replace("epsilon = 1.0", capped), lines=lines)
    assert hatstream(*city.init(tmp_path))[0] == 0
    code, _, err = hatstream(*city.release(tmp_path, end="2022-01-01"))
    assert code == 3
    assert "asks for 80" in err
    assert hatstream(*city.release(tmp_path, start="2022-01-01T08:00", end="2022-01-01T09:00"))[0] == 0
    assert hatstream(*city.release(tmp_path, start="2022-01-01T09:00", end="2022-01-01T10:00"))[0] == 3
    assert hatstream(*city.release(tmp_path, "--allow-empty", start="2022-01-01T10:00", end="2022-01-01T12:00"))[0] == 0


def shard_of(lat, shards):
    cell = h3.str_to_int(h3.latlng_to_cell(lat, 72.83, 7))
    return int(release_shard(np.array([cell], np.int64), shards)[0])


@pytest.mark.parametrize("phase", ["observations read", "slots released"])
def test_of_two_copies_of_a_ledger_only_one_publishes_even_if_their_runs_overlap(town, phase):
    """The second run works on a copy while the first starts and ends: one head, one draw."""
    with closing(sqlite3.connect(town / "ledger.sqlite")) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    (town / "copy.sqlite").write_bytes((town / "ledger.sqlite").read_bytes())
    spec = load(town / "spec.toml")
    when = scheduled.range_of(spec.timetable, *city.DAYS)
    first = []

    def release(ledger, folder, report):
        place = location.find(str(town / ledger), town / "ledger.key")
        scheduled.release(spec, when, str(town / "feed.csv"), town / folder, place, ("csv",), report)

    def meanwhile(reached, *_):
        if reached == phase and not first:
            first.append(reached)
            release("ledger.sqlite", "one", lambda *_: None)

    with pytest.raises(LedgerError, match="rolled back or replaced"):
        release("copy.sqlite", "other", meanwhile)
    assert len(files_in(town / "one")) == 8
    assert files_in(town / "other") == {}
