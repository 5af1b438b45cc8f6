"""What is for the operator alone has no way out at run time; that mypy refuses it is in leaks.py."""

import msgspec
import pytest

from transforms.public import Operator, Summary
from transforms.sinks.published import SCHEMA
from transforms.sinks.rows import FORMATS


def test_what_shows_values_shows_nothing_of_the_operators() -> None:
    secret = Operator(4711)
    assert "4711" not in f"{secret} {secret!r} {[secret]} {Summary({'a': 1}, secret)}"
    with pytest.raises(TypeError):
        msgspec.json.encode({"number": secret})
    with pytest.raises(TypeError):
        f"{secret:,}"


@pytest.mark.parametrize("kind", sorted(set(FORMATS) - {"csv"}))
def test_files_take_nothing_of_the_operators(kind: str) -> None:
    columns = {name: ["8742d9d6bffffff"] for name in SCHEMA.names} | {"value": [Operator(4711)]}
    with pytest.raises(Exception, match=r"(?i)operator|type|convert|double"):
        FORMATS[kind](columns, SCHEMA, "name")


def test_the_operators_part_stands_by_itself() -> None:
    assert Summary({"a": 1}, Operator({"rows": 2})).json() == '{"a":1,"operator_only":{"rows":2}}'
    assert Summary({"a": 1}).json() == '{"a":1}'
