"""Outcome of a scheduled job, with its debits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from dpops.accountant import Accountant
from transforms import counters
from transforms.observe.parse import REASONS

ELSEWHERE = ("parse/outside-range", "parse/outside-service", "assign/outside-region")  # rows of other releases


class Spend(NamedTuple):
    """Vehicles' spending: maximum, median and 90th percentile."""

    most: Fraction
    median: Fraction
    p90: Fraction


@dataclass
class Outcome:
    """Outcome of a run, with debits by period.

    refused: rows by stage/reason. new: recorded units by period. left_out: undecodable files with the reason.
    is_unreadable: whether no other file exists.
    """

    rows: int = 0
    duplicates: int = 0
    capped: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    new: dict[str, int] = field(default_factory=dict)
    units_changed: int = 0
    units_lost_to_the_limit: int = 0
    periods_refused: list[str] = field(default_factory=list)
    periods_stopped: list[str] = field(default_factory=list)
    periods_empty: list[str] = field(default_factory=list)
    debits: dict[str, Accountant] = field(default_factory=dict)
    spent: dict[str, Spend] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    is_unreadable: bool = False

    @property
    def observations(self) -> int:
        """Number of accepted observations."""
        return self.rows - self.duplicates - sum(self.refused.values())

    @property
    def unusable(self) -> bool:
        """Whether no row is usable, though some lie in range or most are bad.

        Input that is empty, or of other days with a few bad rows, is not unusable: nothing happened on that day.
        """
        if self.rows > sum(self.refused.values()):
            return False
        elsewhere = sum(self.refused.get(reason, 0) for reason in ELSEWHERE)  # good rows of other days, hours or cells
        # A row has the first of REASONS that holds: those after "outside-service" are of rows with a time in range.
        after_time = REASONS[REASONS.index("outside-service") + 1 :]
        return any(self.refused.get(f"parse/{reason}") for reason in after_time) or self.rows > 2 * elsewhere


def count_in(outcome: Outcome, counts: Mapping[str, int]) -> None:
    """Adds a job's counters to its outcome. counts: by metric name, of `transforms.counters`."""
    outcome.rows += counts.get(counters.ROWS, 0)
    outcome.duplicates += counts.get(counters.DUPLICATES, 0)
    outcome.capped += counts.get(counters.CAPPED, 0)
    outcome.units_changed += counts.get(counters.UNITS_CHANGED, 0)
    outcome.units_lost_to_the_limit += counts.get(counters.UNITS_LOST, 0)
    stopped = [name for name, count in counts.items() if count and name.startswith(counters.STOPPED)]
    outcome.periods_stopped += [name.removeprefix(counters.STOPPED) for name in stopped]
    files = {name.removeprefix(counters.LEFT_OUT) for name in counts if name.startswith(counters.LEFT_OUT)}
    outcome.left_out = sorted({*outcome.left_out, *files})
    for prefix, numbers in ((counters.REFUSED, outcome.refused), (counters.NEW, outcome.new)):
        for name, number in counts.items():
            if name.startswith(prefix):
                key = name.removeprefix(prefix)
                numbers[key] = numbers.get(key, 0) + number


def hundredths(share: float) -> str:
    """Formats a part of 1 in hundredths, "under 1" if it rounds to 0."""
    return "under 1" if 0 < share < 0.005 else f"{100 * share:.0f}"
