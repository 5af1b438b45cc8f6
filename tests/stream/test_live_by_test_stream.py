"""Live slots and the end of a period under a watermark that the test moves: nothing that is public follows data."""

import csv
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from apache_beam.transforms.window import TimestampedValue

from dpops.accountant import Accountant
from pipelines.cli import main
from pipelines.job import OutputError, Outputs
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from tests import city, levels_city
from tests.levels_city import CELLS, DAYS
from tests.stream.by_hand import STEPS, Beats, Counters, Fed, batch, instant_s, moved, run
from transforms import counters
from transforms.failpoints import FailpointError, acting
from transforms.recorded.stage_plan import bare_stage

SPEC = levels_city.SPEC + "[live]\nshare = 0.4\nday_lateness_s = 1800\n"
SLOTS = 4  # of a day's service, from 08:00 to 12:00


class Town:
    """A city, maybe with its first day released, and a stream of the second."""

    def __init__(self, folder, monkeypatch=None):
        self.folder = folder
        self.spec = load(folder / "spec.toml")
        self.place = city.account(folder)
        if monkeypatch is not None:
            self.counts = Counters(monkeypatch, *STEPS).counts

    def release(self, day):
        base = city.release(self.folder, start=day, end=day)
        base[base.index("--formats") + 1] = "csv"
        return main(base)

    def stream(self, *moves, day=DAYS[1], output="out"):
        start_s = instant_s(day, "08:00")
        made = streaming.prepare(self.spec, start_s, None, self.place, Outputs(self.folder / output, ("csv",)))
        beats = Beats(tuple(start_s + 3600 * i for i in range(SLOTS)))
        run(replace(made, source=Fed(moved(moves)), heartbeat=beats))
        return self

    def live(self, day=DAYS[1]):
        return self.place.ledger.live(self.spec.account.name, self.spec.spec_id, day)

    def stages(self):
        return self.place.ledger.stages(self.spec.account.name, self.spec.spec_id)

    def files(self, kind="live", output="out"):
        return {path.name: path.read_bytes() for path in sorted((self.folder / output).glob(f"{kind}-*.csv"))}


def reports(text, received=None, buses=4, day=DAYS[1]):
    """One report of each bus at a time, received then or later."""

    def move(clock):
        table = batch(*((f"PLATE{bus}", f"{day}T{text}:0{bus % 10}+05:30", 10 * bus + 5) for bus in range(buses)))
        return clock.add_elements([TimestampedValue(table, instant_s(day, received or text))])

    return move


def watermark(text, day=DAYS[1]):
    return lambda clock: clock.advance_watermark_to(instant_s(day, text))


WHOLE = (
    watermark("08:00"),
    reports("08:10"),
    reports("08:40"),
    watermark("09:00"),
    reports("09:10"),
    watermark("12:00"),
    watermark("13:00"),
)


def opened(folder):
    levels_city.write(folder, spec=SPEC, lines=levels_city.rows(buses=4))
    assert main(city.init(folder)) == 0
    return Town(folder)


@pytest.fixture(scope="module")
def first_day(tmp_path_factory):
    """A folder with a ledger of a released day, to be copied."""
    folder = tmp_path_factory.mktemp("first") / "city"
    folder.mkdir()
    assert opened(folder).release(DAYS[0]) == 0
    return folder


@pytest.fixture
def town(first_day, tmp_path, monkeypatch):
    return Town(Path(shutil.copytree(first_day, tmp_path / "city")), monkeypatch)


def public(town):
    """What leaves for the public, values apart: names, keys, plans, debits."""
    rows = {
        name: [[row[key] for key in ("slot_start", "cell", "statistic", "mechanism", "epsilon_slot")] for row in table]
        for name, table in ((name, list(csv.DictReader(data.decode().splitlines()))) for name, data in
                            (town.files() | town.files("hats")).items())
    }  # fmt: skip
    entries = [*town.live(), *town.stages()]
    plans = [
        (entry.unit.key, entry.unit.debit, bare_stage(entry.unit).share, bare_stage(entry.unit).parts)
        for entry in entries
    ]
    return rows, plans


@pytest.mark.slow
def test_each_slot_is_released_live_and_the_rest_when_the_day_ends(town):
    town.stream(*WHOLE)
    live = town.live()
    assert [entry.unit.slot_start[11:16] for entry in live] == ["08:00", "09:00", "10:00", "11:00"]
    assert [bare_stage(entry.unit).share for entry in live] == [Fraction(1, 10)] * SLOTS
    last = town.stages()[-1].unit
    assert (last.period, bare_stage(last).share, bare_stage(last).stages) == (DAYS[1], Fraction(3, 5), 1)
    debits = Accountant().compose(unit.debit for unit in [*(e.unit for e in live), last])
    assert debits == Accountant().compose([last.total])
    (spent,) = town.place.ledger.spent("small", DAYS[1])
    assert spent.debited == debits
    assert len(town.files()) == SLOTS
    assert len(town.files("hats")) == 2 * SLOTS
    assert all(len(data.splitlines()) == 1 + len(CELLS) for data in town.files().values())
    town.place.ledger.verify()


def test_nothing_public_follows_from_who_drove(first_day, tmp_path):
    seen = []
    for buses in (0, 7):
        town = Town(Path(shutil.copytree(first_day, tmp_path / str(buses))))
        moves = [reports("08:10", buses=buses), reports("09:10", buses=buses)] if buses else []
        seen.append(public(town.stream(watermark("08:00"), *moves, watermark("12:00"), watermark("13:00"))))
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_on_a_first_day_nothing_is_live_and_the_day_has_the_whole_total(tmp_path):
    town = opened(tmp_path).stream(*WHOLE)
    assert town.live() == []
    assert [bare_stage(entry.unit).share for entry in town.stages()] == [Fraction(3, 10), Fraction(7, 10)]
    assert not town.files()


@pytest.mark.slow
def test_a_late_report_counts_in_the_days_release_and_one_later_than_that_is_refused(town):
    town.stream(
        watermark("08:00"),
        reports("08:10"),
        watermark("09:00"),
        reports("08:40", received="09:01"),
        watermark("09:20"),
        reports("08:41", received="09:25"),
        watermark("12:00"),
        watermark("13:00"),
    )
    assert town.counts[counters.LATE_FOR_LIVE] == 4
    assert town.counts[counters.refused("lateness", "late")] == 4
    rows = [
        f"PLATE{bus},{DAYS[1]}T{text}:0{bus}+05:30,21.17,72.83,{10 * bus + 5}\n"
        for text in ("08:10", "08:40")
        for bus in range(4)
    ]
    levels_city.write(town.folder, spec=SPEC, lines=rows)
    recorded = town.stages()
    assert town.release(DAYS[1]) == 0
    assert town.stages() == recorded
    assert town.place.ledger.audit("small").changed == 0, "the scheduled job makes the same day of the same reports"


@pytest.mark.slow
def test_after_a_day_is_released_its_live_slots_are_missed_and_nothing_is_spent_on_them(town):
    town.release(DAYS[1])
    before = town.place.ledger.spent("small")
    town.stream(*WHOLE)
    assert town.live() == []
    assert not town.files()
    assert town.place.ledger.spent("small") == before


def test_live_rows_that_the_ledger_does_not_know_stop_a_stream_before_it_spends(town):
    (town.folder / "out" / f"live-{town.spec.spec_id}-20220102T080000+0530.csv").touch()
    with pytest.raises(OutputError, match="has no record of its slot"):
        town.stream(*WHOLE)
    assert town.live() == []


@pytest.mark.slow
def test_a_second_stream_draws_nothing_again_and_publishes_the_same(town):
    town.stream(*WHOLE)
    live, stages, spent = town.live(), town.stages(), town.place.ledger.spent("small")
    town.stream(watermark("08:00"), reports("08:30", buses=9), watermark("12:00"), watermark("13:00"), output="again")
    assert (town.live(), town.stages(), town.place.ledger.spent("small")) == (live, stages, spent)
    assert town.files(output="again") == town.files()
    assert town.files("hats", "again").items() <= town.files("hats").items()


def of_all(town):
    """(what, value) of every release of the day."""
    return {
        entry.unit.key: entry.unit.integers
        for entry in [*town.live(), *(stage for stage in town.stages() if stage.unit.period == DAYS[1])]
    }


@pytest.mark.slow
@pytest.mark.parametrize(("place", "passage"), [("after-commit", 1), ("after-noise", 2), ("after-commit", 5)])
def test_a_step_that_fails_and_is_tried_again_loses_and_repeats_nothing(town, place, passage):
    """The runner gives the failed step its input once more, as engines do."""
    seen = []

    def stop(name, number):
        if (name, number) == (place, passage):
            seen.append(of_all(town))
            raise FailpointError(name)

    with acting(stop):
        stored = of_all(town.stream(*WHOLE))
    assert len(stored) == SLOTS + 1
    assert seen[0].items() <= stored.items()
    assert len(town.files()) == SLOTS
    total = Accountant().compose([town.stages()[-1].unit.total])
    assert town.place.ledger.spent("small", DAYS[1])[0].debited == total


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", ["before-record", "after-noise"])
def test_of_two_streams_one_value_per_release_stands(town, meanwhile):
    """The other one goes its whole way while this one stands with its second slot drawn."""
    values = []

    def overtake(name, number):
        if (name, number) == (meanwhile, 2):
            values.append(of_all(town.stream(*WHOLE, output="other")))

    with acting(overtake):
        town.stream(*WHOLE)
    assert of_all(town) == values[0]
    assert len(values[0]) == SLOTS + 1
    assert town.files().items() == town.files(output="other").items()


@pytest.mark.slow
def test_a_scheduled_job_that_overtakes_the_stream_leaves_it_what_it_released_and_the_rest_missed(town):
    def overtake(name, number):
        if (name, number) == ("before-record", 3):
            assert town.release(DAYS[1]) == 0

    with acting(overtake):
        town.stream(*WHOLE)
    assert len(town.live()) == 2
    assert town.counts[counters.MISSED] >= 1
    assert [bare_stage(stage.unit).share for stage in town.stages()][2:] == [Fraction(3, 5)]
    assert len(town.files("hats")) == 2 * SLOTS
