"""What several tests share: where real telemetry lies, and ledgers on both databases."""

import gc
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path

import hypothesis
import pytest

from tests.kit.quick import (
    let_beam_remember,
    let_disks_be_quick,
    let_files_be_in_memory,
    let_ledgers_remember,
    let_models_be_remembered,
    let_noise_be_fresh,
    let_noise_repeat,
)
from tests.servers import Postgres, emptied, postgres_server

for profile, examples in (("fast", 8), ("whole", 200)):  # `make test-all` asks for the whole
    hypothesis.settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )  # no deadline: the machine may be busy
hypothesis.settings.load_profile("fast")

SHARED = Path(__file__).resolve().parents[1] / "shared" / "data"

let_ledgers_remember()
let_disks_be_quick()
FOLDER = let_files_be_in_memory()
"""Of this run, made by the process that starts workers."""

RELEASES = {"pipelines", "hatstream", "stream", "faults"}
"""Rooms that release the same days again: with the same noise, so that their models are the same."""

ENGINES = {"kafka", "flink", "pool", "cluster"}
"""Fixtures that start Kafka or Flink."""

LONGEST = ("extras", "races", "histories", "server_faults",
           "world", "exceeding_spans", "injected", "backups", "examples", "wheel")  # fmt: skip
"""Files of few tests that take long, by their names without `test_`."""


def pytest_unconfigure() -> None:
    """Removes what Beam, servers and ended processes leave, after multiprocessing's own folders (-100) in it."""
    if FOLDER is not None:
        Finalize(None, shutil.rmtree, (FOLDER, True), exitpriority=-200)


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Kafka or Flink are told apart. Long files come first, then those of most tests: where workers
    take file after file, none of them is still at a long one when all others have ended.
    """
    tests = Counter(item.path for item in items)
    cases = Counter[tuple[Path, str]]()
    items.sort(key=lambda item: (item.path.stem.removeprefix("test_") not in LONGEST, -tests[item.path]))
    for item in items:
        few, test = item.get_closest_marker("few"), getattr(item, "originalname", item.name)
        cases[item.path, test] += 1
        if few and cases[item.path, test] > few.args[0]:
            item.add_marker(pytest.mark.slow)
        if ENGINES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.engines)


def pytest_collection_finish() -> None:
    """What is imported stays: looking through it for garbage again and again is a sixth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


def pytest_runtest_setup(item: pytest.Item) -> None:
    let_beam_remember(starts_workers=item.get_closest_marker("engines") is not None)
    if "statistical" in item.path.parts:
        let_noise_be_fresh()
    elif item.path.relative_to(item.config.rootpath).parts[1] in RELEASES:
        let_noise_repeat("releases")
        let_models_be_remembered()
    else:
        let_noise_repeat(item.nodeid)


@pytest.fixture(scope="session")
def telemetry() -> Path:
    """The folder of real telemetry beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the real telemetry is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def postgres_of_session() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_of_session: Postgres) -> Postgres:
    """The test run's PostgreSQL server, up whatever the test before did to it."""
    postgres_of_session.start()
    return postgres_of_session


@pytest.fixture(scope="session")
def database_of_session(postgres_of_session: Postgres) -> str:
    return postgres_of_session.new_database()


@pytest.fixture
def server_url(postgres: Postgres, database_of_session: str) -> str:
    """An empty database on the server: a test has one, and the next test has it again."""
    assert postgres
    return emptied(database_of_session)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be made, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("server_url")
    return url


@pytest.fixture
def hatstream(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line; returns exit code, standard output, standard error."""
    from pipelines.cli import main  # which imports Beam: not for every test

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run
