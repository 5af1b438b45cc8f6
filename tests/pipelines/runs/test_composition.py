"""Composition over HATs end to end: whole periods, suppression, mean and variance, one epsilon said in many ways."""

import numpy as np
import pytest

from dpops.mechanisms.array_average import ArrayAverage
from pipelines.runs.beam import bounded
from pipelines.specification import SpecificationError, load
from tests import city
from tests.city import loaded
from tests.kit.grids import grid
from tests.pipelines.commands.releases import rows_in
from tests.statistical.checks import seeded
from transforms import tasks
from transforms.releases.hats.draw import most_spent
from transforms.time.calendar import Timetable

WHOLE = 'per = "period"\nscope = "period"'
CLIPPED = f'{WHOLE}\ncomposition = "clip-user"'
BOTH = 'name = "mean"\nmechanism = "baseline"\n[[statistic]]\nname = "variance"\nmechanism = "baseline-variance"'
DAY = ("--from", city.DAYS[0], "--to", city.DAYS[0])


def spec_of(privacy=WHOLE, *changes):
    return city.changed(city.SPEC, ('per = "hat"', privacy), *changes)


TWO = ('name = "mean"\nmechanism = "array-average"', BOTH)


def released(folder, hatstream, *more):
    return city.told(hatstream, *city.release(folder, *more))


def ledger_of(folder):
    return city.account(folder).ledger


def test_a_period_planned_as_a_whole_debits_exactly_its_total(tmp_path, hatstream):
    city.opened(tmp_path, hatstream, spec=spec_of(WHOLE, ("epsilon = 1.0", "epsilon = 6")))
    for period in released(tmp_path, hatstream)["periods"]:
        assert (period["sum_of_slot_maxima"], period["most_spent_by_a_vehicle"]) == (6, 6)
    assert {float(row["epsilon"]) for row in rows_in(tmp_path / "out")} == {6 / 9}, "every bus is in 9 HATs of the day"
    assert [spent.epsilon for spent in ledger_of(tmp_path).spent("small")] == [6, 6]


def half_debit(patch):
    patch.setattr("transforms.releases.hats.draw.most_spent", lambda *given: most_spent(*given) / 2)


def plans_of_twice_the_epsilon(patch):
    draw = ArrayAverage.draw

    def mutant(self, hats, grid, epsilon, noise):
        return draw(self, hats, grid, 2 * epsilon, noise)

    patch.setattr(ArrayAverage, "draw", mutant)


@pytest.mark.parametrize(("privacy", "wrong"), grid(['per = "hat"', WHOLE], [half_debit, plans_of_twice_the_epsilon]))
def test_a_job_whose_plans_claim_more_than_its_debit_releases_nothing(tmp_path, hatstream, monkeypatch, privacy, wrong):
    city.opened(tmp_path, hatstream, spec=spec_of(privacy))
    wrong(monkeypatch)
    assert "claim more than the account was debited" in city.refused(hatstream, *city.release(tmp_path, *DAY))
    assert ledger_of(tmp_path).spent("small") == []
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("privacy", ['per = "hat"', WHOLE])
def test_verify_finds_plans_that_claimed_more_than_their_debit(tmp_path, hatstream, monkeypatch, privacy):
    city.opened(tmp_path, hatstream, spec=spec_of(privacy))
    with monkeypatch.context() as careless:
        plans_of_twice_the_epsilon(careless)
        careless.setattr("transforms.releases.hats.draw.check_claims", lambda _units, _counted: None)
        careless.setattr("transforms.ledger.releases.check_claims", lambda _units: None)
        assert hatstream(*city.release(tmp_path, *DAY))[0] == 0
    err = city.refused(hatstream, "ledger", "verify", "--ledger", str(tmp_path / "ledger.sqlite"))
    assert "claim more than the account was debited" in err


def test_other_slots_of_a_period_that_is_planned_as_a_whole_are_refused(tmp_path, hatstream, monkeypatch):
    city.opened(tmp_path, hatstream, spec=spec_of())
    part = city.release(tmp_path, start=f"{city.DAYS[0]}T08:00", end=f"{city.DAYS[0]}T10:00")
    for _ in range(2):
        assert "2022-01-01 has 4 slots, the range holds 2 of them" in city.refused(hatstream, *part, code=1)
        released(tmp_path, hatstream)
    day_slots = Timetable.day_slots  # as when the law on clock changes did change after the release
    monkeypatch.setattr(Timetable, "day_slots", lambda table, day: day_slots(table, day)[1:])
    assert "planned and sealed as a whole with 4 slots" in city.refused(hatstream, *city.release(tmp_path), code=3)


def test_parts_of_the_input_change_no_plan_of_a_period(tmp_path, hatstream, monkeypatch):
    plans = []
    for rows in (4_000_000, 5):
        folder = tmp_path / str(rows)
        folder.mkdir()
        city.opened(folder, hatstream, spec=spec_of(CLIPPED))
        monkeypatch.setattr(bounded, "PANE_ROWS", rows)
        released(folder, hatstream, *DAY)
        units = ledger_of(folder).released(load(folder / "spec.toml").spec_id, city.DAYS[0])
        plans.append([[(hat.cell, hat.plan) for hat in unit.released] for unit in units])
    assert plans[0] == plans[1]
    assert sum(map(len, plans[0])) == 9


@pytest.mark.parametrize("scope", ["slot", "period"])
def test_suppression_leaves_every_vehicle_in_fewer_hats_and_every_hat_with_a_vehicle(tmp_path, hatstream, scope):
    """A lone bus in a cell of its own has the largest error; below it there is room to suppress the others."""
    spec = spec_of(f'per = "hat"\ncomposition = "clip-user"\nscope = "{scope}"', ("epsilon = 1.0", "epsilon = 0.01"))
    lone = [f"PLATE9,{city.DAYS[0]}T08:{minute:02d}:00+05:30,21.40,72.83,30\n" for minute in range(10)]
    city.opened(tmp_path, hatstream, spec=spec, lines=[*city.rows(), *lone])
    (period,) = released(tmp_path, hatstream, *DAY)["periods"]
    assert (period["hats"], period["no_data"]) == (10, 0)
    assert period["most_spent_by_a_vehicle"] <= period["sum_of_slot_maxima"] < 9 * 0.01


def test_mean_and_variance_are_those_of_an_independent_count_when_there_is_hardly_any_noise(tmp_path, hatstream):
    changes = [("epsilon = 1.0", "epsilon = 1000000"), ("limit = 50", "limit = 1e9"), TWO]
    city.opened(tmp_path, hatstream, spec=spec_of('per = "hat"', *changes))
    released(tmp_path, hatstream, *DAY)
    speeds: dict[tuple[int, str], list[float]] = {}
    for line in city.rows(days=city.DAYS[:1]):
        _, time, lat, _, speed = line.strip().split(",")
        speeds.setdefault((int(time[11:13]), lat), []).append(float(speed))
    expected = sorted((np.mean(v), np.var(v)) for v in speeds.values())
    rows = rows_in(tmp_path / "out")
    values = {(row["slot_start"], row["cell"], row["statistic"]): float(row["value"]) for row in rows}
    pairs = [(value, values[slot, cell, "variance"]) for (slot, cell, name), value in values.items() if name == "mean"]
    assert np.array(sorted(pairs)) == pytest.approx(np.array(expected), abs=0.1)
    assert {(row["statistic"], row["unit"]) for row in rows} == {("mean", "km/h"), ("variance", "(km/h)^2")}


def test_the_epsilon_of_a_hat_is_divided_over_its_statistics_by_weight(tmp_path, hatstream):
    weighted = (TWO[0], BOTH.replace('"baseline"', '"baseline"\nweight = 3'))
    city.opened(tmp_path, hatstream, spec=spec_of('per = "hat"', weighted))
    released(tmp_path, hatstream, *DAY)
    shares = {(row["statistic"], float(row["epsilon"])) for row in rows_in(tmp_path / "out")}
    assert shares == {("mean", 0.75), ("variance", 0.25)}


def test_plain_estimators_get_the_second_stage_under_suppression_and_not_without(tmp_path):
    caps = {}
    for privacy in (WHOLE, CLIPPED):
        caps[privacy] = [stat.mechanism.m_ub for stat in city.loaded(tmp_path, spec_of(privacy, TWO)).statistics]
    assert caps == {WHOLE: ["none", "none"], CLIPPED: ["opt", "opt"]}


def counts_of(folder):
    """The table of counts that `plan` takes, of the first day."""
    counts: dict[tuple[str, str, str], int] = {}
    for line in city.rows(days=city.DAYS[:1]):
        bus, time, lat, *_ = line.split(",")
        counts[time[11:13], lat, bus] = counts.get((time[11:13], lat, bus), 0) + 1
    path = folder / "counts.csv"
    path.write_text("slot,cell,vehicle,count\n" + "".join(f"{','.join(key)},{n}\n" for key, n in counts.items()))
    return path


@pytest.mark.few(2)
@pytest.mark.parametrize("privacy", ['per = "hat"', 'per = "period"', WHOLE, CLIPPED, 'per = "hat"\nscope = "period"'])
def test_a_plan_says_what_the_release_then_spends(tmp_path, hatstream, privacy):
    city.opened(tmp_path, hatstream, spec=spec_of(privacy, ("epsilon = 1.0", "epsilon = 0.5"), TWO))
    asked = ("plan", "--spec", tmp_path / "spec.toml", "--counts", counts_of(tmp_path))
    composed = city.told(hatstream, *asked)["composed"]
    (period,) = released(tmp_path, hatstream, *DAY)["periods"]
    assert composed["debit_of_a_period"]["epsilon"] == pytest.approx(period["sum_of_slot_maxima"])
    if "clip" not in privacy:  # which of equal vehicles leaves a HAT is decided by their hashes
        assert composed["vehicle_and_period"]["epsilon"] == pytest.approx(period["most_spent_by_a_vehicle"])


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("vehicle-day", [("day", "exact", 1), ("week", "if alike", 7)]),
        ("vehicle-week", [("day", "at most", 1), ("week", "exact", 1)]),
        ('vehicle-ever"\nsince = 2022-01-01\nuntil = "2023-01-01', [("day", "at most", 1), ("week", "at most", 1)]),
    ],
)
def test_one_release_is_said_per_hat_slot_day_and_week(tmp_path, hatstream, unit, said):
    spec = spec_of('per = "hat"', ('unit = "vehicle-day"', f'unit = "{unit}"'.replace('"2023-01-01"', "2023-01-01")))
    city.write(tmp_path, spec=spec)
    document = city.told(hatstream, "plan", "--spec", tmp_path / "spec.toml", "--counts", counts_of(tmp_path))
    by_unit = {guarantee["unit"]: guarantee for guarantee in document["guarantees"]}
    assert by_unit["a vehicle in one HAT"]["release"] == {"epsilon": 1.0, "known": "exact"}
    assert by_unit["a vehicle in one slot"]["release"] == {"epsilon": 3.0, "known": "exact"}
    for name, is_known, times in said:
        (guarantee,) = [entry for key, entry in by_unit.items() if name in key]
        assert guarantee["release"] == {"epsilon": 9.0 * times, "known": is_known}
        assert guarantee["account"] == 50 * times
    assert "when, where, how often" in document["not_protected"]


# --- The mean of vehicles' means from a specification to rows: planned, released, recorded, checked and evaluated. ----


MEAN = 'name = "mean"\nmechanism = "array-average"'
OF_VEHICLES = 'name = "mean-of-vehicles"'
SPEC = city.SPEC.replace(MEAN, OF_VEHICLES).replace("epsilon = 1.0", "epsilon = 1000").replace("50", "100000")
LINES = [
    *(f"SLOW,2022-01-01T08:{minute:02d}:00+05:30,21.17,72.83,2\n" for minute in range(40)),
    "FAST,2022-01-01T08:01:00+05:30,21.17,72.83,40\n",
    "OTHER,2022-01-01T08:02:00+05:30,21.17,72.83,30\n",
]


def test_a_slow_bus_counts_once_in_the_rows_and_the_ledger_adds_up(tmp_path, hatstream, monkeypatch):
    monkeypatch.setattr(tasks, "Noise", lambda: seeded(3))
    city.opened(tmp_path, hatstream, spec=SPEC, lines=LINES)
    assert hatstream(*city.release(tmp_path, *DAY))[0] == 0
    (row,) = rows_in(tmp_path / "out")
    assert (row["statistic"], row["mechanism"], row["unit"]) == ("mean-of-vehicles", "baseline", "km/h")
    assert float(row["value"]) == pytest.approx(24, abs=0.5), "the mean of all reports is 3.6"
    assert float(row["lower95"]) < 24 < float(row["upper95"])
    assert float(row["bias_bound"]) == pytest.approx(0.005, abs=1e-4)
    assert hatstream("ledger", "verify", "--ledger", tmp_path / "ledger.sqlite")[0] == 0


def test_a_plan_says_what_it_is_worth(tmp_path, hatstream):
    loaded(tmp_path, city.SPEC.replace(MEAN, OF_VEHICLES))
    (tmp_path / "counts.json").write_text("[40, 1, 1]")
    asked = ("plan", "--spec", tmp_path / "spec.toml", "--counts", tmp_path / "counts.json")
    (only,) = city.told(hatstream, *asked)["statistics"]
    assert (only["statistic"], only["mechanism"], only["unit"]) == ("mean-of-vehicles", "baseline", "km/h")
    (hats,) = only["classes"]
    assert hats["noise_scale"] == pytest.approx(65 / 3)


def test_caps_of_counts_are_refused_and_suppression_brings_none(tmp_path):
    with pytest.raises(SpecificationError, match="m_ub does not go with mean-of-vehicles"):
        loaded(tmp_path, city.SPEC.replace(MEAN, f"{OF_VEHICLES}\nm_ub = 3"))
    with pytest.raises(SpecificationError, match="those that fit: baseline"):
        loaded(tmp_path, city.SPEC.replace(MEAN, f'{OF_VEHICLES}\nmechanism = "auto"'))
    clipped = city.SPEC.replace(MEAN, OF_VEHICLES).replace(
        'per = "hat"', 'per = "period"\nscope = "period"\ncomposition = "clip-user"'
    )
    (stat,) = loaded(tmp_path, clipped).statistics
    assert (stat.mechanism.statistic, stat.mechanism.m_ub) == ("mean-of-vehicles", "none")


def test_evaluate_compares_it_with_its_own_truth(tmp_path, hatstream):
    city.write(tmp_path, spec=city.SPEC.replace(MEAN, OF_VEHICLES))
    feed = ["--data", tmp_path / "*.csv", "--spec", tmp_path / "spec.toml", "--not-private"]
    rows = city.told(hatstream, "evaluate", "mechanisms", *feed, "--runs", "1", "--epsilons", "1000")["rows"]
    assert [row["hats"] < 1 for row in rows if row["mechanism"] == "mean-of-vehicles"] == [True]
