"""The guarantee's sentence says the chance that the noise has; and `hatstream ledger missing` the slots that lack."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpops.accountant import Accountant, DeltaLimit
from pipelines.account import guarantee
from pipelines.account.guarantee import SpanBound, costs_at_places, is_due, levels_sentence, loss_of, sentence
from pipelines.inputs import range_of
from pipelines.specification import Specification, load
from tests import city, levels_city

LIMIT = DeltaLimit(Fraction("2.64"), Fraction(1, 10**6))


def unspent(spec: Specification) -> tuple[SpanBound, ...]:
    """Bounds of an account that has the specification's limit and spent nothing."""
    return guarantee.span_bounds(spec.account.limit, {})


def levels_said(folder: Path, total: str, delta: str = "", adjacency: str = "add-remove") -> str:
    spec = levels_city.SPEC.replace("epsilon = 2.64", f"epsilon = {total}\n{delta}").replace("add-remove", adjacency)
    loaded = city.loaded(folder, spec)
    assert loaded.levels is not None
    return levels_sentence(loaded, unspent(loaded))


@pytest.mark.parametrize(("total", "chance"), [("1", "5e-06"), ("2.64", "2.1e-06"), ("10", "7.2e-07")])
def test_a_total_with_delta_names_the_chance_of_its_noise(tmp_path: Path, total: str, chance: str) -> None:
    text = levels_said(tmp_path, total, "delta = 1e-6")
    assert "raise the odds of a true guess about one vehicle" in text
    assert f"(epsilon {total}), but for a chance of {chance} under the noise that is drawn;" in text
    assert "times as likely with the vehicle as without it, plus 1e-06, and vice versa." in text
    assert "chance of 1e-06" not in text


def test_claims_of_each_hat_on_an_account_with_delta_say_it_too(tmp_path: Path) -> None:
    spec = city.loaded(tmp_path)
    spent = loss_of(Accountant(pure=Fraction("0.5")), LIMIT)
    text = sentence(spec, unspent(spec), Fraction("0.5"), spent)
    assert f"but for a chance of {spent.chance_text} under the noise" in text
    assert "with any other speeds of it, plus 1e-06" in text


PLACES = "[places]\nresolution = 8\n"


def test_of_a_total_that_the_limit_adds_up_none_of_nothing_is_said_of_places(tmp_path: Path) -> None:
    """A limit without delta, and a total with one: nothing of it will be released, and a plan says so."""
    spec = load(
        city.write(tmp_path, spec=levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2\ndelta = 1e-6") + PLACES)[0]
    )
    assert spec.levels is not None
    assert "map of places" not in levels_sentence(spec, unspent(spec))
    assert costs_at_places(spec, unspent(spec)) == []


def test_a_map_of_places_says_what_it_tells_of_a_van_in_its_depot(tmp_path: Path) -> None:
    """Without a delta 28 days add up to 28 totals; the sentence is there where there are places alone."""
    spec = city.loaded(tmp_path, levels_city.SPEC + PLACES)
    assert spec.levels is not None
    said_of_places = levels_sentence(spec, unspent(spec))
    assert said_of_places.endswith(
        "such as a van at its depot, 28 days change the odds of any guess by at most a factor of 10^33 "
        "(epsilon 73.92), so large that the vehicle is hardly protected."
    )
    assert "at one place every day" not in levels_said(tmp_path, "2.64")


LIMITS = """limits = [
  { days = 1, epsilon = 2.64, delta = 1e-6 },
  { days = 28, epsilon = 10, delta = 1e-6 },
]"""


def test_a_limit_of_28_days_is_what_a_van_in_its_depot_can_lose(tmp_path: Path) -> None:
    """One day's release has all of its own limit; the ledger refuses what 28 of them would have beyond theirs."""
    spec = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace("limit = 2.64", LIMITS)
    loaded = city.loaded(tmp_path, spec + PLACES)
    assert loaded.levels is not None
    day, several = costs_at_places(loaded, unspent(loaded))
    assert (day.days, float(day.loss.epsilon)) == (1, 2.64)
    assert (several.days, *several.loss[:2]) == (28, Fraction(10), Fraction(1, 10**6))
    assert several.loss.chance >= 1e-7
    assert "28 days raise the odds of a true guess by at most a factor of 22,100" in levels_sentence(
        loaded, unspent(loaded)
    )
    (_, unbounded) = costs_at_places(loaded, unspent(loaded)[:1])
    assert 15 < float(unbounded.loss.epsilon) < 28 * 2.64


@pytest.mark.few(1)
@pytest.mark.parametrize(("adjacency", "guess"), [("add-remove", "them"), ("counts-public", "its speeds on them")])
def test_a_span_hides_days_driven_only_where_counts_are_secret(tmp_path: Path, adjacency: str, guess: str) -> None:
    spec = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace("limit = 2.64", LIMITS)
    loaded = city.loaded(tmp_path, spec.replace("add-remove", adjacency))
    said_of_span = levels_sentence(loaded, unspent(loaded)).partition("about any 28 consecutive days")[2]
    assert f"raises the odds of a true guess about {guess} by at most a factor of 22,100" in said_of_span


FIRST, LAST = city.DAYS


@pytest.fixture
def town(tmp_path, ledger_url, hatstream, monkeypatch):
    """The small city with its account opened, on each database."""
    monkeypatch.setenv("HATSTREAM_LEDGER", ledger_url)
    return opened(tmp_path, hatstream)


def opened(folder, hatstream, spec=city.SPEC):
    city.write(folder, spec=spec)
    assert hatstream("init", *place(folder))[0] == 0
    return folder


def place(folder):
    return ["--spec", folder / "spec.toml", "--key", folder / "ledger.key"]


def release(hatstream, folder, start, end):
    rest = ["--input", folder / "feed.csv", "--output", folder / "out", "--from", start, "--to", end, "--allow-empty"]
    assert hatstream("release", *place(folder), *rest)[0] == 0


def ask(hatstream, folder, start=FIRST, end=LAST):
    return city.told(hatstream, "ledger", "missing", *place(folder), "--from", start, "--to", end)


def starts(answer):
    return [gap["slot_start"] for gap in answer["missing"]]


@pytest.mark.few(1)
def test_before_any_release_every_slot_of_service_is_missing(town, hatstream):
    answer = ask(hatstream, town)
    assert starts(answer) == [f"{day}T{hour:02d}:00:00+05:30" for day in city.DAYS for hour in range(8, 12)]
    assert (answer["name"], answer["slots"], answer["still_to_come"]) == ("small-city", 8, 0)
    assert answer["missing"][0] == {
        "period": FIRST,
        "slot_start": f"{FIRST}T08:00:00+05:30",
        "slot_end": f"{FIRST}T09:00:00+05:30",
        "shards": [0],
    }


@pytest.mark.few(1)
def test_what_is_listed_is_what_the_release_job_fills(town, hatstream):
    release(hatstream, town, f"{FIRST}T09:00", f"{FIRST}T10:00")
    release(hatstream, town, LAST, LAST)
    answer = ask(hatstream, town)
    assert [start[11:13] for start in starts(answer)] == ["08", "10", "11"]
    for gap in answer["missing"]:
        release(hatstream, town, gap["slot_start"], gap["slot_end"])
    assert ask(hatstream, town)["missing"] == []


@pytest.mark.few(1)
def test_another_specification_on_the_same_account_fills_nothing(town, hatstream):
    release(hatstream, town, FIRST, FIRST)
    city.write(town, spec=city.SPEC.replace("resolution = 7", "resolution = 8"))
    assert len(ask(hatstream, town, FIRST, FIRST)["missing"]) == 4


def test_a_slot_of_which_a_shard_is_missing_is_missing(tmp_path, hatstream, monkeypatch):
    monkeypatch.setenv("HATSTREAM_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COLUMNS", "200")  # a heading is not folded
    capped = 'epsilon = 1.0\ncomposition = "cap"\nmax_cells = 3\nmax_samples = 5\nrelease_shards = 3'
    town = opened(tmp_path, hatstream, city.SPEC.replace("epsilon = 1.0", capped))
    release(hatstream, town, FIRST, FIRST)
    assert ask(hatstream, town, FIRST, FIRST)["missing"] == []
    first = "(select min(slot_s) from entry)"
    city.tamper(town, f"delete from entry where kind = 'release' and shard = 1 and slot_s = {first}")
    (gap,) = ask(hatstream, town, FIRST, FIRST)["missing"]
    assert (gap["slot_start"], gap["shards"]) == (f"{FIRST}T08:00:00+05:30", [1])
    out = hatstream("ledger", "missing", *place(town), "--from", FIRST, "--to", FIRST)[1]
    assert "missing shards of 0 to 2" in " ".join(out.split())


def test_a_slot_is_due_when_its_lateness_is_over_too(tmp_path):
    spec = city.loaded(tmp_path, city.SPEC.replace("minutes = 60", "minutes = 60\nallowed_lateness_s = 120"))
    slot = range_of(spec.timetable, FIRST, FIRST).slots[0]
    end_s = slot.start_s + 3_600
    assert [is_due(spec, slot.start_s, end_s + late_s) for late_s in (0, 119, 120)] == [False, False, True]


def test_looking_writes_nothing(tmp_path, hatstream, monkeypatch):
    monkeypatch.setenv("HATSTREAM_LEDGER", str(tmp_path / "ledger.sqlite"))
    town = opened(tmp_path, hatstream)
    files = [town / "ledger.sqlite", town / "ledger.key.head"]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.chmod(0o400)
    ask(hatstream, town)
    assert [file.read_bytes() for file in files] == before


def test_a_ledger_that_is_not_there_or_does_not_know_the_account_is_said(town, hatstream):
    dates = ["--from", FIRST, "--to", LAST]
    nowhere = ["--spec", town / "spec.toml", "--ledger", town / "nowhere.sqlite"]
    assert "there is no ledger" in city.refused(hatstream, "ledger", "missing", *nowhere, *dates)
    city.write(town, spec=city.SPEC.replace('name = "small"', 'name = "large"'))
    assert "no account 'large'" in city.refused(hatstream, "ledger", "missing", *place(town), *dates, code=3)
