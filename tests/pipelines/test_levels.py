"""A release of levels by the command line: every key whatever the input, one value per stage, centres as recorded."""

import html
import json
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from dpops.levels.bounded import within
from dpops.levels.parts import count_stage
from dpops.levels.stages import FIRST_CENTRE, UNIT
from pipelines.job import value_meaning
from pipelines.runs import estimates
from pipelines.specification import Specification, SpecificationError, load
from tests import city, levels_city
from tests.levels_city import CELLS, DAYS, SPEC, opened
from tests.pipelines.commands.releases import Run, entries, files_in, released, rows_in, rows_of, sums_of
from transforms import tasks
from transforms.places.ground import texts_of
from transforms.recorded.stage_plan import bare_stage, rests_on, stage_of
from transforms.records import SlotEstimates


@pytest.mark.slow
def test_every_cell_and_day_gets_a_row_in_every_format(tmp_path, hatstream):
    opened(tmp_path, hatstream)
    released(tmp_path, hatstream)
    rows = rows_in(tmp_path / "out", "days-*.csv")
    assert len({(row["slot_start"], row["cell"]) for row in rows}) == len(rows) == len(CELLS) * len(DAYS)
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".parquet", ".avro", ".jsonl"}
    published = [row for row in rows if row["status"] != "held-back"]
    assert all(0 <= float(row["lower95"]) <= float(row["value"]) <= float(row["upper95"]) <= 65 for row in published)
    assert_traffic_is_beside(tmp_path, hatstream)


def assert_traffic_is_beside(folder: Path, hatstream: Run) -> None:
    """On request, in files of HATs and of products, and nothing else changes."""
    for columns in ("times", "times,traffic"):
        assert hatstream(*city.estimate(folder, columns, "--columns", columns, end=DAYS[-1]))[0] == 0
    for path in (folder / "times").glob("*.csv"):
        for without, row in zip(rows_of(path), rows_of(folder / "times,traffic" / path.name), strict=True):
            assert {name: row[name] for name in without} == without
            assert set(row) - set(without) == {"traffic_lower95", "traffic_upper95"}
            if row["value"]:
                assert float(row["traffic_lower95"]) <= float(row["value"]) <= float(row["traffic_upper95"])


def test_an_empty_city_one_bus_and_a_full_one_publish_the_same_keys(tmp_path, hatstream):
    keys, said = [], []
    for number, buses in enumerate((0, 1, 60)):
        folder = opened(tmp_path / str(number), hatstream, lines=levels_city.rows(buses=buses))
        summary = released(folder, hatstream, end=DAYS[0])
        assert re.match(r"Of 100 rows, a place in a slot each, \S+( \d+)? are usable", summary["usable"])
        del summary["operator_only"], summary["files"], summary["usable"]  # which released rows tell
        said.append(summary)
        files = [path for path in sorted((folder / "out").iterdir()) if path.suffix == ".csv"]
        columns = ("slot_start", "cell", "statistic", "epsilon_slot")
        days = [path for path in files if path.name.startswith("days-")]  # which HATs have rows, noisy sums tell
        cut = [[[row[name] for name in columns] for row in rows_of(path)] for path in days]
        spec_id = load(folder / "spec.toml").spec_id
        keys.append(([path.name for path in files], cut, spec_id))
    assert keys[0] == keys[1]
    assert said[0] == said[1]


def stages_said(folder: Path, hatstream: Run, again: list[str]) -> tuple[object, object, list[dict[str, str]]]:
    """What is public of day 2 after a rerun of day 1 with these lines, the ledger's own numbers, and the sums' rows."""
    opened(folder, hatstream)
    released(folder, hatstream, end=DAYS[0])
    levels_city.write(folder, lines=again)
    released(folder, hatstream, end=DAYS[0])
    levels_city.write(folder)
    summary = released(folder, hatstream, start=DAYS[1], end=DAYS[1])
    (period,) = summary["periods"]
    sums = sums_of(folder, hatstream, DAYS[1])
    return period["stages"], summary["operator_only"].get("entries"), sums


def test_usable_rows_hold_the_part_of_reports_that_weights_show(tmp_path, hatstream):
    """At a total that hides nothing, of 10, 20 and 30 buses in three cells. No report is read for it."""
    spec = levels_city.SPEC.replace("2.64", "2000").replace("vehicles = 50", "vehicles = 60")
    lines = [
        f"PLATE{bus},{day}T{hour:02}:{13 * i}:00+05:30,{21.17 + 0.02 * cell},72.83,{5 + 20 * cell + bus % 4}\n"
        for day in DAYS
        for hour in range(8, 12)
        for bus, cell in enumerate([0] * 10 + [1] * 20 + [2] * 30)
        for i in range(1, 5)
    ]
    folder = opened(tmp_path, hatstream, spec=spec, lines=lines)
    said = str(released(folder, hatstream)["usable"])
    place = ("--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite")
    rows = rows_in(folder / "out", "hats-*.csv")
    usable = {row["cell"] for row in rows if row["status"] == "ok" and row["slot_start"].startswith(DAYS[-1])}
    (folder / "feed.csv").unlink()
    stages = estimates.recorded(load(folder / "spec.toml"), city.account(folder))
    _, share, *_ = estimates._expected(stages.until(DAYS[-1]), stages)
    parts = dict(zip(texts_of(stages.policy.region), share.sum(axis=1), strict=True))
    error, constant = map(float, re.search(r"an error of (\S+) km/h is expected by reports, (\S+) with", said).groups())
    assert 0 < error < constant
    assert [parts[cell] for cell in CELLS] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 0], abs=0.03)
    assert f"(those of {DAYS[-1]} hold {100 * sum(parts[cell] for cell in usable):.0f} of 100 reports" in said
    starts = [f"{DAYS[-1]}T{hour:02}:00:00+05:30" for hour in range(8, 12)]
    for cell in CELLS:  # what is usable is what files say
        newest = estimates.newest_day(stages.spec, city.account(folder), {(cell, start) for start in starts})
        assert (newest.period, newest.reports) == (DAYS[-1], pytest.approx(parts[cell]))
    other = {(CELLS[0], "2021-12-31T08:00:00+05:30")}
    assert estimates.newest_day(stages.spec, city.account(folder), other) is None
    assert hatstream("report", *place, "--input", folder / "out", "--output", folder / "report.html")[0] == 0
    assert said in html.unescape((folder / "report.html").read_text())


@pytest.mark.slow
def test_a_rerun_with_other_input_shifts_no_number_that_is_public(tmp_path, hatstream):
    same, same_entries, same_rows = stages_said(tmp_path / "same", hatstream, levels_city.rows())
    late = [*levels_city.rows(), f"LATE,{DAYS[0]}T09:30:00+05:30,21.17,72.83,20\n"]
    other, other_entries, other_rows = stages_said(tmp_path / "other", hatstream, late)
    assert same == other == [{"share": "1", "sequence": 3, "rests_on": 2}]
    assert {row["sequence"] for row in same_rows} == {row["sequence"] for row in other_rows} == {"3"}
    assert same_entries != other_entries


def test_where_one_vehicles_file_is_all_there_is_no_file_gives_the_same_if_it_may_be_missing(tmp_path, hatstream):
    outcomes = []
    for number, buses in enumerate((1, 0)):
        folder = opened(tmp_path / str(number), hatstream, lines=levels_city.rows(buses=1))
        command = city.release(folder, "--allow-empty", "--json", start=DAYS[0], end=DAYS[0])
        if not buses:
            (folder / "feed.csv").unlink()
        code, out, err = hatstream(*command)
        summary = json.loads(out)
        assert re.match(r"Of 100 rows, a place in a slot each, \S+( \d+)? are usable", summary["usable"])
        del summary["operator_only"], summary["files"], summary["usable"]  # which released rows tell
        outcomes.append((code, summary, err, list(files_in(folder / "out"))))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 0
    assert len(outcomes[0][3]) == 4 * (4 + 1)


def test_the_first_day_has_two_stages_and_others_one_around_what_is_recorded(tmp_path, hatstream):
    opened(tmp_path, hatstream)
    released(tmp_path, hatstream, end=DAYS[1])
    units = [entry.unit for entry in entries(tmp_path)]
    stages = [(unit.period, unit.stage, bare_stage(unit).stages) for unit in units]
    assert stages == [(DAYS[0], 0, 2), (DAYS[0], 1, 2), (DAYS[1], 0, 1)]
    sequences = [entry.sequence for entry in entries(tmp_path)]
    assert [rests_on(unit) for unit in units] == [0, *sequences[:2]]
    region = sorted(int(cell, 16) for cell in CELLS)
    assert (stage_of(units[0], region).laid.centres == FIRST_CENTRE).all()


def test_a_period_is_debited_once_and_a_lowered_limit_refuses_a_new_one_alone(tmp_path, hatstream):
    opened(tmp_path, hatstream)
    released(tmp_path, hatstream, end=DAYS[0])
    ledger = city.account(tmp_path).ledger
    assert [float(spent.epsilon) for spent in ledger.spent("small")] == [2.64]
    (tmp_path / "spec.toml").write_text(SPEC.replace("limit = 2.64", "limit = 2"))
    hatstream(*city.init(tmp_path))
    released(tmp_path, hatstream, end=DAYS[0])
    assert "2.64" in city.refused(hatstream, *city.release(tmp_path, start=DAYS[1], end=DAYS[1]), code=3)
    assert len(entries(tmp_path)) == 2


@pytest.mark.slow
def test_a_budget_that_another_process_spends_meanwhile_refuses_what_it_does_not_cover(
    tmp_path, hatstream, monkeypatch
):
    opened(tmp_path, hatstream)
    release, other = tasks.released, tmp_path / "other.toml"
    other.write_text(SPEC.replace("upper_kmh = 65", "upper_kmh = 60"))

    def overtaken(*given: Any) -> Iterator[SlotEstimates]:
        monkeypatch.undo()
        options = ("--spec", str(other), "--output", str(tmp_path / "apart"))
        process = Thread(target=partial(released, tmp_path, hatstream, *options, start=DAYS[2]))
        process.start()  # Beam keeps counters by thread
        process.join()
        return release(*given)

    monkeypatch.setattr(tasks, "released", overtaken)
    err = city.refused(hatstream, *city.release(tmp_path, start=DAYS[1], end=DAYS[2]), code=3)
    assert f"Only this was released: {DAYS[1]}" in err
    assert f"period {DAYS[2]}: this release" in err
    assert len(entries(tmp_path)) == 2
    assert len(list((tmp_path / "out").glob("*.csv"))) == 4 + 1, "of slots, and of the day"


@pytest.mark.slow
def test_a_rerun_changes_nothing_and_another_input_is_told_to_the_operator_alone(tmp_path, hatstream):
    opened(tmp_path, hatstream)
    first = released(tmp_path, hatstream)
    before, recorded = files_in(tmp_path / "out"), entries(tmp_path)
    again = released(tmp_path, hatstream)
    assert files_in(tmp_path / "out") == before
    assert entries(tmp_path) == recorded
    levels_city.write(tmp_path, lines=levels_city.rows(buses=7))
    other = released(tmp_path, hatstream)
    assert files_in(tmp_path / "out") == before
    assert entries(tmp_path) == recorded
    assert other["operator_only"]["stages_that_differ_now"] == 4
    for summary in (first, again, other):
        del summary["operator_only"], summary["stages_new"]
    assert first == again == other


@pytest.mark.slow
def test_days_may_come_in_any_order_and_with_gaps(tmp_path, hatstream):
    opened(tmp_path, hatstream)
    for day in (DAYS[2], DAYS[0]):
        released(tmp_path, hatstream, start=day, end=day)
    stages = [(e.unit.period, bare_stage(e.unit).stages) for e in entries(tmp_path)]
    assert stages == [(DAYS[2], 2), (DAYS[2], 2), (DAYS[0], 1)]
    released(tmp_path, hatstream)
    assert len(entries(tmp_path)) == 4


@pytest.mark.slow
def test_how_much_a_vehicle_reports_makes_brief_days_weigh_less(tmp_path, hatstream):
    asked = "vehicles = 50\nprofile = { hats = 6, cells = 2, reports = 30 }"
    folder = opened(tmp_path / "a", hatstream, spec=SPEC.replace("vehicles = 50", asked))
    plain, reported = city.loaded(tmp_path, levels_city.SPEC), load(folder / "spec.toml")
    assert plain.spec_id != reported.spec_id
    assert "reports" not in plain.text, "what was written before is what it was"
    released(folder, hatstream, end=DAYS[0])
    looks = [stage_of(entry.unit, reported.cells.region) for entry in entries(folder)]
    assert [look.least_norm for look in looks] == [round(6 * 30**0.75)] * 2
    counting = count_stage(looks[0], 5_000)
    assert counting is not None
    assert counting.least_norm == 0, "a number of vehicles counts all alike"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"levels"', '"array-average"', "statistic.mechanism must be 'levels'"),
        (f"region = {json.dumps(CELLS)}", 'region = "occupied"', "cells.region .* which cells have reports is secret"),
        ('scope = "period"', 'scope = "slot"', "privacy.scope must be 'period'"),
        ('per = "period"', 'per = "hat"', "privacy.per must be 'period'"),
        ('per = "period"', 'per = "period"\ncomposition = "clip-user"', "privacy.composition must be 'none'"),
        ('name = "mean"', 'name = "variance"', "statistic must be 'mean' alone"),
        ('unit = "vehicle-day"', 'unit = "vehicle-ever"\nuntil = 2030-01-01\nsince = 2020-01-01', "account.unit"),
        ('"levels"', '"levels"\nlevels = { cell = 0.5 }', "must add up to 1"),
        ('"levels"', '"levels"\nlevels = { street = 1 }', "no level 'street'"),
        ('"levels"', '"levels"\nexponent = 0.6', "exponent"),
        ('"levels"', '"levels"\nexponent = 1\ntarget = "reports"', "target says which exponent"),
        ('"levels"', '"levels"\ntarget = "rows"', "target"),
        ('"levels"', '"levels"\nbound_kmh = [0, 7]', "bound_kmh"),
        ("vehicles = 50", "vehicles = 0", "vehicles must be between"),
        ('per = "period"', 'per = "period"\ndelta = 0.5', "privacy.delta"),
        ('"add-remove"', '"remove-add"', "account.adjacency"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(tmp_path, old, new, named):
    assert old in SPEC
    spec, _ = levels_city.write(tmp_path, spec=SPEC.replace(old, new))
    with pytest.raises(SpecificationError, match=named):
        load(spec)


def test_a_target_decides_how_reports_count_and_what_rows_are_said_to_be(tmp_path):
    def loaded(asked: str) -> Specification:
        return city.loaded(tmp_path, SPEC.replace('"levels"', f'"levels"{asked}'))

    plain, reports, vehicles = (loaded(asked) for asked in ("", '\ntarget = "reports"', '\ntarget = "vehicles"'))
    assert [spec.levels.exponent for spec in (plain, reports, vehicles)] == [Fraction(3, 4), 1, 0]
    assert {stage.exponent for stage in reports.levels.policy("", (), plain.value, b"").first} == {Fraction(1)}
    assert len({spec.spec_id for spec in (plain, reports, vehicles)}) == 3, "each releases something else"
    assert reports.spec_id == loaded("\nexponent = 1").spec_id
    assert plain.spec_id == loaded("\nexponent = 0.75").spec_id, "what was written before is what it was"
    said = [value_meaning(spec) for spec in (plain, reports, vehicles)]
    assert [part in one for part, one in zip(("n^0.75", "of all reports", "counts once"), said, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("live", "adjacency", "named"),
    [
        ("share = 1", "add-remove", "live.share must be above 0 and below 1"),
        ("share = 0", "add-remove", "live.share must be above 0"),
        ("day_lateness_s = 5", "add-remove", "live.day_lateness_s must be slot.allowed_lateness_s = 10 to"),
        ("day_lateness_s = 86401", "add-remove", "live.day_lateness_s"),
        ("rate = 2", "add-remove", "rate"),
        ("share = 0.3", "counts-public", "live goes with account.adjacency = 'add-remove'"),
    ],
)
def test_live_slots_that_cannot_be_are_refused(tmp_path, live, adjacency, named):
    spec = SPEC.replace('"add-remove"', f'"{adjacency}"').replace(
        "minutes = 60", "minutes = 60\nallowed_lateness_s = 10"
    )
    with pytest.raises(SpecificationError, match=named):
        city.loaded(tmp_path, f"{spec}[live]\n{live}\n")


def test_live_slots_have_a_share_by_default_and_decide_the_id_but_lateness_does_not(tmp_path):
    plain = city.loaded(tmp_path, levels_city.SPEC)
    specs = {
        live: city.loaded(tmp_path, f"{SPEC}[live]\n{live}\n")
        for live in ("", "share = 0.4", "share = 0.3", "day_lateness_s = 60")
    }
    assert plain.levels is not None
    assert [stage.share for stage in plain.levels.policy("", (1,), plain.value, b"").later] == [1]
    for live, spec in specs.items():
        assert spec.levels is not None
        policy = spec.levels.policy("", (1,), spec.value, b"")
        assert policy.live is not None
        assert policy.live.share + policy.later[0].share == 1
        assert sum(stage.share for stage in policy.first) == 1
        assert policy.live.share == Fraction(3 if "0.3" in live else 4, 10)
    ids = [spec.spec_id for spec in specs.values()]
    assert ids[0] == ids[1] == ids[3]
    assert len({plain.spec_id, *ids}) == 3


@pytest.mark.slow
def test_levels_under_public_counts_release_too(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC.replace('"add-remove"', '"counts-public"'))
    released(tmp_path, hatstream)
    assert all(bare_stage(entry.unit).counts_public for entry in entries(tmp_path))
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.csv")}
    asked = ("estimate", "--spec", tmp_path / "spec.toml", "--from", DAYS[0], "--to", DAYS[-1], "--formats", "csv")
    place = ("--ledger", tmp_path / "ledger.sqlite", "--output", tmp_path / "again")
    assert hatstream(*asked, *place)[0] == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == first != {}


def test_public_counts_have_the_noise_of_secret_ones_and_half_the_reach(tmp_path):
    """The neighbours of public counts are vehicles at other speeds: their vectors may be opposite, so each is half."""
    secret, public = (city.loaded(tmp_path, spec) for spec in (SPEC, SPEC.replace('"add-remove"', '"counts-public"')))
    assert secret.levels is not None
    assert public.levels is not None
    assert public.levels.claim == secret.levels.claim
    assert public.levels.strategy.spread >= secret.levels.strategy.spread
    policy = public.levels.policy("", (1,), public.value, b"")
    assert sum(stage.share for stage in policy.first) == 1
    for stage in (*policy.first, *policy.later):
        reached = math.floor(stage.share * UNIT / 2)
        kept = [within(np.zeros(1, np.int64), np.array([size]), stage).all() for size in (reached, reached + 1)]
        assert (stage.kind, stage.spread, kept) == ("laplace", secret.levels.strategy.spread, [True, False])


@pytest.mark.slow
def test_a_week_is_one_release(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC.replace("vehicle-day", "vehicle-week"))
    released(tmp_path, hatstream, start="2021-12-27", end="2022-01-02")
    assert [(e.unit.period, len(e.unit.plan["hours"])) for e in entries(tmp_path)] == [("2021-W52", 28)] * 2


def test_checking_an_input_releases_nothing_and_needs_no_account(tmp_path, hatstream):
    levels_city.write(tmp_path, lines=levels_city.rows(days=DAYS[:1]))
    code, out, err = hatstream(*city.release(tmp_path, "--check-input", "--json", start=DAYS[0], end=DAYS[1]))
    assert code == 4, err
    checked = json.loads(out)["operator_only"]
    assert [(period["period"], period["slots_with_rows"], period["rows"]) for period in checked["periods"]] == [
        (DAYS[0], 3, 48),
        (DAYS[1], 0, 0),
    ]
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "ledger.sqlite").exists()
    out = city.done(hatstream, *city.release(tmp_path, "--check-input", start=DAYS[0], end=DAYS[0]))
    assert "for the operator alone" in " ".join(out.split())
