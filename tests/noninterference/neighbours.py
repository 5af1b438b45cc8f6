"""Generated neighbours: a vehicle of any rows among others of any rows, in every layout, in files and as elements.

The road up to a stage's sums runs in this process. What a neighbour changes there must be its own vector, exactly: the
integers of all are those of the others and those of the vehicle alone, added up; and so are the numbers of rows that
are refused for each reason. That says more than a bound: a sum of bounded vectors that each follow from own rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from dpops.levels.bounded import sum_up
from dpops.levels.stages import UNIT, Stage
from dpops.types import Int64s
from pipelines.account import location
from pipelines.inputs import range_of
from pipelines.job import NOWHERE, Job, job_of, ledger_account_of
from pipelines.specification import load
from tests import levels_city
from tests.city import DAYS
from tests.noninterference import feeds
from tests.noninterference.world import Feed, Report
from transforms import wire
from transforms.count.tally import tally
from transforms.layouts import Layout
from transforms.layouts.base import RawBatch
from transforms.observe.parse import locate, parse
from transforms.observe.vehicle_ids import Secret
from transforms.public import EntryNumber
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.stages import COLUMNS, first_centres, laid_stage, rows_of
from transforms.sources.elements import _batches

ELEMENTS = "elements"
LAYOUTS = (*feeds.WRITERS, ELEMENTS)


class Road(NamedTuple):
    """Of one layout: its specification's job, and the first stage of its release."""

    job: Job
    layout: Layout
    stage: Stage
    region: tuple[int, ...]
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Neighbours:
    """others, vehicle: their rows. places: of the vehicle's rows among the others, or more. files: that hold them."""

    layout: str
    others: Feed
    vehicle: Feed
    places: tuple[int, ...]
    files: int = 1

    @property
    def together(self) -> Feed:
        feed = list(self.others)
        for row, place in zip(self.vehicle, self.places, strict=False):
            feed.insert(place % (len(feed) + 1), row)
        return feed

    def differences(self) -> list[str]:
        """What the vehicle changes besides adding its own bounded vector."""
        road = road_of(self.layout)
        both, others, alone = (self._seen(feed, road) for feed in (self.together, self.others, self.vehicle))
        differences = []
        if (both.integers != others.integers + alone.integers).any():
            differences.append("the integers of all are not those of the others and the vehicle's own")
        norm, share = sum(map(abs, alone.integers.tolist())), road.stage.share
        if norm > share * UNIT * len({str(row.vehicle) for row in self.vehicle}):
            differences.append(f"the vehicle's vector has norm {norm}")
        if both.refused != others.refused + alone.refused:
            differences.append(f"refused: {both.refused}, apart {others.refused + alone.refused}")
        return differences

    def _seen(self, feed: Feed, road: Road) -> "Seen":
        if self.layout == ELEMENTS:
            return seen(_batches([dict(zip(feeds.NAMES, row[:5], strict=True)) for row in feed], feeds.NAMES), road)
        with TemporaryDirectory() as folder:
            feeds.write(feed, Path(folder) / "in", self.layout, self.files)
            paths = sorted((Path(folder) / "in").iterdir())
            return seen((batch for path in paths for batch in road.layout.read(str(path))), road)


class Seen(NamedTuple):
    """integers: of the stage, before noise. refused: rows by reason."""

    integers: Int64s
    refused: Counter[str]


@cache
def road_of(layout: str) -> Road:
    spec_text = feeds.with_input(levels_city.SPEC, "jsonl" if layout == ELEMENTS else layout)
    with TemporaryDirectory() as folder:
        (Path(folder) / "spec.toml").write_text(spec_text)
        spec = load(Path(folder) / "spec.toml")
        place = location.find(f"{folder}/ledger.sqlite", None)
    when, secret = range_of(spec.timetable, DAYS[0], DAYS[0]), Secret(b"k" * 32)
    job = job_of(spec, when, secret, ledger_account_of(spec, place, signs=False), NOWHERE)
    assert isinstance(job.release, PeriodRelease)
    policy = job.release.policy
    slots, hours = tuple(job.slots), [8, 9, 10, 11]
    centres = first_centres(len(policy.region), len(slots))
    stage = laid_stage(policy, policy.first, 1, hours, centres, EntryNumber(0))
    return Road(job, spec.input.layout, stage, policy.region, slots)


def seen(batches: Iterable[Any], road: Road) -> Seen:
    """What a road makes of batches, in the order of their slots."""
    refused: Counter[str] = Counter()
    events: dict[int, list[bytes]] = {slot: [] for slot in road.slots}
    for batch in batches:
        if not isinstance(batch, RawBatch):
            refused[batch.value.reason] += batch.value.rows
            continue
        refused.update(batch.refused)
        observations, reasons = parse(batch.table, road.job.rules)
        refused.update(reasons)
        observations, cell, outside = locate(observations, road.job.ground)
        refused["outside"] += outside
        for part in wire.split(observations, cell, 1):
            events[part.key[0]].append(part.data)
    tallies = list(_tallies(events))
    if not tallies:
        return Seen(np.zeros(2 * road.stage.groups, np.int64), +refused)
    whole = wire.unpack_tally((wire.pack_tally(tally) for tally in tallies), COLUMNS)
    rows = rows_of(whole, np.searchsorted(road.region, whole.cell), road.slots)
    return Seen(np.concatenate(sum_up(rows, road.stage)), +refused)


def _tallies(events: dict[int, list[bytes]]) -> Iterator[wire.Tally]:
    for slot_s, parts in events.items():
        if parts:
            yield tally(wire.unpack_events(parts), slot_s, None, COLUMNS)[0]


# --- what is generated --------------------------------------------------------------------------------------------

TIMES = [f"{DAYS[0]}T{hour:02d}:{minute:02d}:07+05:30" for hour in (7, 8, 9, 11, 12) for minute in (0, 1, 59)]
ODD_TIMES = [
    "", "no time", None, 0, 1_641_004_200, 1_641_004_200.5, 10**400, float("nan"), f"{DAYS[0]}T08:30:00",
    f"{DAYS[0]}T08:30:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", f"{DAYS[0]}T08:00:07\n+05:30", True,
]  # fmt: skip
LATS = [21.17, 21.19, 21.21, "21.17", 21.170000001]
ODD_NUMBERS = [
    None, "", "x", float("nan"), float("inf"), 10**400, -(10**400), "1e999", " 3", "3\n4", '"', True, [], {}, 0, -0.0,
    91, 180.1, 2**63, b"3", "٣", "1,5",
]  # fmt: skip
SPEEDS = [0.0, 20.0, 64.99, 65.0, 400.0, -3.0, "30", 1e300]
ODD_IDS = [None, "", "\ud800", True, [], "x" * 2_000, "a\nb", b"\xfe"]
OWN_ODD_IDS = [None, "", float("nan"), 2.5, {}, "y" * 2_000, 'a"b', "a,b", b"\xff", "=1+1", 7.0]
"""Some are ids in one layout and none in another: no text of the vehicle's is one of the others'."""


def rows(ids: list[Any], odd_ids: list[Any]) -> st.SearchStrategy[Feed]:
    """Rows of vehicles of these ids: mostly good ones, some of them often again."""
    row = st.builds(
        Report,
        st.one_of(*[st.sampled_from(ids)] * 4, st.sampled_from(odd_ids)),
        st.one_of(*[st.sampled_from(TIMES)] * 4, st.sampled_from(ODD_TIMES)),
        st.one_of(*[st.sampled_from(LATS)] * 4, st.sampled_from(ODD_NUMBERS)),
        st.one_of(*[st.just(72.83)] * 4, st.sampled_from(ODD_NUMBERS)),
        st.one_of(*[st.sampled_from(SPEEDS)] * 4, st.sampled_from(ODD_NUMBERS)),
        st.none(),
        st.one_of(st.none(), st.sampled_from([0, 90, 359.5, *ODD_NUMBERS])),
    )
    return st.lists(row, max_size=8)


def neighbours() -> st.SearchStrategy[Neighbours]:
    """The vehicle is 7 in whatever type; some of its rows are another's, or nobody's, as are some of the others'."""
    return st.builds(
        Neighbours,
        st.sampled_from(LAYOUTS),
        rows(["bus1", "bus2", 8, "08", " 8", "08.0", "-8"], ODD_IDS),
        rows([7, "7"], OWN_ODD_IDS).filter(bool),
        st.tuples(*[st.integers(0, 9)] * 8),
        st.integers(1, 3),
    )


def heavy(layout: str = "jsonl", number: int = 20_000) -> Neighbours:
    """A vehicle of very many rows, each at a time of its own, among many others."""
    times = [
        f"{DAYS[0]}T{8 + i // 3600 % 3:02d}:{i // 60 % 60:02d}:{i % 60:02d}.{i // 10800}+05:30" for i in range(number)
    ]
    vehicle = [Report("7", time, 21.17 + 0.02 * (i % 3), 72.83, float(i % 70)) for i, time in enumerate(times)]
    others = [Report(f"bus{i}", TIMES[3 + i % 6], 21.17, 72.83, 60.0) for i in range(300)]
    return Neighbours(layout, others, vehicle, tuple(range(number)))
