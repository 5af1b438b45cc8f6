"""Whatever fails, a stream releases every slot once and whole: 100,000 events, on a Flink cluster of its own processes.

The same faults on a ledger in which the first writer does not win show two values of a slot: so each of these tests
would notice.
"""

import pytest

from hatstream_lab.servers.flink import WorkerPool
from pipelines.specification import load
from tests.stream import cluster as clusters
from tests.stream.cluster import JobServer, checkpoint, has_gone_on, has_restarted, savepoint, slots_in_use, wait_for
from tests.stream.conftest import CONFIGURATION, QUICK, ROOT, fetched
from tests.stream.minutes import SLOTS, Forgetful, Town, submitted
from transforms.failpoints import FILE_VARIABLE

pytestmark = pytest.mark.slow
SOME = 3  # slots that are recorded before the fault
EVENTS = 100_000
NEVER_S = 3_600


@pytest.fixture(scope="module")
def armed(tmp_path_factory):
    return tmp_path_factory.mktemp("failpoints") / "armed"


@pytest.fixture(scope="module")
def pool(tmp_path_factory, armed):
    """A worker pool whose workers fail where the file says, and find the double of the ledger in `tests`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(armed))
        patch.setenv("PYTHONPATH", str(ROOT))
        running = WorkerPool(tmp_path_factory.mktemp("failing-pool")).__enter__()
    yield running
    running.__exit__()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    fetched("flink")
    with clusters.Standalone(tmp_path_factory.mktemp("cluster"), CONFIGURATION, QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def flink(tmp_path_factory, cluster):
    """The job server of the cluster."""
    with JobServer(tmp_path_factory.mktemp("job-server"), rest=cluster.rest) as running:
        yield running


@pytest.fixture
def town(tmp_path, postgres, kafka):
    town = Town(tmp_path, postgres.new_database(), kafka, a_second=187)
    assert town.rows >= EVENTS
    return town


class Once:
    """The ledger: every slot is recorded once."""

    forgetful = None

    def __init__(self, town):
        self._town = town

    def recorded(self):
        return set(self._town.released())

    def has_shown(self):
        """Whether all slots went all the way."""
        return whole(self, self._town)

    def check(self, *outputs, redrawn=1):
        """redrawn: at least so many draws lost to what was recorded; each of them is in the ledger's audit."""
        town = self._town
        lost = town.place.ledger.audit("minutes")
        assert (lost.changed, lost.redrawn >= redrawn) == (0, True)
        town.check()
        again = sum(bool(unit.released) for unit in town.released().values())
        assert town.place.ledger.audit("minutes").redrawn == lost.redrawn + again
        for path in (town.folder / "scheduled").iterdir():
            copies = [town.folder / output / path.name for output in outputs]
            assert {path.read_bytes()} == {copy.read_bytes() for copy in copies if copy.exists()}


class Twice:
    """The double: what was drawn again is another value, which the slot's file does not take: there the job stands."""

    def __init__(self, town):
        self.forgetful, self._town = town.folder / "attempts.sqlite", town

    def recorded(self):
        return Forgetful(self.forgetful).values().keys() & set(self._town.slots)

    def has_shown(self):
        """Whether a slot has two values."""
        return max(map(len, Forgetful(self.forgetful).values().values())) >= 2

    def check(self, *_, **__):
        assert self.has_shown()


both = pytest.mark.parametrize("kind", [Once, Twice])


def whole(book, town, output="out"):
    return len(book.recorded()) == SLOTS and town.has_published(output)


@both
@pytest.mark.parametrize(
    ("place", "what", "checkpoint_s"),
    [
        ("tally", "raise", NEVER_S),  # nothing is checkpointed yet: the job begins again
        ("after-commit", "raise", 1),
        ("after-commit", "kill", 1),
    ],
)
def test_a_slot_is_released_once_and_whole(town, flink, pool, armed, kind, place, what, checkpoint_s):
    """1 min each."""
    book = kind(town)
    with submitted(town, flink, pool, checkpoint_s, forgetful=book.forgetful) as job:
        wait_for(lambda: len(book.recorded()) >= SOME, 90)
        assert len(book.recorded()) < SLOTS
        armed.write_text(f"{place} {what}")
        wait_for(lambda: not armed.exists(), 60)
        wait_for(lambda: has_restarted(flink, job), 60)
        wait_for(book.has_shown, 90)
    book.check("out")


@both
def test_a_slot_is_released_once_and_whole_where_a_task_manager_is_killed_and_another_comes(
    town, flink, pool, cluster, kind
):
    """1 min: one checkpoint, slots that are recorded after it, and then the fault."""
    book = kind(town)
    with submitted(town, flink, pool, NEVER_S, forgetful=book.forgetful) as job:
        wait_for(book.recorded, 90)
        checkpoint(flink, job)
        before = len(book.recorded())
        wait_for(lambda: len(book.recorded()) > before, 60)
        (killed,) = slots_in_use(cluster)
        cluster.kill_task_manager(killed)
        assert len(book.recorded()) < SLOTS
        wait_for(lambda: has_restarted(flink, job), 60)
        cluster.start_task_manager()
        wait_for(book.has_shown, 90)
        assert has_gone_on(flink, job)
        assert killed not in slots_in_use(cluster)
    book.check("out")


@both
def test_a_stream_that_goes_on_from_a_savepoint_releases_again_nothing_that_it_released_after_it(
    town, flink, pool, kind
):
    """1 min: the first job goes on after its savepoint, as it may while one is upgraded."""
    book = kind(town)
    with submitted(town, flink, pool, 60, forgetful=book.forgetful) as job:
        wait_for(lambda: len(book.recorded()) >= SOME, 90)
        place = savepoint(flink, job)
        before = len(book.recorded())
        assert before < SLOTS - 1
        wait_for(lambda: whole(book, town), 60)
    with submitted(town, flink, pool, 1, savepoint=place, forgetful=book.forgetful, output="again") as job:
        wait_for(lambda: town.has_published("again"), 60)
        assert has_gone_on(flink, job)
    book.check("out", "again")


def stopped(town, flink, pool, slots=1):
    """The savepoint of a job that ended after it had recorded so many slots."""
    with submitted(town, flink, pool) as job:
        wait_for(lambda: len(town.released()) >= slots, 90)
        place = savepoint(flink, job, cancel=True)
        wait_for(lambda: not flink.is_running(job), 60)
    return place


def test_a_stream_that_was_stopped_with_a_savepoint_goes_on_where_it_was(town, flink, pool):
    """1 min."""
    book = Once(town)
    place = stopped(town, flink, pool, SOME)
    assert len(book.recorded()) < SLOTS
    with submitted(town, flink, pool, savepoint=place, output="again") as job:
        wait_for(lambda: whole(book, town, "again"), 60)
        assert has_gone_on(flink, job)
    book.check("out", "again", redrawn=0)


def test_a_savepoint_of_another_specification_is_refused(town, flink, pool):
    """30 s: it holds events as steps of another grid, in slots that may have another length."""
    place = stopped(town, flink, pool)
    path = town.folder / "spec.toml"
    path.write_text(path.read_text().replace("upper_kmh = 65", "upper_kmh = 10"))
    town.spec = load(path)
    with submitted(town, flink, pool, savepoint=place, output="again") as job:
        wait_for(lambda: flink.state(job) == "FAILED", 60)
    assert town.released() == {}


def test_a_savepoint_of_another_key_is_refused(town, tmp_path_factory, postgres, kafka, flink, pool):
    """30 s: its vehicles would have other hashes than ours, and whoever is in both would count twice."""
    place = stopped(town, flink, pool)
    other = Town(tmp_path_factory.mktemp("other"), postgres.new_database(), kafka)
    assert other.spec.spec_id == town.spec.spec_id
    with submitted(other, flink, pool, savepoint=place) as job:
        wait_for(lambda: flink.state(job) == "FAILED", 60)
    assert other.released() == {}
