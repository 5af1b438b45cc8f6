"""A day of the demo once more, as a pipeline of Beam's: the ledger compares its digests with those of the first run."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hatstream.api import Specification
from hatstream_lab.types import Report
from pipelines.account.location import AccountLocation
from pipelines.input_files import InputFiles
from pipelines.job import Outputs
from pipelines.ranges import range_of
from pipelines.runs import release as scheduled

RUNNER = "DirectRunner"


class Agreement(NamedTuple):
    """What a second run of a day agreed with. digests: of recorded sums, by the account's key. files: of rows."""

    runner: str
    digests: int
    files: int


def released_again(
    spec: Specification, sample: Path, place: AccountLocation, outputs: Outputs, again: Path, report: Report
) -> Agreement:
    """Releases the first released day again, by DirectRunner, into a folder of its own. sample: the file of that day.

    Raises RuntimeError where a digest or a byte differs from the first run's, beside what a release raises.
    """
    from pipelines.runs.beam.runners.in_process import InProcess

    stages = place.ledger.stages(spec.account.name, spec.spec_id)
    day = stages[0].unit.period
    digests = sum(entry.unit.period == day for entry in stages)
    when = range_of(spec.timetable, day, day)
    files, beside = InputFiles(str(sample)), replace(outputs, folder=again)
    engine = InProcess(RUNNER, ())
    done = scheduled.release(spec, when, files, beside, place, report, engine=engine)
    changed = done.outcome.opened().units_changed
    same = [path for path in done.files if path.read_bytes() == (outputs.folder / path.name).read_bytes()]
    if done.new or changed or len(same) != len(done.files):
        raise RuntimeError(
            f"{RUNNER} does not agree with the first run of {day}: {changed} of {digests} digests and "
            f"{len(done.files) - len(same)} of {len(done.files)} files differ"
        )
    return Agreement(RUNNER, digests, len(same))
