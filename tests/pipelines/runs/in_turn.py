"""A third kind of release, of this one file: HATs, each slot drawn after the slots before it are recorded."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import msgspec

from dpops.claims import PureDP
from transforms.recorded.units import Debit, UnitKey
from transforms.releases.base import Asked, Before
from transforms.releases.hats.release import HatRelease


class InTurnOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Draws slots in turn."""

    most_hats: Annotated[int, msgspec.Meta(ge=1, description="that a vehicle is in, in any slot")]


@dataclass(frozen=True)
class InTurn(HatRelease):
    most_hats: int = 1
    in_order = True
    Options = InTurnOptions

    @classmethod
    def of(cls, asked: Asked) -> "InTurn":
        return cls(**vars(HatRelease.of(asked)), most_hats=asked.options.most_hats)

    def claims(self, _before: Before) -> dict[str, list[Debit]]:
        """Asks for the same in every slot, which no input decides."""
        claims: dict[str, list[Debit]] = {}
        for slot_s, facts in self.slots.items():
            debit = Debit(UnitKey(self.spec_id, slot_s, 0), PureDP(Fraction(self.most_hats)))
            claims.setdefault(facts.period, []).append(debit)
        return claims
