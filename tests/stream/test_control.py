"""The control of the tests of faults, in every run: without the ledger's first writer, a fault shows two values."""

from hatstream_lab.servers.flink import WorkerPool
from tests.stream.cluster import wait_for
from tests.stream.conftest import ROOT
from tests.stream.minutes import Forgetful, Town, submitted
from transforms.failpoints import FILE_VARIABLE


def test_a_fault_after_a_commit_shows_two_values_where_the_first_writer_does_not_win(
    tmp_path, kafka, flink, monkeypatch
):
    """30 s: the worker fails once, behind the first commit, and its slot is drawn again."""
    armed, attempts = tmp_path / "armed", tmp_path / "attempts.sqlite"
    monkeypatch.setenv(FILE_VARIABLE, str(armed))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers find the double of the ledger in `tests`
    town = Town(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}", kafka)
    armed.write_text("after-commit raise")
    with WorkerPool(tmp_path / "pool") as pool, submitted(town, flink, pool, forgetful=attempts):
        wait_for(lambda: not armed.exists(), 90)
        wait_for(lambda: max(map(len, Forgetful(attempts).values().values())) == 2, 60)
