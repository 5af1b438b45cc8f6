"""A total of 28 days: neighbours differ in all that one vehicle did on any 28 consecutive days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from dpops.claims import rho_within
from tests import levels_city
from tests.noninterference.claims import spent_by_levels
from tests.noninterference.roads import Job, reports
from tests.noninterference.world import Feed, Report, Town, World, compared
from transforms.recorded.units import Stored

LENGTH = 28
DAYS = tuple((date(2022, 1, 1) + timedelta(days=index)).isoformat() for index in range(LENGTH + 2))
DRIVEN = DAYS[1:-1]
TOTAL, DELTA = Fraction(10), Fraction(1, 10**6)
_LIMITS = """limits = [
  { days = 1, epsilon = 2.64, delta = 1e-6 },
  { days = 28, epsilon = 10, delta = 1e-6 },
]"""
SPEC = (
    levels_city.SPEC.replace("\nepsilon = 2.64", "\nepsilon = 10\ndelta = 1e-6\nspan_days = 28")
    .replace("limit = 2.64", _LIMITS)
    .replace("08:00-12:00", "08:00-10:00")
)


def vehicle() -> Feed:
    """Far from what is usual, so that its vectors are as long as they may be; of one day all but a row came late."""
    return [
        Report(
            "PLATE-X", f"{day}T08:{minute:02d}:59+05:30", 21.17 + 0.02 * (minute % 2), 72.83, 65.0,
            1e6 if day == DRIVEN[9] and minute else None,
        )
        for day in DRIVEN
        for minute in range(0, 60, 7)
    ]  # fmt: skip


def month(town: Town, feed: Feed) -> None:
    """A fortnight, a rerun of a week of it with late rows, the rest in two runs, then a day that is not left."""
    timely = [report for report in feed if report.received_s is None]
    for first, last, rows in ((0, 13, timely), (7, 13, feed), (14, 20, feed), (14, 29, feed)):
        Job(days=(DAYS[first], DAYS[last]), more=("--json",))(town, rows)
    (town.folder / "spec.toml").write_text(SPEC.replace("upper_kmh = 65", "upper_kmh = 60"))
    Job(days=(DAYS[20], DAYS[20]))(town, feed)


@dataclass(frozen=True)
class Month:
    """As a case. What the vehicle spent over the days is compared with the total of the span too."""

    def differences(self) -> list[str]:
        others = [report for day in DAYS for report in reports(3, day=day, hours=(8,))]
        extra = vehicle()
        world = World(SPEC, [*others[:9], *extra, *others[9:]], others)
        differences, one, other = compared(world, month)
        spent = spent_of(one, other)
        assert spent > 0 or differences, "the vehicle is not felt at all"
        return [*differences, *([f"{float(spent):.4f} of the span's rho"] if spent > 1 else [])]


def spent_of(one: Sequence[Stored], other: Sequence[Stored]) -> Fraction:
    """What part of the span's rho the vehicle spent over all its days."""
    return spent_by_levels(one, other) / rho_within(TOTAL, DELTA)
