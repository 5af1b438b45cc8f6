"""Worlds and the roads on which each is run: every case takes seconds at most."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import hatstream
from tests import city, levels_city
from tests.city import DAYS
from tests.noninterference import feeds, roads
from tests.noninterference.histories import HISTORIES, LiveThenEnd
from tests.noninterference.roads import FUSION_SPEC, ByKey, Job, cluster, everything, portal, reports, site
from tests.noninterference.streams import Stream, UnboundedByKey, UnboundedLibrary
from tests.noninterference.world import Feed, History, Report, World, differences

SECRET, OPEN = levels_city.SPEC, city.SPEC
DELTA = SECRET.replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }").replace(
    'per = "period"', 'per = "period"\ndelta = 1e-6'
)
GDP = DELTA.replace('adjacency = "add-remove"', 'adjacency = "add-remove"\naccounting = "gdp"')
PRODUCTS = "".join(f'[[output]]\nproduct = "{name}"\n' for name in ("days", "parent-hour", "city-hour")) + (
    '[[output]]\nproduct = "cell-part"\nparts = ["08:00-10:00"]\n'
)
OF_PLACES = "".join(f'[[output]]\nproduct = "place-{name}"\n' for name in ("standing", "day", "slot")) + (
    '[[output]]\nproduct = "place-part"\nparts = ["08:00-10:00"]\n'
)
NO_VALUE = "no_value = [-1, 255]\n"
BY_FILE = OPEN.replace('vehicle = "bus"', 'vehicle = "{file}"')
PLACES = DELTA.replace("epsilon = 2.64,", "epsilon = 5.28,") + "[places]\nresolution = 9\n"
WAYS = PLACES.replace("resolution = 9", 'file = "streets.geojson"')
STREETS = WAYS.replace('speed = "v"', 'heading = "h", speed = "v"')
TURNING = WAYS.replace('speed = "v" }\n', 'speed = "v" }\nderived_heading = { max_gap_s = 1800, min_m = 15 }\n')
CLASSES = (
    DELTA.replace("epsilon = 2.64,", "epsilon = 5.28,").replace(
        "[input]", '[[statistic]]\nname = "distribution"\nmechanism = "levels"\n[input]'
    )
    + '[[output]]\nproduct = "days"\n'
)
REPORTED = DELTA.replace("vehicles = 50", "vehicles = 50\nprofile = { hats = 4, reports = 10 }")
KEYED = feeds.by_key(GDP, "lat", "delay").replace('lat = "lat", lon = "lon", speed = "v"', 'delay = "v"')
OTHERS = reports(60)
DERIVED = SECRET.replace(', speed = "v"', "") + "derived_speed = { max_gap_s = 1800, max_kmh = 100 }\n"
DISTRIBUTION = OPEN.replace('name = "mean"', 'name = "distribution"').replace('"array-average"', '"array-tree"')
SUPPRESSED = OPEN.replace('per = "hat"', 'per = "period"\nscope = "period"\ncomposition = "clip-user"')


def bus(rows: int = 41, *, speed: object = 65.0, name: object = "PLATE-X", day: str = DAYS[0]) -> Feed:
    """A vehicle-day: twenty rows an hour from 08:00 on; faster than all others, and from 10:00 on alone."""
    return [
        Report(name, f"{day}T{8 + i // 20:02d}:{3 * (i % 20):02d}:59+05:30", 21.17 + 0.02 * (i % 2), 72.83, speed)
        for i in range(rows)
    ]


STRANGE = [
    *bus(3),
    Report("PLATE-X", "no time", 21.17, 72.83, 5.0),
    Report("PLATE-X", f"{DAYS[0]}T08:59:00+05:30", 91.0, 72.83, 5.0),
    Report("PLATE-X", f"{DAYS[0]}T08:58:00+05:30", 10.0, 10.0, 5.0),
    Report(2.5, f"{DAYS[0]}T08:57:00+05:30", 21.17, 72.83, 5.0),
    Report(float("nan"), f"{DAYS[0]}T08:56:00+05:30", 21.17, 72.83, float("nan")),
    Report("", f"{DAYS[0]}T08:56:00+05:30", 21.17, 72.83, 10**400),
]
"""A vehicle whose rows are refused for many reasons; some of them are no vehicle's."""


LATE = {"value": "v", "bounds": (-5, 40), "unit": "min"}
LOST = [*bus()[1:], *(report._replace(lat=10.0) for report in bus(2))]
"""A vehicle-day of which two rows name no public key."""


@dataclass(frozen=True)
class Case:
    """One world on one road."""

    world: World
    history: History

    def differences(self) -> list[str]:
        return differences(self.world, self.history)


def with_and_without(spec: str, extra: Feed, history: History, others: Feed = OTHERS) -> Case:
    """Under secret counts: a vehicle-day is there or is not, first of all rows or in between."""
    feed = [*extra[:1], *others[:9], *extra[1:], *others[9:]]
    return Case(World(spec, feed, others), history)


def headed(feed: Feed, *headings: object) -> Feed:
    """The rows with these headings, one after another."""
    return [report._replace(heading=headings[index % len(headings)]) for index, report in enumerate(feed)]


def at_other_speeds(spec: str, history: History, others: Feed = OTHERS) -> Case:
    """Under public counts: one vehicle's speeds are others; of its rows all but one have a time and place twice."""
    again = [*bus(20), bus(21)[-1]]
    slow, fast = [
        [*bus(20), *(report._replace(speed=speed) for report in again), *others] for speed in (0.0, 10.0**300)
    ]
    slow[:20] = bus(20, speed=3.0)
    return Case(World(spec, slow, fast), history)


def local_reports() -> Case:
    slow, fast = ([*bus(speed=speed), *reports(9)] for speed in (3.0, 10.0**300))
    return Case(World(FUSION_SPEC, slow, fast), roads.perturbed_and_fused)


CASES: Mapping[str, Callable[[], Case]] = {
    "all-that-is-made-of-a-release": lambda: with_and_without(SECRET, bus(), everything),
    "all-that-is-made-of-a-release-public-counts": lambda: at_other_speeds(OPEN, everything),
    "release": lambda: with_and_without(SECRET, bus(), Job(formats=("csv", "parquet"), more=("--columns", "counts"))),
    "release-public-counts": lambda: at_other_speeds(OPEN, Job(formats=("csv", "parquet"))),
    "strange-rows": lambda: with_and_without(SECRET, STRANGE, Job()),
    "only-refused-rows": lambda: Case(World(SECRET, STRANGE[3:6], []), Job()),
    "one-vehicle-alone": lambda: Case(World(SECRET, bus(), []), Job()),
    "with-delta": lambda: with_and_without(DELTA, bus(), Job()),
    "gdp": lambda: with_and_without(GDP + PRODUCTS, bus(), Job()),
    "a-file-a-vehicle-public-counts": lambda: at_other_speeds(BY_FILE, roads.a_file_a_vehicle),
    "brief-days-weigh-less": lambda: with_and_without(REPORTED, bus(), Job()),
    "places": lambda: of_two_days(PLACES, Job(days=(DAYS[0], DAYS[1])), bus(9, day=DAYS[1])),
    "places-told-and-learned": lambda: with_and_without(PLACES + OF_PLACES, bus(), everything),
    "places-by-heading": lambda: with_and_without(
        STREETS, headed(bus(), 185, 359.6, "west"), Job(), headed(reports(60), 5, None, 0, "", 999, -1, "5", None)
    ),
    "classes": lambda: of_two_days(CLASSES, Job(days=(DAYS[0], DAYS[1])), bus(9, day=DAYS[1])),
    "a-file-a-row": lambda: with_and_without(SECRET, bus(3), Job(files=9)),
    "derived-headings": lambda: with_and_without(TURNING, bus(), Job(), reports(60, per_hour=3)),
    "derived-speeds": lambda: with_and_without(DERIVED, bus(), Job(), reports(60, per_hour=3)),
    "levels-public-counts": lambda: at_other_speeds(SECRET.replace('"add-remove"', '"counts-public"'), Job()),
    "unknown-speeds": lambda: with_and_without(SECRET + NO_VALUE, [*bus(9), *bus(30, speed=-1.0)], Job()),
    "unknown-speeds-public-counts": lambda: at_other_speeds(OPEN + NO_VALUE, Job()),
    "suppression": lambda: at_other_speeds(SUPPRESSED, Job()),
    "distribution": lambda: at_other_speeds(DISTRIBUTION, Job()),
    "baseline": lambda: at_other_speeds(OPEN.replace('"array-average"', '"baseline"'), Job()),
    "levy": lambda: at_other_speeds(OPEN.replace('"array-average"', '"levy"'), Job()),
    "published": lambda: with_and_without(SECRET, bus(), portal),
    "published-public-counts": lambda: at_other_speeds(OPEN, portal),
    "followed": lambda: with_and_without(SECRET, bus(), site),
    "followed-public-counts": lambda: at_other_speeds(OPEN, site),
    "perturbed-and-fused": lambda: local_reports(),
    "fused-beside-a-stranger": lambda: with_and_without(FUSION_SPEC, bus(1), roads.fused_beside_a_stranger, reports(9)),
    "keys": lambda: with_and_without(KEYED, LOST, Job(), [report for report in OTHERS if report.lat < 21.18]),
    "means-by-key": lambda: with_and_without(KEYED, LOST, ByKey(hatstream.MeanPerKey, {**LATE, "fleet": 50})),
    "counts-by-key": lambda: with_and_without(KEYED, LOST, ByKey(hatstream.CountPerKey, {"bound": 5})),
    "users-by-key": lambda: with_and_without(KEYED, LOST, ByKey(hatstream.CountPerKey, {"of": "users", "bound": 1})),
    "means-by-key-public-counts": lambda: at_other_speeds(OPEN, ByKey(hatstream.MeanPerKey, LATE)),
    "variances-by-key": lambda: at_other_speeds(OPEN, ByKey(hatstream.VariancePerKey, LATE)),
    "quantiles-by-key": lambda: at_other_speeds(OPEN, ByKey(hatstream.QuantilesPerKey, LATE)),
    "cluster": lambda: with_and_without(SECRET, bus(), cluster),
    "library": lambda: with_and_without(SECRET, STRANGE, roads.bounded_library),
    "library-public-counts": lambda: at_other_speeds(OPEN, roads.bounded_library),
    "parts": lambda: at_other_speeds(OPEN, roads.parts),
    **{
        f"file-of-{name}": (lambda name=name: with_and_without(feeds.with_input(SECRET, name), bus(9), Job(name, 2)))
        for name in feeds.WRITERS
    },
}  # fmt: skip
_OF_AN_HOUR = (("minutes = 60", "minutes = 15\nallowed_lateness_s = 120"), ("08:00-12:00", "08:00-09:00"))
LIVE, STREAM = (city.changed(feeds.with_input(spec, "jsonl"), *_OF_AN_HOUR) for spec in (SECRET, OPEN))
LIVE += "[live]\nshare = 0.4\nday_lateness_s = 900\n"
SPAN = "\nepsilon = 10\ndelta = 1e-6\nspan_days = 28"
LIMITS = "limits = [{ days = 1, epsilon = 2.64, delta = 1e-6 }, { days = 28, epsilon = 10, delta = 1e-6 }]"
LIVE_UNDER_A_SPAN = LIVE.replace("\nepsilon = 2.64", SPAN).replace("limit = 2.64", LIMITS)


def received(buses: int = 12, held_s: int = 200, kept_minute: int = 2) -> Feed:
    """A day's reports; some, from elsewhere, are received so late that a watermark could decide about them."""
    feed = []
    for minute in range(1, 58, 2):
        for bus in range(buses):
            kept = minute % 5 == kept_minute
            time, cell = f"{DAYS[1]}T08:{minute:02d}:{bus:02d}+05:30", (bus + kept) % 3
            speed, at_s = 60.0 if kept else 18.0, 60 * minute + bus + (held_s if kept else 2)
            feed.append(Report(f"PLATE{bus}", time, 21.17 + 0.02 * cell, 72.83, speed, at_s))
    return feed


def alone_in_polls() -> Feed:
    """A bus whose reports are the newest of each poll, to the second."""
    return [
        Report("PLATE-X", f"{DAYS[1]}T08:{minute:02d}:30+05:30", 21.17, 72.83, 65.0, 60 * minute + 60)
        for minute in range(4, 58, 5)
    ]


def live(source: str, spec: str = LIVE) -> Case:
    others = received() if source == "kafka" else received(held_s=260, kept_minute=1)
    return with_and_without(spec, alone_in_polls(), Stream(source, before=OTHERS), others)


def live_on_a_long_day() -> Case:
    """Live slots of a day of 25 hours, each of an hour."""
    day = "2022-11-06"
    spec = city.changed(
        LIVE, ("Asia/Kolkata", "America/Chicago"), ("minutes = 15", "minutes = 60"), ("08:00-09:00", "00:00-24:00")
    )
    stream = Stream("kafka", day=day, before=OTHERS, hours=26, poll_s=3_600)
    return with_and_without(spec, from_midnight(day, 12), stream, reports(6, day=day, hours=(14, 15, 20)))


def from_midnight(day: str, hours: int) -> Feed:
    """Reports in the first hours of a day of Chicago."""
    return [
        report._replace(time=f"{day}T{6 + index % hours:02d}:{index:02d}:30+00:00")
        for index, report in enumerate(bus(30))
    ]


def live_library() -> Case:
    """Of the vehicle's reports one was received when it was made, and one an hour late."""
    extra = alone_in_polls()
    made_s = (
        datetime.fromisoformat(extra[2].time).timestamp() - datetime.fromisoformat(f"{DAYS[1]}T08:00+05:30").timestamp()
    )
    extra[2:4] = [extra[2]._replace(received_s=made_s), extra[3]._replace(received_s=3_700.0)]
    return with_and_without(_in_time(LIVE), extra, UnboundedLibrary(before=OTHERS), received())


def _in_time(spec: str) -> str:
    """How long a slot waits is decided by the watermark of the library's user."""
    return spec.replace("allowed_lateness_s = 120\n", "")


def streamed(history: History, spec: str = STREAM) -> Case:
    slow, fast = (
        [*received(), *(report._replace(speed=speed) for report in alone_in_polls())] for speed in (0.0, 1e300)
    )
    return Case(World(spec, slow, fast), history)


TWO_LIMITS = SECRET.replace("limit = 2.64", "limit = 5.28")


def of_two_days(spec: str, history: History, late: Feed) -> Case:
    """A vehicle of both days, of which a part is late; nobody else's rows are."""
    extra = [*bus(9), *bus(9, day=DAYS[1]), *late]
    return with_and_without(spec, extra, history, [*reports(20), *reports(20, day=DAYS[1])])


def late_rows() -> Feed:
    return [report._replace(speed=1.0, received_s=1e6) for report in bus(16)[9:]]


def clock_changes(day: str) -> Case:
    """A day of 23 or 25 hours, each of which is a slot."""
    spec = SECRET.replace("Asia/Kolkata", "America/Chicago").replace("08:00-12:00", "00:00-24:00")
    return with_and_without(spec, from_midnight(day, 3), Job(days=(day, day)), reports(20, day=day, hours=(14, 15)))


DECLARED = TWO_LIMITS.replace("vehicles = 50", "vehicles = 120")
"""So many that the first run of each day stops: far fewer drive."""

PAST: Mapping[str, Callable[[], Case]] = {
    **{
        name: (lambda history=history: of_two_days(TWO_LIMITS, history, late_rows()))
        for name, history in HISTORIES.items()
    },
    **{f"{name}-public-counts": (lambda history=history: public_past(history)) for name, history in HISTORIES.items()},
    "stopped": lambda: of_two_days(DECLARED, HISTORIES["the-same-again"], late_rows()),
    "23-hours": lambda: clock_changes("2022-03-13"),
    "25-hours": lambda: clock_changes("2022-11-06"),
}
"""Histories of days that are over."""


def public_past(history: History) -> Case:
    """A vehicle at other speeds, of late rows too: a rerun meets another input in one of the worlds alone."""
    others = [*reports(8), *reports(8, day=DAYS[1])]
    slow, fast = ([*bus(9, speed=speed), *bus(9, speed=speed, day=DAYS[1]), *others] for speed in (3.0, 64.0))
    again = [report._replace(received_s=1e6) for report in bus(9, speed=3.0)]
    return Case(World(OPEN, [*slow, *again], [*fast, *again]), history)


SLOW: Mapping[str, Callable[[], Case]] = {
    "live-then-end": lambda: with_and_without(LIVE, alone_in_polls(), LiveThenEnd(OTHERS), received()),
    "live-after-the-end": lambda: with_and_without(LIVE, alone_in_polls(), LiveThenEnd(OTHERS, True), received()),
    **{
        f"alone-in-a-file-of-{name}": (
            lambda name=name: Case(World(feeds.with_input(SECRET, name), bus(9), []), Job(name))
        )
        for name in feeds.WRITERS
    },
    "live-25-hours": lambda: live_on_a_long_day(),
    "cluster-public-counts": lambda: at_other_speeds(OPEN, cluster),
    "library-unbounded": lambda: live_library(),
    "library-unbounded-public-counts": lambda: streamed(UnboundedLibrary(), _in_time(STREAM)),
    "means-by-key-unbounded": lambda: streamed(UnboundedByKey(hatstream.MeanPerKey, LATE), _in_time(STREAM)),
    "quantiles-by-key-unbounded": lambda: streamed(UnboundedByKey(hatstream.QuantilesPerKey, LATE), _in_time(STREAM)),
    "live-kafka": lambda: live("kafka"),
    "live-under-a-span": lambda: live("kafka", LIVE_UNDER_A_SPAN),
    "live-folder": lambda: live("folder"),
    "stream-kafka": lambda: streamed(Stream("kafka")),
    "stream-folder": lambda: streamed(Stream("folder")),
}
"""Those that start processes, or take longer."""
