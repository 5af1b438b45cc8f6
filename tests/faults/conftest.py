"""The small city with its first day released, once for all tests that lose something of it."""

from shutil import copytree

import pytest

from pipelines.cli import main
from tests import city


@pytest.fixture(scope="session")
def first_day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first-day")
    city.write(folder)
    assert [main(command) for command in (city.init(folder), city.release(folder, end=city.DAYS[0]))] == [0, 0]
    return folder


@pytest.fixture
def town(tmp_path, first_day):
    return copytree(first_day, tmp_path, dirs_exist_ok=True)
