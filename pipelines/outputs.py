"""Output destinations, and optional columns of rows."""

import os
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pipelines.account.location import AccountLocation
from pipelines.errors import UsageError
from pipelines.job import Outputs
from pipelines.option_types import FURTHER
from pipelines.specification import Specification
from transforms.atomic_files import locked
from transforms.errors import reason_of
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.published import DATES, HATS, LIVE, published_slots
from transforms.sinks.rows import Shape
from transforms.value import SPEED

PROBE = ".hatstream-probe"
OLD_S = 86_400  # age from which a leftover belongs to no run that still works


class OutputError(Exception):
    """The output folder cannot be used."""


def prepare(outputs: Outputs, spec: Specification, location: AccountLocation) -> None:
    """Checks folder and topic before a release. Raises OutputError or StepError.

    A published slot missing from the ledger implies another or a restored ledger: fresh noise would be a second look at
    the same data.
    """
    make_writable(outputs.folder)
    for is_live in (False, True):
        published = published_slots(outputs.folder, spec.spec_id, is_live=is_live)
        if not published:
            continue
        in_periods = spec.is_learned and not is_live  # then the ledger's entry is of a period's first slot
        entry_of = {slot_s: spec.slots_of_period(slot_s)[0] if in_periods else slot_s for slot_s in published}
        first_s, end_s = min(entry_of.values()), max(entry_of.values()) + 1
        shards = location.ledger.recorded_slots(spec.account.name, spec.spec_id, first_s, end_s, is_live=is_live)
        recorded = {slot_s for slot_s, _ in shards}
        unknown = sorted(slot_s for slot_s in published if entry_of[slot_s] not in recorded)
        if unknown:
            raise OutputError(
                f"{published[unknown[0]]} was published, but the ledger {location.shown} has no record of its slot "
                f"({len(unknown)} such slots): it was released with another ledger, or with this one before an older "
                "copy was restored. New noise for one slot would reveal more, so nothing was recorded. Name the ledger "
                "and key that it was released with (--ledger, --key); if they are lost, the account has ended: open "
                "another one, by another name and with another key"
            )
    if outputs.topic is not None:
        from transforms.sinks import kafka  # its client is imported where there is a topic

        kafka.check(outputs.topic)


def make_writable(folder: Path) -> None:
    """Creates the folder, removes leftovers of killed runs, and tests writing. Raises OutputError."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:  # which may be many
        for entry in entries:  # Beam's, of runs that were killed: empty, our own, and old
            if entry.name.startswith("beam-pipeline-temp"):
                with suppress(OSError):  # it is not empty, or gone
                    status = entry.stat()
                    if status.st_uid == os.getuid() and time.time() - status.st_mtime > OLD_S:
                        os.rmdir(entry)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for directory in (*filter(Path.is_dir, folder.glob(DATES)), folder):
            with locked(directory):  # no other process writes in it now, so that all partial files are leftovers
                for pattern in (*(f".{product}-*.part" for product in (HATS, LIVE, *PRODUCTS)), ".hatstream-*"):
                    for partial_file in directory.glob(pattern):
                        partial_file.unlink()
                if directory == folder:
                    probe = folder / PROBE
                    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
                    probe.unlink()
    except OSError as error:
        raise OutputError(f"the output folder {folder} cannot be written: {reason_of(error)}") from None


def shape_with(columns: Collection[str], spec: Specification, *, by_date: bool = False) -> Shape:
    """Returns the rows' optional columns and layout. Raises UsageError for impossible columns."""
    if unknown := sorted(set(columns) - set(FURTHER)):
        raise UsageError(f"--columns: {unknown[0][:40]!r} is not one of {', '.join(FURTHER)}")
    if "counts" in columns and not (spec.counts_are_public or spec.is_learned):
        raise UsageError("--columns counts goes with adjacency 'counts-public', or with 'levels', which estimates them")
    if "traffic" in columns and not spec.is_learned:
        raise UsageError("--columns traffic goes with 'levels', which alone estimates how vehicles differ")
    return Shape(
        zone=spec.timetable.zone if "times" in columns else None,
        counts="counts" in columns and not spec.is_learned,
        by_date=by_date,
        traffic="traffic" in columns,
        about="counts" in columns and spec.is_learned,  # estimated vehicles and reports,
        unknown="counts" in columns and spec.is_learned,  # which are shown even where the value is not
        value_means=value_meaning(spec),
        trips=spec.trips,
    )


def value_meaning(spec: Specification) -> str:
    """Describes the mean in the column `value`, with its weighting of vehicles."""
    if spec.is_learned:
        return _meaning_of_levels(spec)
    names, value = {stat.name for stat in spec.statistics}, spec.value.name
    if names == {"mean-of-vehicles"}:
        return f"Mean over vehicles of each vehicle's own mean {value}: every vehicle counts once"
    if names & {"mean", "mean-of-vehicles"}:
        slow = ", slow vehicles more often" if value == SPEED else ""
        return f"Of the statistic mean: the mean {value} of all reports, each counting once{slow}"
    return "Value of the statistic"


def _meaning_of_levels(spec: Specification) -> str:
    """Describes the mean or number that `levels` estimates, with its weighting of vehicles."""
    levels, value = spec.by_levels, spec.value.name
    if levels.counted is not None:
        return f"Number of {levels.counted.of}, with the noise of the whole period's total"
    if levels.target == "reports":
        slow = ", slow vehicles more often (the space-mean speed, that running times need)" if value == SPEED else ""
        return f"Mean {value} of all reports, each counting once{slow}, estimated from noisy sums of the whole area"
    if levels.target == "vehicles":
        return (
            f"Mean over vehicles of each vehicle's own mean {value} in the place and slot: every vehicle counts once; "
            "estimated from noisy sums of the whole area"
        )
    higher = "where that differs from the mean of all reports (slow vehicles report more often), it is usually higher"
    return (
        f"Mean {value}, estimated from noisy sums of the whole area. It is near the mean in which a vehicle with n "
        f"reports in the place and slot counts n^{float(levels.exponent):g}"
        + (f"; {higher}, by up to 2 km/h" if value == SPEED else "")
    )
