"""Pipelines of a Beam developer: parts of the road put together, those of the documents, and what Release hands on."""

import json
import re
import tomllib
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders.row_coder import RowCoder
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import hatstream as library
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.runs.stream.health import TOO_FEW, TOO_MANY, _Watch
from pipelines.specification import load
from tests import city, levels_city
from tests.hatstream import pipelines
from tests.hatstream.pipelines import DAY, append, bounded, in_order, kept_of, released, reports, streaming
from tests.kit.quick import let_noise_be_fresh, let_noise_repeat
from tests.pipelines.commands.releases import rows_in
from tests.statistical.checks import seeded
from transforms.places.ground import texts_of


@pytest.fixture
def same_draws():
    yield partial(let_noise_repeat, "parts")
    let_noise_be_fresh()


def by_hand(folder, elements):
    """The file of a Beam developer: public counts, the papers' mechanism."""
    hats = library.ClosedHats.of(folder / "spec.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"))
    with bounded() as p:
        _ = pipelines.by_parts(p, elements, hats) | beam.Map(lambda row: append(folder / "kept.jsonl", row))
    return in_order(kept_of(folder))


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["array-average", "worst-case-optimal", "baseline"])
def test_the_numbers_are_those_of_the_command_on_the_same_draws(town, hatstream, same_draws, mechanism):
    one_slot = city.SPEC.replace("08:00-12:00", "08:00-09:00")  # several are drawn in the order in which they come
    folder = town(one_slot.replace("array-average", mechanism))
    same_draws()
    ours = by_hand(folder, reports(city.rows()))
    assert len(ours) == 3
    for name in city.ACCOUNT:
        (folder / name).unlink()
    assert hatstream(*city.init(folder))[0] == 0
    same_draws()
    city.done(hatstream, *city.release(folder, start=DAY, end=DAY))
    assert in_order(rows_in(folder / "out", "*.jsonl")) == ours


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rows", ["2_000", pytest.param("20_000", marks=pytest.mark.slow)])
def test_the_ten_lines_of_the_readme_run_in_a_fresh_folder(tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["first.py"])
    assert "20_000" in pipelines.ten_lines()
    exec(compile(pipelines.ten_lines().replace("20_000", rows), "first.py", "exec"), {})
    assert pipelines.are_delays(tmp_path)


@pytest.mark.slow
def test_the_pipeline_of_the_library_runs_as_it_is_printed(tmp_path, monkeypatch, hatstream):
    monkeypatch.chdir(tmp_path)
    Path("build/demo").mkdir(parents=True)
    sample = Path("build/demo/sample-2026-05-14.parquet")
    write_sample(MadeUpFleet(report_every_s=150.0, day=date(2026, 5, 14)), sample)
    write_timetable(MadeUpFleet(), Path("town-gtfs.zip"))
    feed = ("--gtfs", "town-gtfs.zip", "--sample", sample)
    assert hatstream("spec", "new", *feed, "--output", "build/town.toml")[0] == 0
    assert hatstream("init", "--spec", "build/town.toml", "--ledger", "build/town.sqlite")[0] == 0
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL)
    exec(compile(program, "library.md", "exec"), {})
    rows = Path("build/town-rows.txt").read_text().splitlines()
    spec = load(Path("build/town.toml"))
    hats = spec.trips.count_hats(texts_of(spec.cells.region), replace(spec.timetable, weekdays=("thu",)))
    assert 700 < hats < 18 * 41
    assert 0.8 * hats < len(rows) - 41 <= hats  # hexagons and hours with a trip that are known, and days
    assert all(re.match(r"[0-9a-f]{15} 2026-05-14T\d\d:00:00-06:00 (\d+\.\d+|None) km/h [a-z-]+$", row) for row in rows)
    assert hatstream("ledger", "verify", "--ledger", "build/town.sqlite")[0] == 0


# --- What `hatstream.Release` hands on: rows at the end of their slot, which windows and schemas of Beam understand. --


HOUR_S = 3600


def checked(folder, lines, check, **options):
    """Runs `check` on the rows of a bounded pipeline."""
    with bounded() as p:
        made = library.Release(folder / "spec.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"), **options)
        check(p | "reports" >> beam.Create(reports(lines)) | made)


def stamped(row, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
    return time.micros, window.start.micros // 1_000_000, row["slot_start"], row["slot_end"]


@pytest.mark.parametrize("spec", [city.SPEC, levels_city.SPEC], ids=["hats", "levels"])
def test_rows_have_the_last_instant_of_their_slot_as_event_time_and_can_be_windowed_again(town, spec):
    lines = city.rows() if spec is city.SPEC else levels_city.rows()

    def check(rows):
        assert_that(rows | beam.Map(stamped), at_the_end, label="event times")
        of_hats = rows | beam.Filter(lambda row: row.get("product") is None)
        hourly = of_hats | beam.WindowInto(FixedWindows(HOUR_S, offset=1800)) | "stamp" >> beam.Map(stamped)
        assert_that(hourly, in_the_window_of_its_slot, label="windows")
        if spec is city.SPEC:
            day = rows | "day" >> beam.WindowInto(FixedWindows(24 * HOUR_S, offset=24 * HOUR_S - 19_800))
            counted = day | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
            assert_that(counted, equal_to([9]), label="a day's rows are added up by its window")

    def at_the_end(rows):
        assert rows
        for micros, _, _, end in rows:
            assert micros == datetime.fromisoformat(end).timestamp() * 1_000_000 - 1

    def in_the_window_of_its_slot(rows):
        assert rows
        for _, window_s, start, _ in rows:
            assert window_s == datetime.fromisoformat(start).timestamp()

    checked(town(spec), lines, check, columns=("counts",))  # by which HATs of no known value have rows


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        (city.SPEC, ()),
        (levels_city.SPEC, ("times",)),
        pytest.param(city.SPEC, ("times", "counts"), marks=pytest.mark.slow),
    ],
)
def test_typed_rows_have_a_schema_and_hold_what_dicts_hold(town, spec, columns):
    folder = town(spec, city.rows() if spec is city.SPEC else levels_city.rows())
    lines = (folder / "feed.csv").read_text().splitlines()[1:]
    plain = released(folder, reports(lines)) if not columns else None
    kept = folder / "typed.jsonl"

    def check(rows):
        assert isinstance(beam.coders.registry.get_coder(rows.element_type), RowCoder)
        names = [name for name, _ in rows.element_type._fields]
        assert len(names) == len(set(names)) >= 15
        again = rows | beam.Reshuffle()  # through the coder
        _ = again | "keep" >> beam.Map(keep, str(kept), names)
        counted = again | beam.GroupBy("statistic").aggregate_field("cell", len_of, "cells")
        assert_that(counted | beam.Map(lambda row: row.cells > 0), equal_to([True]))

    checked(folder, lines, check, typed=True, columns=columns)
    records = rows_in(folder, kept.name)
    assert records
    if plain is not None:
        shown = [{name: row[name] for name in plain[0]} for row in records]
        assert in_order(shown) == plain
    if "times" in columns:
        assert all(row["slot_end_at"] == datetime.fromisoformat(row["slot_end"]).timestamp() for row in records)


def keep(row, path, names):
    with Path(path).open("a") as file:
        file.write(json.dumps({name: getattr(row, name) for name in names}, default=float) + "\n")


def len_of(values):
    return len(list(values))


# --- what a specification is made from --------------------------------------------------------------------------------


def test_a_specification_is_a_path_a_text_a_dict_or_one_that_was_loaded(town):
    folder = town()
    path = folder / "spec.toml"
    tables = tomllib.loads(path.read_text())
    sources = [path, str(path), tables, library.load(tables), library.load(str(path))]
    assert len({library.load(source).spec_id for source in sources}) == 1
    assert len(released(folder, reports(city.rows()), spec=tables)) == 9


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cell": {}}, "cell"),
        ({"speed": {"upper_kmh": float("nan")}}, "upper_kmh"),
        ({"speed": {"upper_kmh": True}}, "upper_kmh"),
        ({"name": 7}, "name"),
        ({7: 7}, "key|7"),
        ({"name": object()}, "name"),
    ],
)
def test_a_dict_that_is_no_specification_is_refused_by_field(change, told):
    with pytest.raises(library.SpecificationError, match=told):
        library.load(tomllib.loads(city.SPEC) | change)


# --- an unbounded PCollection under secret counts: live slots, the period's end, lateness by a row's own two times ----


SPEC = levels_city.SPEC + "[live]\nshare = 0.4\nday_lateness_s = 1800\n"
FIRST, SECOND = levels_city.DAYS[:2]
START_S = int(datetime.fromisoformat(f"{SECOND}T08:00:00+05:30").timestamp())


@pytest.fixture
def streamed(town, hatstream):
    """Releases a day, then streams the next; gives the rows, the counters and the ledger's entries of it."""
    folder = town(SPEC, levels_city.rows((FIRST, SECOND)))
    assert hatstream(*city.release(folder, start=FIRST, end=FIRST))[0] == 0
    return partial(stream_of, folder)


def stream_of(folder, rows, *, delay_s=1, end_s=5 * 3600):
    clock = Clock().advance_watermark_to(START_S - 60)
    for _, together in groupby(sorted(rows, key=itemgetter("ts")), lambda row: row["ts"][:16]):  # of one minute
        taken = [TimestampedValue(row, datetime.fromisoformat(row["ts"]).timestamp() + delay_s) for row in together]
        taken_s = taken[0].timestamp
        clock = clock.advance_watermark_to(taken_s).add_elements(taken)
    for hour_s in range(3600, end_s + 1, 3600):  # a live slot that is not there when its day ends is missed
        if START_S + hour_s > taken_s:
            clock = clock.advance_watermark_to(START_S + hour_s)
    clock = clock.advance_watermark_to_infinity()
    p = streaming()
    made = library.Release(
        folder / "spec.toml", f"{SECOND}T08:00", f"{SECOND}T12:00", ledger=str(folder / "ledger.sqlite")
    )
    _ = p | clock | made | "keep" >> beam.Map(lambda row: append(folder / "kept.jsonl", row))
    result = p.run()
    result.wait_until_finish()
    counts = {counter.key.metric.name: counter.result for counter in result.metrics().query()["counters"]}
    spec, ledger = library.load(folder / "spec.toml"), ledger_of(folder)
    live = ledger.live(spec.account.name, spec.spec_id, SECOND)
    stages = [stage for stage in ledger.stages(spec.account.name, spec.spec_id) if stage.unit.period == SECOND]
    return kept_of(folder), counts, live, stages


def ledger_of(folder):
    return city.account(folder).ledger


def of_second_day(buses=4):
    return [row for row in reports(levels_city.rows(buses=buses)) if row["ts"].startswith(SECOND)]


def test_live_slots_and_the_whole_day_are_released_and_the_command_finds_them_as_they_are(
    streamed, tmp_path, hatstream
):
    rows, counts, live, stages = streamed(of_second_day())
    assert (len(live), len(stages) > 0) == (4, True)
    assert {row["mechanism"] for row in rows} >= {"levels-live"}
    live_rows = [row for row in rows if row["mechanism"] == "levels-live"]
    assert (len(live_rows), len(rows)) == (4 * len(levels_city.CELLS), 5 * len(levels_city.CELLS)), "slots, and days"
    assert not [name for name in counts if name.startswith("refused/")]
    city.done(hatstream, *city.release(tmp_path, start=SECOND, end=SECOND))
    ledger = ledger_of(tmp_path)
    (account,) = ledger.accounts()
    assert ledger.audit(account.name)[0] == 0, "the whole day is of the same reports"


def test_a_period_that_is_not_over_is_not_released_and_own_times_are_refused_by_row(streamed):
    """The watermark and the source end in the middle of the day; rows' Beam timestamps are their own times."""
    morning = [row for row in of_second_day() if row["ts"][11:13] == "08"]
    _, counts, live, stages = streamed(morning, delay_s=0, end_s=3600)
    assert "refused/lateness/own-time" in counts, "this runner tells that it counted, not how often"
    assert (len(live), len(stages)) == (1, 0), "what is recorded does not depend on it"


def test_a_day_of_far_too_few_vehicles_is_stopped_and_that_is_told(town, hatstream, monkeypatch):
    noise = seeded(1)
    monkeypatch.setattr("transforms.releases.base.Noise", lambda: noise)
    folder = town(SPEC.replace("vehicles = 50", "vehicles = 120"), levels_city.rows((FIRST, SECOND), buses=115))
    assert hatstream(*city.release(folder, start=FIRST, end=FIRST))[0] == 0
    spec, ledger, job = library.load(folder / "spec.toml"), ledger_of(folder), NoCounters()
    watch = _Watch(spec, (START_S, START_S + 4 * 3600), ledger, job)
    _, counts, live, stages = stream_of(folder, of_second_day())
    assert (counts[f"stopped/{SECOND}"], len(live), len(stages)) == (1, 4, 1)
    assert {"period": SECOND, "stopped": TOO_FEW} in [line.public for line in watch.lines()]
    assert not [line for line in watch.lines() if "period" in line.public], "it is told once"
    whole = _Watch(spec, (START_S, START_S + 4 * 3600), ledger, job)
    whole._ended.clear()
    assert hatstream(*city.release(folder, start=SECOND, end=SECOND))[0] == 0
    assert {"period": SECOND} in [line.public for line in whole.lines()]


def test_a_period_of_far_more_vehicles_than_declared_is_told(town, hatstream):
    folder = town(SPEC.replace("vehicles = 50", "vehicles = 5"), levels_city.rows((SECOND,), buses=200))
    watch = _Watch(library.load(folder / "spec.toml"), (START_S, START_S + 4 * 3600), ledger_of(folder), NoCounters())
    assert hatstream(*city.release(folder, start=SECOND, end=SECOND))[0] == 0
    assert {"fleet": TOO_MANY} in [line.operator_only.opened() for line in watch.lines() if "period" in line.public]


class NoCounters:
    def counters(self):
        raise OSError
