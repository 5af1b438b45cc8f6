"""A town whose account is open."""

import pytest

from tests import city


@pytest.fixture
def town(tmp_path, hatstream):
    def open_(spec=city.SPEC, lines=None):
        city.write(tmp_path, spec=spec, lines=lines)
        assert hatstream(*city.init(tmp_path))[0] == 0
        return tmp_path

    return open_
