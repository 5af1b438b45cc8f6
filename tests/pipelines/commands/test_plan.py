"""`hatstream plan`: its numbers are those of the mechanisms, what adds up is exact, and nothing is spent or written."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpops.forecast import Prior
from dpops.mechanism import forecast_of_one
from dpops.mechanisms import registered
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.types import CountsKnown
from pipelines.companions import extension
from pipelines.plan.composed import lay_out
from pipelines.plan.counts import read_counts, sample_counts
from pipelines.plan.forecast import label
from pipelines.specification import load
from tests import city

PRIOR = "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12 }"
DEMO = (Path(__file__).parents[3] / "companions" / "lab" / "hatstream_lab" / "demo" / "demo.toml").read_text()
TABLE = """slot,cell,vehicle,count
8,a,PLATE1,10
8,a,PLATE2,4
8,b,PLATE1,3
9,a,PLATE1,5
9,a,PLATE3,5
9,b,PLATE3,1
9,c,PLATE3,1
"""
"""Counts that can be added up by hand."""

MEANS = [name for name, kind in registered().items() if "mean" in kind.statistics]


def auto(spec=city.SPEC):
    return spec.replace('"array-average"', '"auto"').replace("upper_kmh = 65", PRIOR)


def capped(spec, cells, samples):
    return spec.replace(
        'per = "hat"', f'per = "hat"\ncomposition = "cap"\nmax_cells = {cells}\nmax_samples = {samples}'
    )


def only_class(document):
    (statistic,) = document["statistics"]
    (only,) = statistic["classes"]
    return only


def test_without_a_prior_the_numbers_are_those_of_the_mechanisms_plan(planned, tmp_path):
    counts = [40, 30, 9, 9, 2]
    document = planned(city.SPEC, counts=json.dumps(counts), name="counts.json")
    only = only_class(document)
    grid = load(tmp_path / "spec.toml").value.grid
    made = ArrayAverage().plan(CountsKnown(np.array(counts), sum(counts)), grid, Fraction(1))
    assert (only["vehicles"], only["hats"], only["m_ub"]) == ("4-7", 1, made.facts["m_ub"])
    assert only["noise_scale"] == float(made.scale * made.step)
    assert only["bias_bound"] == made.bias_bound
    assert only["forecast_error"] == made.error()
    assert only["chosen"] == [{"mechanism": "array-average", "share": 1.0}]
    assert planned(city.SPEC, counts=json.dumps({"about": "a study", "counts": counts}), name="counts.json") == document
    assert only["runners_up"] == []


def test_with_a_prior_the_error_is_the_mechanisms_forecast(planned, tmp_path):
    counts = np.array([40, 30, 9, 9, 2])
    spec = city.SPEC.replace("upper_kmh = 65", PRIOR.replace("12 }", "12, between = 0.25 }"))
    document = planned(spec, counts=json.dumps(counts.tolist()), name="counts.json")
    mechanism = ArrayAverage()
    hat, grid = CountsKnown.all_of(counts), load(tmp_path / "spec.toml").value.grid
    error = forecast_of_one(mechanism, hat, grid, Fraction(1), Prior(20, 12, 0.25))
    assert only_class(document)["forecast_error"] == error
    assert "25% of the variance" in document["forecast"]


def test_auto_shows_its_choice_and_the_runners_up_in_order(planned, plan, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no cell of a table is wrapped
    counts = np.array([40, 30, 29, 25, 22, 21, 9, 9, 2])
    only = only_class(planned(auto(), counts=json.dumps(counts.tolist()), name="counts.json"))
    grid = load(tmp_path / "spec.toml").value.grid
    ranking = Auto(prior=Prior(20, 12)).ranking(CountsKnown.all_of(counts), grid, Fraction(1))
    wanted = [(label(candidate.mechanism), candidate.error) for candidate in ranking]
    assert (only["chosen"][0]["mechanism"], only["forecast_error"]) == wanted[0]
    assert [(other["mechanism"], other["forecast_error"]) for other in only["runners_up"]] == wanted[1:3]
    _, out, _ = plan(auto(), counts=json.dumps(counts.tolist()), name="counts.json")
    places = [out.index(text) for text in (f" {wanted[0][0]}", f"then {wanted[1][0]}", f"then {wanted[2][0]}")]
    assert places == sorted(places)


def test_the_composed_total_of_a_hand_made_table_is_exact(planned):
    document = planned(city.SPEC, counts=TABLE)
    assert "when, where, how often" in document["not_protected"]
    composed = document["composed"]
    assert composed["most_hats_of_a_vehicle_in_a_slot"] == 3  # PLATE3 at 9
    assert composed["most_hats_of_a_vehicle_in_a_period"] == 3  # PLATE1: two at 8 and one at 9; PLATE3: three at 9
    assert composed["vehicle_and_slot"] == {"epsilon": 3.0, "known": "exact"}
    assert composed["vehicle_and_period"] == {"epsilon": 3.0, "known": "exact"}
    assert composed["debit_of_a_period"] == {"epsilon": 5.0, "known": "exact"}
    assert composed["within_limit"] is True


DAYS = {
    "mon": [("08", "a", "x"), ("08", "b", "x"), ("09", "a", "y")],
    "tue": [("08", "a", "x"), ("09", "a", "x"), ("09", "b", "x"), ("09", "b", "y")],
}
"""Alone: a vehicle spends 2 and the account 3 on the first day, 3 and 3 on the second; together 5 and 4."""


def of_days(days, **named):
    """A table of their counts; slots are named by what `named` says of the day."""
    rows = [f"{named[day]}{hour}{named.get('end', '')},{c},{v},4" for day in days for hour, c, v in DAYS[day]]
    return "\n".join(["slot,cell,vehicle,count", *rows]) + "\n"


@pytest.mark.parametrize(
    "named",
    [
        {"mon": "2026-05-11T", "tue": "2026-05-12T", "end": ":00:00-05:00"},
        {"mon": "2026-05-11 ", "tue": "2026-05-12 ", "end": ":00"},
        {"mon": "20260511T", "tue": "20260512T", "end": "0000"},
    ],
    ids=["with an offset", "without", "as in file names"],
)
def test_totals_of_several_days_are_those_of_the_day_with_the_most(planned, named):
    both = planned(city.SPEC, counts=of_days(["mon", "tue"], **named))
    alone = [planned(city.SPEC, counts=of_days([day], **named))["composed"] for day in DAYS]
    for total in ("vehicle_and_period", "debit_of_a_period", "vehicle_and_slot"):
        assert both["composed"][total] == max((one[total] for one in alone), key=lambda one: one["epsilon"])
    assert both["composed"]["vehicle_and_period"] == {"epsilon": 3.0, "known": "exact"}
    assert both["composed"]["most_hats_of_a_vehicle_in_a_period"] == 3
    assert "the counts are of 2 periods (vehicle-day)" in " ".join(both["notes"])


def test_what_pure_epsilon_comes_to_on_an_account_with_delta_is_said_before_it_is_spent(planned):
    document = planned(city.SPEC.replace("limit = 50", "limit = { epsilon = 50, delta = 1e-6 }"), counts=TABLE)
    assert document["composed"]["within_limit"] is True
    assert any("pure epsilon of 5 counts as 37.4218 at delta 1e-06" in note for note in document["notes"])
    apart = planned(city.SPEC.replace("limit = 50", "limit = { epsilon = 50, delta = 1e-6, pure = 6 }"), counts=TABLE)
    assert not any("counts as" in note for note in apart["notes"])


def test_per_period_each_hat_gets_the_epsilon_that_sealing_gives_it(planned):
    composed = planned(city.SPEC.replace('per = "hat"', 'per = "period"'), counts=TABLE)["composed"]
    assert composed["epsilon_per_hat_most"] == 1 / 8  # four slots of service; two HATs at 8, three at 9
    assert composed["epsilon_per_hat_least"] == float(Fraction(1, 12))
    assert composed["debit_of_a_period"]["epsilon"] == 0.5
    assert composed["vehicle_and_period"]["epsilon"] == float(Fraction(1, 3))  # PLATE1: 2/8 and 1/12


def test_a_cap_bounds_cells_and_samples(planned):
    document = planned(capped(city.SPEC, 1, 3), counts=TABLE)
    composed = document["composed"]
    assert composed["most_hats_of_a_vehicle_in_a_slot"] == 1
    assert composed["vehicle_and_period"]["epsilon"] == 2.0
    assert 2 <= document["hats"] <= 4
    assert any("anew" in note for note in document["notes"])


def test_samples_that_a_cap_drops_still_count_as_reported(tmp_path):
    (tmp_path / "spec.toml").write_text(capped(city.SPEC, 5, 3))
    (tmp_path / "counts.csv").write_text(TABLE)
    spec = load(tmp_path / "spec.toml")
    hats, _ = lay_out(spec, read_counts(tmp_path / "counts.csv", spec.timetable))
    assert [(hat.samples.tolist(), hat.reported) for hat in hats[:2]] == [([3, 3], 14), ([3], 3)]


def test_counts_without_vehicles_leave_the_composed_total_unknown_and_say_so(planned, plan):
    document = planned(city.SPEC, counts="[5, 3]", name="counts.json")
    composed = document["composed"]
    assert composed["most_hats_of_a_vehicle_in_a_slot"] is None
    assert composed["vehicle_and_period"] == {"epsilon": None, "known": "unknown"}
    assert composed["within_limit"] is None
    assert "the counts name no vehicle and no slot" in " ".join(document["notes"])
    assert "not known" in plan(city.SPEC, counts="[5, 3]", name="counts.json")[1]


def test_the_answer_comes_first_and_is_what_the_counts_tell(planned, plan):
    """Within the error of the largest HAT: all of the large HAT's reports, none of the others'."""
    counts = "hat,count\n" + "".join(f"{hat},{5}\n" for hat, size in enumerate((1, 2, 60)) for _ in range(size))
    wide = only_class(planned(city.SPEC, counts=json.dumps([5] * 60), name="counts.json"))["forecast_error"]
    asked = {"counts": counts, "name": "counts.csv"}
    answer = planned(city.SPEC, "--within", f"{wide * 1.001}", **asked)["answer"]
    assert answer.endswith(f"{100 / 3:.0f} of 100 rows, which hold {100 * 60 / 63:.0f} of 100 reports.")
    assert " ".join(plan(city.SPEC, "--within", f"{wide * 1.001}", **asked)[1].split()).startswith(answer)


@pytest.mark.slow
def test_the_made_up_fleet_is_counted_as_the_demo_releases_it_and_a_slot_length_that_cannot_be_is_named(planned):
    document = planned(DEMO, "--synthetic")
    assert document["hats"] == 752
    assert document["composed"]["debit_of_a_period"]["epsilon"] == 186
    assert document["composed"]["vehicle_and_period"]["epsilon"] == 138
    assert "120-minute slots" not in [choice["choice"] for choice in document["choices"]]
    assert "120-minute slots do not fit into slot.service or the day" in document["notes"]


@pytest.mark.slow
def test_other_resolutions_and_slot_lengths_are_recounted(planned, tmp_path):
    document = planned(DEMO.replace("05:00-24:00", "04:00-24:00"), "--synthetic")
    by_name = {choice["choice"]: choice for choice in document["choices"]}
    names = ["resolution 6", "resolution 8", "30-minute slots", "120-minute slots"]
    assert list(by_name)[-4:] == names
    spec = load(tmp_path / "spec.toml")
    counts = sample_counts(
        extension("made-up-day", "lab")(spec.timetable.zone), replace(spec, cells=replace(spec.cells, resolution=8))
    )
    assert by_name["resolution 8"]["hats"] == len(set(zip(counts.slot.tolist(), counts.place.tolist(), strict=True)))
    assert by_name["120-minute slots"]["hats"] < document["hats"] < by_name["30-minute slots"]["hats"]


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", MEANS)
def test_every_mechanism_can_be_planned_with_and_without_a_prior(planned, mechanism):
    spec = city.SPEC.replace('"array-average"', f'"{mechanism}"')
    for text in (spec, spec.replace("upper_kmh = 65", PRIOR)):
        document = planned(text)
        assert document["hats"] == 6
        assert document["statistics"][0]["mechanism"] == mechanism
        assert all(kind["forecast_error"] >= 0 for kind in document["statistics"][0]["classes"])
        assert "typical" in document["counts"]


@pytest.mark.parametrize(("unit", "most"), [("day", 25 * 3), ("week", 169 * 3)])
def test_a_bound_holds_in_periods_in_which_the_clock_changes_too(planned, unit, most):
    spec = capped(city.AUSTIN, 3, 9).replace("vehicle-day", f"vehicle-{unit}")
    composed = planned(spec, counts="[5, 3]", name="counts.json")["composed"]
    assert composed["debit_of_a_period"] == {"epsilon": most, "known": "at most"}
    assert composed["within_limit"] is (True if most <= 300 else None)


@pytest.mark.slow
def test_nothing_is_written_and_no_ledger_is_needed(plan, tmp_path, monkeypatch):
    for variable in ("HOME", "XDG_STATE_HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path / "state"))
    monkeypatch.setenv("HATSTREAM_LEDGER", str(tmp_path / "state" / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)
    code, out, _ = plan(auto(), counts=TABLE)
    assert code == 0
    assert "nothing was released or spent" in out
    assert plan(city.SPEC, "--synthetic")[0] == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["counts.csv", "spec.toml"]


# --- tables of counts in every form, and those that are refused ---


def test_all_forms_of_a_table_give_the_same_plan(planned, tmp_path):
    rows = [line.split(",") for line in TABLE.splitlines()[1:]]
    columns = dict(zip(("slot", "cell", "vehicle", "count"), zip(*rows, strict=True), strict=True))
    columns["count"], columns["slot"] = ([int(value) for value in columns[name]] for name in ("count", "slot"))
    pq.write_table(pa.table({**columns, "speed": [1.0] * 7}), tmp_path / "counts.parquet")
    lines = [json.dumps({name: columns[name][number] for name in columns}) for number in range(7)]
    first = planned(city.SPEC, counts=TABLE)
    second = planned(city.SPEC, counts="\n".join(lines), name="counts.jsonl")
    third = planned(city.SPEC, "--counts", str(tmp_path / "counts.parquet"))
    for document in (first, second, third):
        del document["counts"]
    assert first == second == third


@pytest.mark.parametrize(
    ("name", "counts", "said"),
    [
        ("counts.csv", "", "cannot be read as csv"),
        ("counts.csv", "slot,cell,vehicle,count\n", "holds no rows"),
        ("counts.csv", "slot,vehicle,count\n1,PLATE1,3\n", "`hat` or both `slot` and `cell`; it has slot, vehicle"),
        ("counts.csv", "a,b\n1,2\n", "it has none of them"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,PLATE1\n", "every count must be a whole number"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2.5\n", "every count must be a whole number"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,PLATE2,0\n", "the count in row 2 must be"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,,1\n", "column 'vehicle' is empty in row 2"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\n1,PLATE1,1\n", "more than one row in the same HAT"),
        ("counts.csv", "hat,vehicle,count\n1,PLATE1,2\nPLATE1\n", "cannot be read as csv"),
        ("counts.csv", "hat,count\n1,2000000000\n1,2000000000\n", "more than 2147483647 samples"),
        ("counts.jsonl", '{"hat": 1, "vehicle": "PLATE1", "count": true}', "every count must be a whole number"),
        ("counts.jsonl", '{"hat": 1, "vehicle": ["PLATE1"], "count": 1}', "'vehicle' must hold text or numbers"),
        ("counts.jsonl", '{"hat": 1, "vehicle": "PLATE1"', "cannot be read as jsonl"),
        ("counts.parquet", "PLATE1", "cannot be read as parquet"),
        ("counts.json", '["PLATE1"]', "count number 1 of the list must be"),
        ("counts.json", "[3, true]", "count number 2 of the list must be"),
        ("counts.json", "[3, -1]", "count number 2 of the list must be"),
        ("counts.json", f"[{2**70}]", "count number 1 of the list must be"),
        ("counts.json", '{"count": [3]}', "must hold a list of counts"),
        ("counts.json", "[]", "must hold a list of counts"),
        ("counts.json", "PLATE1", "is not JSON"),
        ("counts.json", "[2000000000, 2000000000]", "more than 2147483647 samples"),
        ("counts.txt", "PLATE1", "counts come from .json, .csv, .jsonl or .parquet files"),
    ],
)
def test_a_bad_file_is_refused_clearly_without_a_vehicles_name(plan, name, counts, said):
    code, out, err = plan(city.SPEC, counts=counts, name=name)
    assert (code, out) == (4, "")
    assert said in err
    assert "PLATE" not in err


def test_wrong_use_a_missing_file_and_a_bad_specification_have_their_codes(plan, tmp_path):
    assert plan(city.SPEC, "--synthetic", counts="[3]", name="counts.json")[0] == 1
    code, _, err = plan(city.SPEC, "--counts", str(tmp_path / "nowhere.csv"))
    assert code == 4
    assert "there is no file of counts" in err
    assert plan(city.SPEC.replace("epsilon = 1.0", "epsilon = 0"))[0] == 2
