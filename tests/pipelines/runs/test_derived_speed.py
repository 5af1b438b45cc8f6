"""Feeds without speeds, from specification to rows: under secret counts alone."""

from collections import Counter

import pytest

from pipelines.inputs import range_of
from pipelines.job import NOWHERE, job_of, ledger_account_of
from pipelines.outcome import Outcome, count_in
from pipelines.specification import SpecificationError, load
from tests import city, levels_city
from transforms import tasks, wire
from transforms.observe.parse import locate, parse
from transforms.observe.vehicle_ids import Secret

DERIVED = "derived_speed = { max_gap_s = 300, max_kmh = 100 }\n"
SPEC = levels_city.SPEC.replace(', speed = "v"', "") + DERIVED
DAY = city.DAYS[0]


def rows(kmh=36, buses=60, header="bus,ts,lat,lon\n"):
    """Buses that go north and south through a cell at one speed, a position a minute, without a speed."""
    step = kmh / 60 / 111.195  # degrees a minute
    lines = []
    for bus in range(buses):
        for minute in range(150):
            lat = 21.170 + step * (minute % 2)
            time = f"{DAY}T{8 + minute // 60:02d}:{minute % 60:02d}:{bus % 60:02d}+05:30"
            lines.append(f"PLATE{bus},{time},{lat:.7f},72.8300000\n")
    return header, lines


def tallied(folder, lines, header, shards=1):
    """What vehicles did, by the job's own counting: (vehicle, cell, slot, reports, sum of speeds), sorted."""
    (folder / "spec.toml").write_text(SPEC)
    (folder / "feed.csv").write_text(header + "".join(lines))
    spec, place = load(folder / "spec.toml"), city.account(folder)
    when = range_of(spec.timetable, DAY, DAY)
    account = ledger_account_of(spec, place, signs=False)
    job = job_of(spec, when, Secret(b"one key for all runs"), account, NOWHERE)
    events, counts, tables = {}, Counter(), []
    for batch in tasks.read(job.layout, str(folder / "feed.csv")):
        observations, cell, _ = locate(parse(batch.table, job.rules)[0], job.ground)
        for part in wire.split(observations, cell, shards):
            slot_s, shard = part.key
            events.setdefault(shard, {}).setdefault(slot_s, []).append(part.data)
    for slots in events.values():
        derived = tasks.derived(slots, job.rules, job.ground, job.release, lambda name, n: counts.update({name: n}))
        tables += [table for _, table in derived]
    table, outcome = wire.joined(tables), Outcome()
    count_in(outcome, counts)
    columns = (table.vehicle, table.cell, table.slot_s, table.kept, table.sums["sums"])
    return sorted(zip(*(column.tolist() for column in columns), strict=True)), outcome


def test_the_speeds_of_a_feed_that_has_none_are_counted(tmp_path):
    header, lines = rows()
    counts, outcome = tallied(tmp_path, lines, header)
    assert outcome.refused == {"derive/first-of-day": 60}
    assert sum(reports for *_, reports, _ in counts) == 60 * 149
    assert {round(total / reports) for *_, reports, total in counts} == {3_600}


def test_order_parts_and_files_change_no_integer(tmp_path):
    header, lines = rows(buses=7)
    whole, _ = tallied(tmp_path, lines, header)
    assert tallied(tmp_path, lines[::-1], header, shards=11)[0] == whole
    assert tallied(tmp_path, lines + lines[::5], header, shards=2)[0] == whole


def test_a_feed_without_speeds_is_released_and_a_second_run_finds_it_the_same(tmp_path, hatstream):
    header, lines = rows(buses=9)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "feed.csv").write_text(header + "".join(lines))
    assert hatstream(*city.init(tmp_path))[0] == 0
    summaries = [city.told(hatstream, *city.release(tmp_path, start=DAY, end=DAY)) for _ in range(2)]
    assert [summary["stages_new"] for summary in summaries] == [2, 0]
    assert summaries[1]["operator_only"]["stages_that_differ_now"] == 0
    assert summaries[0]["operator_only"]["refused"] == {"derive/first-of-day": 9}
    assert len(list((tmp_path / "out").iterdir())) == (4 + 1) * len(city.FORMATS), "of slots, and of days"


@pytest.mark.slow
def test_a_plan_counts_it_and_an_evaluation_derives_its_speeds(tmp_path, hatstream):
    header, lines = rows(buses=9)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "feed.csv").write_text(header + "".join(lines))
    planned = city.told(hatstream, "plan", "--spec", tmp_path / "spec.toml", "--input", tmp_path / "feed.csv")
    assert planned["operator_only"]["vehicles"] == 9
    data = ("--data", tmp_path / "feed.csv", "--spec", tmp_path / "spec.toml", "--not-private")
    assert city.told(hatstream, "evaluate", "days", *data, "--runs", 1, "--totals", 1)["city_mean_kmh"] == 36


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("max_gap_s = 300", "max_gap_s = 0", "max_gap_s must be between"),
        ("max_kmh = 100", "max_kmh = 0", "max_kmh must be between"),
        ("max_gap_s = 300, ", "", "max_gap_s"),
        ('lon = "lon" }', 'lon = "lon", speed = "v" }', "needs exactly vehicle, time, lat, lon"),
        (DERIVED, DERIVED + 'speed_unit = "m/s"\n', "speed_unit"),
        (DERIVED, DERIVED + "[live]\nshare = 0.2\n", "without [live]"),
    ],
)
def test_what_does_not_go_with_derived_speeds_is_refused(tmp_path, old, new, told):
    assert old in SPEC
    with pytest.raises(SpecificationError) as refusal:
        city.loaded(tmp_path, SPEC.replace(old, new))
    assert told in str(refusal.value)


def test_under_public_counts_positions_are_public_and_so_would_be_the_speeds(tmp_path):
    text = city.SPEC.replace(', speed = "v"', "") + DERIVED
    with pytest.raises(SpecificationError, match="anyone can compute that speed"):
        city.loaded(tmp_path, text)


def test_limits_decide_a_release_and_specifications_without_them_keep_their_id(tmp_path):
    first = city.loaded(tmp_path, SPEC)
    other = city.loaded(tmp_path, SPEC.replace("= 300", "= 301"))
    assert first.spec_id != other.spec_id
    assert "derived_speed" not in city.loaded(tmp_path, levels_city.SPEC).text
