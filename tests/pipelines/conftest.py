"""The small city with its account opened."""

import pytest

from tests import city


@pytest.fixture
def town(tmp_path, hatstream):
    """The small city with its account opened."""
    return city.opened(tmp_path, hatstream)
