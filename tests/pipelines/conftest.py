"""The small city with its account opened."""

import pytest

from tests import city


@pytest.fixture
def town(tmp_path, hatstream):
    """The small city with its account opened."""
    city.write(tmp_path)
    assert hatstream(*city.init(tmp_path))[0] == 0
    return tmp_path
