"""The release of HATs: each slot, or all slots of a period at once, from tallies alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpops.mechanism import PlanError
from dpops.noise import Noise
from dpops.statistics import Column
from transforms.errors import StepError
from transforms.failpoints import failpoint
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.units import HatUnit, all_of
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import Before, Drawn, Estimator, Tallies
from transforms.releases.hats.draw import draw_releases
from transforms.releases.hats.estimates import estimates_of
from transforms.releases.hats.past_reader import PastReader
from transforms.releases.hats.policy import Policy
from transforms.releases.slots import SlotFacts
from transforms.releases.state_file import StateFile
from transforms.wire import joined


@dataclass(frozen=True)
class HatRelease:
    """slots: facts of every slot; those of one `plan` are drawn together. learns: whether estimates have model values
    besides, of what the ledger's entries up to theirs teach."""

    policy: Policy
    slots: Mapping[int, SlotFacts]
    learns: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.policy.columns

    def group(self, slot_s: int) -> int:
        return self.slots[slot_s].plan[0]

    def draw(self, group: SlotShard, tallies: Tallies, before: Before, noise: Noise) -> list[Drawn]:
        """Raises StepError where a HAT has no plan."""
        if before.recorded:
            return []
        failpoint("before-noise")
        try:
            units = draw_releases(*group, joined(list(tallies())), self.slots, self.policy, noise)
        except PlanError as error:
            raise StepError(f"a HAT cannot be released: {error}") from None
        failpoint("after-noise")
        return [Drawn(*each) for each in units]

    def estimator(self, account: LedgerAccount) -> Estimator:
        return _Learning(self.policy, account) if self.learns else _Plain(self.policy)


class _Plain:
    """Reads a slot by its own plans alone."""

    def __init__(self, policy: Policy) -> None:
        self._names = policy.names

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        yield estimates_of(all_of(HatUnit, recorded.units), self._names)

    def keep(self) -> None:
        """Nothing is learned."""


class _Learning:
    """Reads a slot together with the entries before it."""

    def __init__(self, policy: Policy, account: LedgerAccount) -> None:
        self._policy = policy
        file = StateFile.beside(account.head, policy.spec_id, account.signature)
        self._reader = PastReader(account.open(), account.name, policy.spec_id, file)

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        yield self._reader.estimates_of(recorded, self._policy.names, self._policy.grid.upper)

    def keep(self) -> None:
        self._reader.keep()
