"""A look is sealed with fresh noise, its day's share and a keyed digest."""

import pytest

from tests.noninterference.sealed import SEALED


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SEALED)
def test_a_look_is_sealed_as_it_should_be(name: str) -> None:
    assert SEALED[name]().differences() == []
