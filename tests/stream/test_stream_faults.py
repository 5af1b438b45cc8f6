"""Whatever fails, a stream releases every slot once and whole. The same faults on a ledger in which the first writer
does not win show two values of a slot: so each of these tests would notice.
"""

import pytest

from pipelines.engines.pool import WorkerPool
from tests.stream.minutes import SLOTS, Forgetful, Town, submitted
from tests.stream.test_flink import wait_for
from transforms.failpoints import FILE_VARIABLE

pytestmark = pytest.mark.slow
SOME = 3
"""Slots that are recorded before the fault."""


@pytest.fixture(scope="module")
def armed(tmp_path_factory):
    return tmp_path_factory.mktemp("failpoints") / "armed"


@pytest.fixture(scope="module")
def pool(tmp_path_factory, armed):
    """A worker pool whose workers fail where the file says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(armed))
        running = WorkerPool(tmp_path_factory.mktemp("failing-pool")).__enter__()
    yield running
    running.__exit__()


@pytest.fixture
def town(tmp_path, postgres, kafka):
    return Town(tmp_path, postgres.new_database(), kafka, a_second=4)


class Once:
    """The ledger: every slot is recorded once."""

    forgetful = None

    def __init__(self, town):
        self._town = town

    def recorded(self):
        return set(self._town.released())

    def check(self):
        streamed, apart = self._town.released(), self._town.apart()
        assert {at: unit.digest for at, unit in streamed.items()} == {at: unit.digest for at, unit in apart.items()}
        assert self._town.release() == 0
        self._town.place.ledger.verify()


class Twice:
    """The double: what was drawn again is another value."""

    def __init__(self, town):
        self.forgetful, self._town = town.folder / "attempts.sqlite", town

    def recorded(self):
        return Forgetful(self.forgetful).values().keys() & set(self._town.slots)

    def check(self):
        assert max(map(len, Forgetful(self.forgetful).values().values())) >= 2


both = pytest.mark.parametrize("kind", [Once, Twice])


@both
@pytest.mark.parametrize(
    ("place", "what", "checkpoint_s"),
    [
        ("tally", "raise", 3_600),  # nothing is checkpointed yet: the job begins again
        ("after-commit", "raise", 1),
        ("after-commit", "kill", 1),
    ],
)
def test_a_slot_is_released_once_and_whole(town, flink, pool, armed, kind, place, what, checkpoint_s):
    """40 s each."""
    book = kind(town)
    with submitted(town, flink, pool, checkpoint_s, forgetful=book.forgetful) as job:
        wait_for(lambda: len(book.recorded()) >= SOME, 90)
        assert len(book.recorded()) < SLOTS
        armed.write_text(f"{place} {what}")
        wait_for(lambda: not armed.exists(), 60)
        wait_for(lambda: flink.has_restarted(job), 60)
        wait_for(lambda: flink.state(job) == "RUNNING", 60)
        wait_for(lambda: len(book.recorded()) == SLOTS, 90)
    book.check()


@both
def test_a_stream_that_goes_on_from_a_savepoint_releases_again_nothing_that_it_released_after_it(
    town, flink, pool, kind
):
    """60 s: the first job goes on after its savepoint, as it may while one is upgraded."""
    book = kind(town)
    with submitted(town, flink, pool, 60, forgetful=book.forgetful) as job:
        wait_for(lambda: len(book.recorded()) >= SOME, 90)
        place = flink.savepoint(job)
        before = len(book.recorded())
        assert before < SLOTS - 1
        wait_for(lambda: len(book.recorded()) == SLOTS, 60)
    with submitted(town, flink, pool, 1, savepoint=place, forgetful=book.forgetful, output="again"):
        wait_for(lambda: town.has_published("again"), 60)
    book.check()
