"""Units are written as every version wrote them, to the byte, and read back as what they are."""

from fractions import Fraction

import msgspec
import pytest

from dpops.claims import ZCDP, PureDP
from transforms.recorded import units
from transforms.recorded.units import HatUnit, LiveUnit, Released, StageUnit, all_of, decode, encode

FACTS = {
    "spec_id": "a",
    "period": "2026-01-01",
    "slot_s": 7200,
    "slot_start": "2026-01-01T02:00:00+00:00",
    "slot_end": "2026-01-01T03:00:00+00:00",
    "unit": "km/h",
    "digest": "d",
}
WRITTEN = (
    '{"spec_id":"a","period":"2026-01-01","slot_s":7200,"slot_start":"2026-01-01T02:00:00+00:00",'
    '"slot_end":"2026-01-01T03:00:00+00:00",'
)
HALF, TOTAL = PureDP(Fraction(1, 2)), ZCDP(Fraction(1, 8))
HATS = [
    Released("87", "mean", "baseline", {"epsilon": "1/2", "facts": {"users": 3}}, [-4]),
    Released("88", "mean", "baseline", None, None),
]
OF_SLOT = HatUnit(
    **FACTS, shard=1, per_hat=HALF, spent=PureDP(Fraction(7, 2)), debit=PureDP(Fraction(7, 2)), released=HATS
)
OF_PERIOD = msgspec.structs.replace(
    OF_SLOT, shard=0, spent=PureDP(Fraction(1)), debit=PureDP(Fraction(0)), total=PureDP(Fraction(4)), released=[],
    is_of_whole_period=True,
)  # fmt: skip
STAGE = StageUnit(
    **FACTS, stage=1, debit=ZCDP(Fraction(1, 10)), total=TOTAL, plan={"kind": "gaussian"}, integers=[5, -6]
)
LIVE = LiveUnit(
    **FACTS, debit=PureDP(Fraction(1, 56)), total=PureDP(Fraction(1)), plan={"kind": "laplace"}, integers=[5]
)
TEXTS = [
    (
        OF_SLOT,
        '"shard":1,"epsilon_hat":"1/2","epsilon_slot":"7/2","unit":"km/h","released":[{"cell":"87","statistic":"mean",'
        '"mechanism":"baseline","plan":{"epsilon":"1/2","facts":{"users":3}},"integers":[-4]},{"cell":"88",'
        '"statistic":"mean","mechanism":"baseline","plan":null,"integers":null}],"digest":"d","scope":"slot",'
        '"debit":null,"epsilon_total":null}',
    ),
    (
        OF_PERIOD,
        '"shard":0,"epsilon_hat":"1/2","epsilon_slot":"1","unit":"km/h","released":[],"digest":"d","scope":"period",'
        '"debit":"0","epsilon_total":"4"}',
    ),
    (
        STAGE,
        '"shard":1,"epsilon_hat":"rho=1/8","epsilon_slot":"rho=1/8","unit":"km/h","released":[{"cell":"",'
        '"statistic":"mean","mechanism":"levels","plan":{"kind":"gaussian"},"integers":[5,-6]}],"digest":"d",'
        '"scope":"stage","debit":"rho=1/10","epsilon_total":"rho=1/8"}',
    ),
    (
        LIVE,
        '"shard":-1,"epsilon_hat":"1/56","epsilon_slot":"1/56","unit":"km/h","released":[{"cell":"","statistic":"mean",'
        '"mechanism":"levels","plan":{"kind":"laplace"},"integers":[5]}],"digest":"d","scope":"live","debit":"1/56",'
        '"epsilon_total":"1"}',
    ),
]


@pytest.mark.parametrize(("unit", "text"), TEXTS)
def test_a_unit_is_written_as_old_ledgers_have_it_and_read_as_what_it_is(unit, text):
    assert encode(unit).decode() == WRITTEN + text
    assert decode(WRITTEN + text) == unit


def test_a_live_slot_is_told_by_its_key_and_not_by_a_number():
    assert [unit.key.shard for unit in (OF_SLOT, STAGE, LIVE)] == [1, 1, None]
    assert units.column_of(units.UnitKey("a", 7200, None)) == -1
    assert units.DebitGroup.of(LIVE) != units.DebitGroup.of(STAGE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"epsilon_slot":"7/2"', '"epsilon_slot":"1/0"'),
        ('"epsilon_hat":"1/2"', '"epsilon_hat":"rho=1/8"'),
        ('"scope":"slot"', '"scope":"stage"'),
        ('"scope":"slot"', '"scope":"week"'),
    ],
)
def test_what_no_version_wrote_is_refused(before, after):
    text = encode(OF_SLOT).decode()
    assert before in text
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        decode(text.replace(before, after))


def test_units_of_another_kind_are_not_taken_for_hats():
    assert all_of(HatUnit, [OF_SLOT]) == [OF_SLOT]
    with pytest.raises(TypeError, match="no HatUnit but a StageUnit"):
        all_of(HatUnit, [OF_SLOT, STAGE])
