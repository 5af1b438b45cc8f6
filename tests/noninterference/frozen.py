"""Draws that are the same in every run, and a ledger that keeps draws alone in place of noisy sums."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from dpops.levels.stages import UNIT
from dpops.noise.words import Words
from transforms.ledger.ledger import Ledger
from transforms.recorded.units import VECTOR, Released, Stored, Unit, decode, encode


@contextmanager
def frozen(offered: list[Stored]) -> Iterator[None]:
    """While it lasts every source of noise gives the same words, and the ledger keeps `masked` units.

    offered: gets each unit as it was really offered, in order.
    """
    attempts = Counter[tuple[str, int, int]]()
    record = Ledger.record

    def recording(self: Ledger, account: str, limit: Any, spec_name: str, spec_text: str, units: list[Unit]) -> Any:
        as_stored = [msgspec.json.decode(encode(unit), type=Stored) for unit in units]
        offered.extend(as_stored)
        kept = []
        for unit in as_stored:
            key = unit.spec_id, unit.slot_s, unit.shard
            kept.append(decode(msgspec.json.encode(masked(unit, attempts[key]))))
            attempts[key] += 1
        return record(self, account, limit, spec_name, spec_text, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Words, "__init__", _frozen_words)
        patch.setattr(Ledger, "record", recording)
        yield


def _frozen_words(self: Words, entropy: Callable[[int], bytes] | None = None) -> None:
    self._entropy = entropy or np.random.default_rng(1).bytes


def masked(unit: Stored, attempt: int) -> Stored:
    """The unit with draws of its plans in place of what was released: no sum is in them.

    attempt: how often the unit was offered before; each time other noise would have been drawn.
    """
    chance = np.random.default_rng(zlib.crc32(f"{unit.spec_id}/{unit.slot_s}/{unit.shard}/{attempt}".encode()))
    return msgspec.structs.replace(unit, released=[_masked(released, chance) for released in unit.released])


def _masked(released: Released, chance: np.random.Generator) -> Released:
    if released.integers is None or released.plan is None or released.plan.get("epsilon") == "0":
        return released  # a constant is a function of its plan, and the ledger checks that it is
    number = len(released.integers)
    if released.mechanism == VECTOR:
        drawn = chance.normal(0, _spread_of(released.plan), number)
        drawn[: number // 2] += 20 * UNIT  # the weights, of a few vehicles
    else:
        drawn = chance.integers(0, 8, number) * 250
    return msgspec.structs.replace(released, integers=np.rint(drawn).astype(np.int64).tolist())


def _spread_of(plan: dict[str, Any]) -> float:
    spread = float(Fraction(plan["spread"]))
    return spread**0.5 if plan["kind"] == "gaussian" else 2**0.5 * spread
