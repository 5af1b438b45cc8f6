"""A third kind of release, of this one file: HATs, each slot drawn after the slots before it are recorded."""

from fractions import Fraction

from dpops.claims import PureDP
from transforms.recorded.units import Debit, UnitKey
from transforms.releases.base import Before
from transforms.releases.hats.release import HatRelease

MOST_HATS = 3
"""That a vehicle of the tests' city is in, in any slot."""


class InTurn(HatRelease):
    in_order = True

    def claims(self, _before: Before) -> dict[str, list[Debit]]:
        """Every slot asks for the same, which no input decides."""
        claims: dict[str, list[Debit]] = {}
        for slot_s, facts in self.slots.items():
            debit = Debit(UnitKey(self.spec_id, slot_s, 0), PureDP(Fraction(MOST_HATS)))
            claims.setdefault(facts.period, []).append(debit)
        return claims
