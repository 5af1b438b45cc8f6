"""The road as a PTransform: the same rows as the command, once; what would seal a day of nothing is refused."""

import json
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import NamedTuple
from zoneinfo import ZoneInfo

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

import hatstream as library
from tests import city, levels_city
from tests.hatstream.pipelines import DAY, bounded, in_order, released, reports, row, streamed, streaming
from tests.pipelines.commands.releases import rows_in
from tests.statistical.checks import seeded


class Report(NamedTuple):
    bus: str
    ts: str
    lat: float
    lon: float
    v: float


def published(folder, hatstream, *more):
    """The rows that the command publishes of the same day and ledger."""
    city.done(hatstream, *city.release(folder, *more, start=DAY, end=DAY))
    return in_order(rows_in(folder / "out", "*.jsonl"))


def test_the_rows_are_those_of_the_command_and_a_second_run_draws_nothing(town, hatstream):
    folder = town()
    elements = reports(city.rows())
    first = released(folder, elements)
    assert len(first) == 9
    counted = released(folder, elements[::-1], columns=("counts",))
    assert set(counted[0]) - set(first[0]) == {"vehicles", "reports"}
    assert [{name: row[name] for name in first[0]} for row in counted] == first
    assert published(folder, hatstream, "--columns", "counts") == counted
    assert hatstream("ledger", "verify", "--ledger", folder / "ledger.sqlite")[0] == 0


def test_elements_may_be_rows_or_named_tuples_and_times_may_be_datetimes(town):
    folder = town()
    plain = reports(city.rows())
    kinds = [
        [beam.Row(**row) for row in plain[0::4]],
        [Report(**row) for row in plain[1::4]],
        [{**row, "ts": Timestamp.from_rfc3339(row["ts"])} for row in plain[2::4]],
    ]

    def together(given):
        made = [given.pipeline | f"kind {number}" >> beam.Create(rows) for number, rows in enumerate(kinds)]
        return (given, *made) | beam.Flatten()

    dicts = [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in plain[3::4]]
    first = released(folder, dicts, pipe=together)
    assert len(first) == 9
    bad = [7, None, {}, {"bus": "b", "ts": object(), "lat": 1, "lon": 2, "v": 3}]
    assert released(folder, [*plain, *bad]) == first, "what is no report shows nothing"


def test_windows_and_timestamps_of_a_bounded_input_make_nothing_late(town):
    folder = town()

    def windowed(given):
        stamped = given | beam.Map(lambda row: TimestampedValue(row, 4_000_000_000))
        return stamped | beam.WindowInto(FixedWindows(7))

    first = released(folder, reports(city.rows()), pipe=windowed)
    assert len(first) == 9
    assert sum(row["value"] is not None for row in first) == 9


def test_a_day_under_secret_counts_is_released_by_levels(town, hatstream):
    folder = town(levels_city.SPEC, levels_city.rows())
    first = released(folder, reports(levels_city.rows()))
    assert [row["product"] for row in first] == ["days"] * len(levels_city.CELLS), "no slot of so few buses is known"
    assert published(folder, hatstream) == first
    with pytest.raises(library.UsageError, match="one pipeline a period"):
        released(folder, [], end=city.DAYS[1])


def test_the_wrong_input_seals_nothing(town):
    folder = town()
    with pytest.raises(Exception, match="nothing was recorded"):
        released(folder, reports(city.rows(days=city.DAYS[1:])))
    assert spent(folder) == []
    assert released(folder, [], allow_empty=True) == []


def test_the_accounts_limit_is_an_error_not_a_silence(town):
    folder = town(city.SPEC.replace("limit = 50", "limit = 2"))
    with pytest.raises(Exception, match="limit would be exceeded"):
        released(folder, reports(city.rows()))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"start": None}, "needs start and end"),
        ({"end": "2999-01-01"}, "still to come|not in the years"),
        ({"start": "soon"}, "neither a date"),
    ],
)
def test_a_range_that_is_not_over_is_refused(town, options, told):
    with pytest.raises(library.UsageError, match=told):
        released(town(), [], **options)


# --- streams ------------------------------------------------------------------------------------------------------


def samples(folder):
    """Users and samples of each slot, from the ledger."""
    place = city.account(folder)
    spec = library.load(folder / "spec.toml")
    units = place.ledger.released(spec.spec_id, DAY)
    facts = {unit.slot_start[11:16]: [row.plan["facts"] for row in unit.released if row.plan] for unit in units}
    return {slot: sum(fact["samples"] for fact in of_slot) for slot, of_slot in facts.items()}


def test_a_stream_releases_a_slot_when_the_watermark_ends_it_and_refuses_late_rows(town):
    folder = town()
    rows = streamed(
        folder,
        (0, []),
        (600, [(650, row(10)), (650, row(9, "b2")), (900, row(14))]),
        (3700, [(3710, row(50)), (3740, row(61))]),  # the first is of a slot that ended before it was taken
        (7300, []),
    )
    assert set(rows) == {"08:00", "09:00"}
    assert samples(folder) == {"08:00": 3, "09:00": 1}


@pytest.mark.parametrize("looks", [True, False], ids=["as it is", "without a look at the beats"])
def test_the_end_of_a_source_seals_no_slot_that_is_not_over(town, monkeypatch, looks):
    """A source that ends, or a drain, moves the watermark beyond every slot, of which one lasts and one is to come."""
    if not looks:
        monkeypatch.setattr("transforms.steps.release.is_over", lambda _: True)
    folder = town(city.SPEC.replace('service = "08:00-12:00"\n', ""))
    now_s = int(time.time())
    hour_s = now_s // 3600 * 3600 - 1800 + (3600 if now_s % 3600 >= 1800 else 0)  # the zone is at +05:30
    monkeypatch.setattr("pipelines.runs.library.time", SimpleNamespace(time=lambda: now_s))
    taken = [hour_s - 1800 + 60, now_s, hour_s + 3600 + 60]
    elements = [{**row(0), "ts": datetime.fromtimestamp(at_s, UTC)} for at_s in taken]
    clock = Clock().advance_watermark_to(hour_s - 3600)
    clock = clock.add_elements([TimestampedValue(row_, at_s + 1) for row_, at_s in zip(elements, taken, strict=True)])
    start = datetime.fromtimestamp(hour_s - 3600, ZoneInfo("Asia/Kolkata")).isoformat()
    p = streaming()
    made = library.Release(folder / "spec.toml", start, ledger=str(folder / "ledger.sqlite"))
    _ = p | clock.advance_watermark_to_infinity() | made
    result = p.run()
    result.wait_until_finish()
    assert (sealed_slots(folder) == {hour_s - 3600}) == looks


def sealed_slots(folder):
    place = city.account(folder)
    spec = library.load(folder / "spec.toml")
    return {
        unit.slot_s
        for spent in place.ledger.spent("small")
        for unit in place.ledger.released(spec.spec_id, spent.period)
    }


def test_rows_own_times_as_beam_timestamps_are_refused_for_what_is_late_is_not_known(town):
    folder = town()
    own = [(60 * minute, row(minute)) for minute in range(25)]
    with pytest.raises(Exception, match="own times"):
        streamed(folder, (0, own))


COUNTS = (
    levels_city.SPEC.replace('name = "mean"', 'name = "count"\nof = "vehicles"\nbound = 4')
    .replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }")
    .replace("epsilon = 2.64\nper", "epsilon = 2.64\ndelta = 1e-6\nper")
)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (levels_city.SPEC, "live is needed"),
        (COUNTS, "released of whole periods"),
        (city.SPEC.replace("minutes = 60", "minutes = 60\nallowed_lateness_s = 5"), "allowed_lateness_s must be 0"),
        (city.SPEC.replace('per = "hat"', 'per = "period"\nscope = "period"'), "stream never holds"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_with_the_reason(town, spec, told):
    with pytest.raises(library.SpecificationError, match=told):
        streamed(town(spec), (0, []))


# --- pipelines that would seal a day of nothing, or lose one without a word -------------------------------------------


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
    city.done(hatstream, *city.release(folder, start=DAY, end=DAY))  # else it is 5: the input differs


def flat_names(names):
    """As plain reports have them: vehicle, time, lat, lon, speed."""
    return [part.split('"')[1] for part in names.split(",")]


# --- what is lost without a word --------------------------------------------------------------------------------------


def test_a_limit_that_another_job_spent_meanwhile_is_an_error_by_levels_too(town):
    folder = town(SECRET)
    (folder / "other.toml").write_text(SECRET.replace("upper_kmh = 65", "upper_kmh = 60"))
    p = bounded()
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
    p = streaming(runner)
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
    noise = seeded(1)
    monkeypatch.setattr("transforms.releases.base.Noise", lambda: noise)
    folder = town(SECRET.replace("vehicles = 50", "vehicles = 120"))
    for _ in range(2):
        with pytest.raises(Exception, match="far fewer vehicles"):
            released(folder, REPORTS, unattended=True)
    assert released(folder, REPORTS), "somebody's own run goes on"
    assert released(folder, REPORTS, unattended=True)
