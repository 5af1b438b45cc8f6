"""What `hatstream evaluate` may be asked for: telemetry, made-up sets, and what is compared on them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatstream.api import UsageError, packed

if TYPE_CHECKING:
    from hatstream_lab.evaluation.telemetry import Telemetry


@dataclass(frozen=True)
class AskedTelemetry:
    """Telemetry to compare mechanisms on, by its specification. not_private: its true values may be shown."""

    pattern: str | None
    spec_path: Path | None
    start: str | None
    end: str | None
    not_private: bool

    @property
    def data(self) -> tuple[str, Path] | None:
        return None if self.pattern is None or self.spec_path is None else (self.pattern, self.spec_path)

    def feed(self) -> Telemetry | None:
        """Raises as `Telemetry.of`, and UsageError."""
        from hatstream_lab.evaluation.telemetry import Telemetry

        dates = self.dates
        return None if self.data is None else Telemetry.of(*self.data, dates)

    @property
    def dates(self) -> tuple[str, str] | None:
        """Raises UsageError for a range without telemetry, or with one end."""
        dates = None if self.start is None or self.end is None else (self.start, self.end)
        if (self.start or self.end) and (dates is None or self.pattern is None):
            raise UsageError("--from and --to go together, and with --data")
        return dates


@dataclass(frozen=True)
class AskedSets:
    """What is simulated where there is no telemetry. seed: of made-up data and of simulated noise."""

    seed: int
    counts: Path | None
    folder: Path | None


@dataclass(frozen=True)
class AskedComparison:
    """What is compared: mechanisms at epsilons of a HAT, or what one of the other options names."""

    epsilons: str
    totals: str | None
    span_days: int
    learned: bool
    live: bool
    places: str | None
    days: int | None
    distributions: bool
    bins: int
    is_local: bool
    cities: str | None
    noise: str
    slower_from: int | None

    @property
    def is_of_days(self) -> bool:
        """Whether days are released by levels."""
        return self.learned or self.live or self.places is not None

    def check(self, telemetry: AskedTelemetry, sets: AskedSets) -> None:
        """Raises UsageError for numbers that are none, and options that do not go together."""
        for numbers, option in ((self.epsilons, "--epsilons"), (self.totals, "--totals")):
            if numbers is not None:
                epsilons_of(numbers, option)
        if self.span_days != 1 and not self.learned:
            raise UsageError("--span-days goes with --learned")
        if self.days is not None and not (self.places is not None or self.learned):
            raise UsageError("--days goes with --places and --learned")
        if set(self.noise.split(",")) - {"pure", "delta"}:
            raise UsageError("--noise is pure, delta or pure,delta")
        if self.cities is not None and not (self.learned and telemetry.pattern is None and not self.distributions):
            raise UsageError("--cities goes with --learned, in the place of --data")
        if self.slower_from is not None and not (self.learned and self.days and 0 < self.slower_from <= self.days):
            raise UsageError("--slower-from goes with --learned, and is one of --days")
        pattern, spec_path = telemetry.pattern, telemetry.spec_path
        if self.is_local:
            others = any((sets.counts, sets.folder, self.totals, self.distributions))
            if others or len({pattern is not None, spec_path is not None, telemetry.not_private}) > 1:
                raise UsageError("--local goes alone, or with --data, --spec (of a fusion) and --not-private")
        elif self.distributions and not self.learned:
            is_whole = (pattern is not None) == (spec_path is not None) == telemetry.not_private
            if not is_whole or self.totals or sets.folder:
                raise UsageError(
                    "--distributions stands alone, or with --data, --spec and --not-private, because the output then "
                    "shows functions of true values"
                )
        elif pattern is not None:
            if spec_path is None or not telemetry.not_private:
                raise UsageError("--data needs --spec and --not-private: the output shows functions of true values")
        elif self.cities is not None:
            if spec_path is not None or telemetry.not_private:
                raise UsageError("--spec and --not-private go with --data, not with --cities")
        elif self.totals is not None or self.is_of_days:
            raise UsageError("--totals, --learned, --live and --places go with --data")
        elif spec_path is not None or telemetry.not_private != (sets.folder is not None):
            raise UsageError("--spec goes with --data; --not-private with --data and --sets, which need it")


telemetry_options = packed(
    "telemetry",
    AskedTelemetry,
    click.option("--data", "pattern", metavar="GLOB", help="Telemetry to compare the mechanisms on; needs --spec."),
    click.option("--spec", "spec_path", type=click.Path(path_type=Path, dir_okay=False), help="With --data."),
    click.option("--from", "start", metavar="DATE", help="With --data: first local date, or an ISO time."),
    click.option("--to", "end", metavar="DATE", help="With --data: last local date (included), or an ISO time."),
    click.option(
        "--not-private",
        is_flag=True,
        help="With --data and --sets: I know that the output shows functions of true values.",
    ),
)
sets_options = packed(
    "sets",
    AskedSets,
    click.option("--seed", type=int, default=1, show_default=True, help="Of the generated data and simulated noise."),
    click.option(
        "--counts", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="JSON with samples per bus."
    ),
    click.option(
        "--sets",
        "folder",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder of .npz data sets (counts, values in km/h) instead of the generated ITMS-like ones.",
    ),
)
comparison_options = packed(
    "comparison",
    AskedComparison,
    click.option("--epsilons", default="0.5,1,2", show_default=True, help="With --data: epsilons of a HAT."),
    click.option(
        "--totals",
        metavar="NUMBERS",
        help="With --data: compare compositions instead, at these epsilons per vehicle and period.",
    ),
    click.option(
        "--span-days",
        type=click.IntRange(1, 3_653),
        default=1,
        show_default=True,
        help="With --learned: the totals are of so many days, which share them alike.",
    ),
    click.option("--learned", is_flag=True, help="With --data and --totals: what `levels` and a past would be worth."),
    click.option("--live", is_flag=True, help="With --data and --totals: what live slots would be worth, and a storm."),
    click.option(
        "--places",
        is_flag=False,
        flag_value="own",
        metavar="[RESOLUTION|FILE]",
        help="With --data: what a map of places would be worth, day by day; of those of [places], or of these.",
    ),
    click.option(
        "--days",
        type=click.IntRange(1, 3_653),
        help="With --places or --learned: so many, the first ones again at last; of a made-up city new ones.",
    ),
    click.option("--noise", default="pure,delta", show_default=True, help="With --learned, --live and --places."),
    click.option("--cities", metavar="NAMES", help="With --learned: made-up cities, such as '500 taxis,drawn 1'."),
    click.option("--slower-from", type=int, help="With --days: from this one on speeds are a fifth lower."),
    click.option(
        "--distributions",
        is_flag=True,
        help="Released distributions instead: a made-up city, and with --data errors on telemetry.",
    ),
    click.option("--bins", type=click.IntRange(1, 1_000), default=65, show_default=True, help="With --distributions."),
    click.option(
        "--local", "is_local", is_flag=True, help="Of local reports and their fusion; --runs trials. [default: 50]"
    ),
)


def epsilons_of(text: str, option: str = "--epsilons") -> list[str]:
    """Reads rational numbers from 1e-6 to 1e6, as written."""
    epsilons = [part.strip() for part in text.split(",")]
    for part in epsilons:
        try:
            epsilon = Fraction(part)
        except (ValueError, ZeroDivisionError):
            epsilon = Fraction(0)
        if not Fraction(1, 10**6) <= epsilon <= 10**6:
            raise UsageError(f"{option} needs numbers from 1e-6 to 1e6; {part!r} is not one")
    return epsilons
