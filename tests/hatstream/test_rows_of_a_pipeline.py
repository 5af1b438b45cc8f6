"""What `hatstream.Release` hands on: rows at the end of their slot, which windows and schemas of Beam understand."""

import json
import tomllib
from datetime import datetime
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders.row_coder import RowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

import hatstream as library
from tests import city, levels_city
from tests.hatstream.pipelines import DAY, released, reports

HOUR_S = 3600


def checked(folder, lines, check, **options):
    """Runs `check` on the rows of a bounded pipeline."""
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
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
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    assert records
    if plain is not None:
        shown = [{name: row[name] for name in plain[0]} for row in records]
        assert sorted(shown, key=lambda row: (row["slot_start"], row["cell"])) == plain
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
