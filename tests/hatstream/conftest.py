"""A town whose account is open."""

import pytest

from tests import city


@pytest.fixture
def town(tmp_path, hatstream):
    def open_(spec=city.SPEC, lines=None):
        return city.opened(tmp_path, hatstream, spec=spec, lines=lines)

    return open_
