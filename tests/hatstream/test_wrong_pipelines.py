"""Pipelines that would seal a day of nothing, or lose one without a word: they are refused, and the reason is told."""

import json
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.periodicsequence import PeriodicImpulse

import hatstream as library
from dpops.noise import Noise
from tests import city, levels_city
from tests.hatstream.pipelines import DAY, released, reports, row, streamed

SECRET = levels_city.SPEC
REPORTS = reports(levels_city.rows())


class WithoutBus(NamedTuple):
    plate: str
    ts: str
    lat: float
    lon: float
    v: float


def spent(folder):
    (account,) = city.account(folder).ledger.accounts()
    return city.account(folder).ledger.spent(account.name)


# --- what is no report ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elements", "told"),
    [
        (pa.Table.from_pylist(REPORTS).to_batches(), "of type RecordBatch"),
        ([json.dumps(report) for report in REPORTS], "of type str"),
        ([(report["bus"], report) for report in REPORTS], "of type Tuple"),
        ([WithoutBus(*report.values()) for report in REPORTS], "no field 'bus'; they have plate, ts"),
    ],
)
def test_elements_that_are_no_reports_by_their_type_seal_nothing(town, elements, told):
    """Under secret counts a day of which no row is usable is released like any other."""
    folder = town(SECRET)
    with pytest.raises(library.UsageError, match=told):
        released(folder, elements)
    assert spent(folder) == []


def test_several_collections_are_refused_in_a_sentence(town):
    with pytest.raises(library.UsageError, match="one PCollection"):
        released(town(), [], pipe=lambda given: (given, given))


@pytest.mark.parametrize("option", ["runtime_type_check", "performance_runtime_type_check"])
def test_beams_checks_of_types_while_it_runs_are_refused_for_they_know_one_output_a_step(town, option):
    folder = town()
    p = beam.Pipeline(options=PipelineOptions([f"--{option}"]))
    made = library.Release(folder / "spec.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"))
    with pytest.raises(library.UsageError, match=f"--{option} breaks steps of several outputs"):
        _ = p | beam.Create(REPORTS) | made


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [lambda **fields: beam.Row(**fields), dict], ids=["rows", "dicts"])
def test_dots_in_a_name_lead_into_objects_as_they_do_in_files_of_json(town, hatstream, kind):
    names = '{ vehicle = "bus.id", time = "ts", lat = "at.0", lon = "at.1", speed = "bus.speed" }'
    spec = city.SPEC.replace(city.SPEC.splitlines()[-1], f"columns = {names}").replace('"csv"', '"jsonl"')
    plain = reports(city.rows())
    nested = [
        {"bus": {"id": row["bus"], "speed": row["v"]}, "ts": row["ts"], "at": [row["lat"], row["lon"]]} for row in plain
    ]
    folder = town(spec)
    (folder / "feed.csv").write_text("".join(json.dumps(report) + "\n" for report in nested))
    rows = released(folder, [kind(**report | {"bus": kind(**report["bus"])}) for report in nested])
    assert len(rows) == 9
    assert released(folder, [dict(zip(flat_names(names), row.values(), strict=True)) for row in plain]) == rows
    code, _, err = hatstream(*city.release(folder, "--json", start=DAY, end=DAY))
    assert (code, err) == (0, ""), "else it is 5: the input differs"


def flat_names(names):
    """As plain reports have them: vehicle, time, lat, lon, speed."""
    return [part.split('"')[1] for part in names.split(",")]


# --- what is lost without a word --------------------------------------------------------------------------------------


def test_a_limit_that_another_job_spent_meanwhile_is_an_error_by_levels_too(town):
    folder = town(SECRET)
    (folder / "other.toml").write_text(SECRET.replace("upper_kmh = 65", "upper_kmh = 60"))
    p = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    made = library.Release(folder / "other.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"))
    _ = p | beam.Create(REPORTS) | made
    assert released(folder, REPORTS)
    with pytest.raises(Exception, match="its limit would be exceeded"):
        p.run()


def test_elements_at_the_end_of_time_end_a_stream_for_all_of_them_would_be_late(town):
    def in_batches(given):
        return given | beam.BatchElements(1, 3) | beam.FlatMap(lambda batch: batch).with_output_types(dict)

    with pytest.raises(Exception, match="end of time"):
        streamed(town(), (0, [(650, row(10)), (660, row(9))]), (3600, []), pipe=in_batches)


@pytest.mark.parametrize("runner", ["DirectRunner", "BundleBasedDirectRunner", "FnApiRunner"])
def test_a_runner_that_would_wait_for_ever_for_the_last_slot_is_refused_but_where_an_end_is_named(town, runner):
    folder = town()
    p = beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"]))
    given = p | PeriodicImpulse(fire_interval=1) | beam.Map(lambda _: row(10))
    options = {"spec": folder / "spec.toml", "start": DAY, "ledger": str(folder / "ledger.sqlite")}
    with pytest.raises(library.UsageError, match="fires nothing before all sources end"):
        _ = given | library.Release(**options)
    _ = given | "until then" >> library.Release(**options, end=DAY)


def test_the_day_that_a_stream_ends_with_is_in_it(town):
    rows = streamed(town(), (0, [(650, row(10))]), (3600, [(3660, row(61))]), (7200, []), start=DAY, end=DAY)
    assert set(rows) == {"08:00", "09:00"}


# --- what stopped a run -----------------------------------------------------------------------------------------------


def test_a_scheduler_that_tries_again_releases_no_day_that_was_stopped(town, monkeypatch):
    draws = np.random.default_rng(1)
    monkeypatch.setattr("transforms.releases.base.Noise", lambda: Noise(draws.bytes))
    folder = town(SECRET.replace("vehicles = 50", "vehicles = 120"))
    for _ in range(2):
        with pytest.raises(Exception, match="far fewer vehicles"):
            released(folder, REPORTS, unattended=True)
    assert released(folder, REPORTS), "somebody's own run goes on"
    assert released(folder, REPORTS, unattended=True)
