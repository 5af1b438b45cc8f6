"""Whatever a specification may ask for is in the gate's table: each layout, accounting, product and format."""

import re
from typing import get_args

import pytest

from dpops.claims import Accounting
from tests.noninterference.cases import CASES, PAST, SLOW
from tests.noninterference.roads import EVERY_FORMAT
from transforms.layouts import FIXED, MAPPED
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.rows import FORMATS

DEFAULTS = {"accounting": "zcdp"}
KINDS = {"layout": {*FIXED, *MAPPED}, "accounting": {*get_args(Accounting)}, "product": {*PRODUCTS}}


def in_table(key: str) -> set[str]:
    """Values of a key in the specifications of all cases."""
    specs = {case().world.spec for case in (*CASES.values(), *PAST.values(), *SLOW.values())}
    return {name for spec in specs for name in re.findall(rf'^{key} = "([\w-]+)"', spec, re.MULTILINE)} | {
        DEFAULTS[key] for key in {key} & {*DEFAULTS}
    }


@pytest.mark.parametrize("key", KINDS)
def test_every_kind_that_exists_is_in_the_table(key: str) -> None:
    assert KINDS[key] - in_table(key) == set(), "add a case to tests/noninterference/cases.py"


def test_every_format_of_files_is_in_the_table() -> None:
    assert {*FORMATS} - {*EVERY_FORMAT} == set()
