"""Histories: what happens on an account over days, of which a vehicle-day is a part. Late rows have a `received_s`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.city import DAYS
from tests.noninterference import feeds
from tests.noninterference.roads import TEXTS, Job
from tests.noninterference.streams import Stream
from tests.noninterference.world import Feed, Town
from transforms.failpoints import FailpointError, acting

BOTH = Job(days=DAYS, more=("--json",))
FIRST = replace(BOTH, days=(DAYS[0], DAYS[0]))
SECOND = replace(BOTH, days=(DAYS[1], DAYS[1]))

SECOND_SPEC = "second.toml"


def timely(feed: Feed) -> Feed:
    return [report for report in feed if report.received_s is None]


def estimated(town: Town) -> None:
    """What the ledger gives again, with the sums themselves."""
    days = ("--from", DAYS[0], "--to", DAYS[1], "--json", "--formats", "csv")
    town.run("estimate", *town.ledger(), *days, "--released", "--output", town.folder / "public" / "again")


def published_after_reruns(town: Town, feed: Feed) -> None:
    """A day, a rerun of it with late rows, the next day: then the report and a portal of both."""
    FIRST(town, timely(feed))
    FIRST(town, feed)
    replace(SECOND, formats=("csv", "parquet"))(town, feed)
    folder, days = town.folder / "public", ("--from", DAYS[0], "--to", DAYS[1])
    results = f"{town.out}/[hd]a[ty]s-*.csv"
    town.run("report", *town.ledger(), *days, "--input", results, "--output", folder / "report.html")
    town.run("publish", *town.ledger(), "--input", results, *TEXTS, "--output", folder / "portal")


def the_same_again(town: Town, feed: Feed) -> None:
    BOTH(town, feed)
    BOTH(town, feed)


def another_input(town: Town, feed: Feed) -> None:
    """A rerun when late rows have come: they are lost, and shown to nobody."""
    FIRST(town, timely(feed))
    FIRST(town, feed)
    FIRST(town, feed)
    estimated(town)


def another_input_told_to_people(town: Town, feed: Feed) -> None:
    """Found by the machine: that the input differs is the operator's, as a sentence too."""
    job = Job(days=FIRST.days)
    job(town, timely(feed))
    job(town, feed)


def a_late_file(town: Town, feed: Feed) -> None:
    """The second day's run finds a file more, with rows of the first day."""
    feeds.write(timely(feed), town.folder / "in", "csv")
    late = [report for report in feed if report.received_s is not None]
    pattern = str(town.folder / "in" / "*.csv")
    town.run(*FIRST.command(town, pattern))
    (town.folder / "in" / "late.csv").write_text(feeds.in_csv(late))
    town.run(*BOTH.command(town, pattern))
    estimated(town)


def the_next_day_after_a_rerun(town: Town, feed: Feed) -> None:
    """Audit entries of the rerun stand between the days' releases."""
    FIRST(town, timely(feed))
    FIRST(town, feed)
    SECOND(town, feed)
    estimated(town)


def days_out_of_order(town: Town, feed: Feed) -> None:
    SECOND(town, feed)
    FIRST(town, feed)


def second_specification(town: Town) -> None:
    """Beside the first one, on its account."""
    other = (town.folder / "spec.toml").read_text().replace('"small-city"', '"second"')
    (town.folder / SECOND_SPEC).write_text(other.replace("upper_kmh = 65", "upper_kmh = 60"))


def two_specifications(town: Town, feed: Feed) -> None:
    """Of one account, in turn; the limit refuses the second one's second day, whatever the feed holds."""
    second_specification(town)
    FIRST(town, timely(feed))
    pattern = feeds.write(feed, town.folder / "in", "csv")
    for day in (FIRST, BOTH):
        command = day.command(town, pattern)
        command[1:5] = town.ledger(spec=SECOND_SPEC)
        town.run(*command)
    FIRST(town, feed)


@dataclass(frozen=True)
class Killed:
    """A run that ends at a place of the road, and the next one, which goes on from what was recorded."""

    place: str
    passage: int = 1

    def __call__(self, town: Town, feed: Feed) -> None:
        def stop(name: str, number: int) -> None:
            if (name, number) == (self.place, self.passage):
                raise FailpointError(name)

        with acting(stop):
            FIRST(town, timely(feed))
        FIRST(town, feed)


@dataclass(frozen=True)
class LiveThenEnd:
    """A stream of the second day, and the scheduled job of the same days on the same ledger."""

    before: Feed
    job_first: bool = False

    def __call__(self, town: Town, feed: Feed) -> None:
        live = Stream("kafka", before=self.before)
        job = replace(SECOND, layout="jsonl")
        if self.job_first:
            job(town, timely(feed))
            replace(live, before=None)(town, feed)
        else:
            live(town, feed)
            job(town, feed)


HISTORIES: Mapping[str, Callable[[Town, Feed], None]] = {
    "the-same-again": the_same_again,
    "published-after-reruns": published_after_reruns,
    "another-input": another_input,
    "another-input-told-to-people": another_input_told_to_people,
    "a-late-file": a_late_file,
    "the-next-day-after-a-rerun": the_next_day_after_a_rerun,
    "days-out-of-order": days_out_of_order,
    "two-specifications": two_specifications,
    "killed-between-stages": Killed("after-commit"),
    "killed-before-it-is-recorded": Killed("before-commit"),
    "killed-while-publishing": Killed("mid-file"),
}
