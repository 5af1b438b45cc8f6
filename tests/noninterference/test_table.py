"""Whatever a specification may ask for is in the gate's table: each layout, accounting, product and format."""

import re
from typing import get_args

import apache_beam as beam
import pytest

import hatstream
from dpops.claims import Accounting
from tests.noninterference.cases import CASES, PAST, SLOW
from tests.noninterference.mutating import MUTANTS
from tests.noninterference.roads import EVERY_FORMAT
from tests.noninterference.test_mutants import REGISTERED
from transforms.layouts import FIXED, MAPPED
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.files import FORMATS

DEFAULTS = {"accounting": "zcdp"}
KINDS = {
    "layout": {*FIXED, *MAPPED},
    "accounting": {*get_args(Accounting)},
    "product": {*PRODUCTS},
}


def in_table(key: str) -> set[str]:
    """Values of a key in the specifications of all cases."""
    specs = {case().world.spec for case in (*CASES.values(), *PAST.values(), *SLOW.values())}
    return {name for spec in specs for name in re.findall(rf'^{key} = "([\w-]+)"', spec, re.MULTILINE)} | {
        DEFAULTS[key] for key in {key} & {*DEFAULTS}
    }


@pytest.mark.parametrize("key", KINDS)
def test_every_kind_that_exists_is_in_the_table(key: str) -> None:
    assert KINDS[key] - in_table(key) == set(), "add a case to tests/noninterference/cases.py"


@pytest.mark.parametrize("name", hatstream.__all__)
def test_every_public_transform_has_a_mutant_of_its_own(name: str) -> None:
    assert REGISTERED
    found = [mutant.name for mutant in MUTANTS if any(f":{name}." in place for place in mutant.where)]
    is_transform = isinstance(public := getattr(hatstream, name), type) and issubclass(public, beam.PTransform)
    assert bool(found) >= is_transform, "add one to tests/noninterference/mutants_by_key.py"


def test_every_format_of_files_is_in_the_table() -> None:
    assert {*FORMATS} - {*EVERY_FORMAT} == set()


def test_a_kind_that_no_case_has_is_found() -> None:
    assert {"mds", "new-layout"} - in_table("layout") == {"new-layout"}
