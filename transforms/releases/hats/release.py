"""The release of HATs: each slot, or all slots of a period at once, from tallies alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpops.allocation import Allocation
from dpops.mechanism import PlanError
from dpops.noise import Noise
from dpops.statistics import Column
from transforms.count.tally import ContributionBound
from transforms.errors import StepError
from transforms.failpoints import failpoint
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.units import Debit, HatUnit, all_of
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import Asked, Before, DrawnUnit, Estimator, Tallies
from transforms.releases.hats.digest import is_plain
from transforms.releases.hats.draw import draw_releases
from transforms.releases.hats.estimates import estimates_of
from transforms.releases.hats.policy import Policy
from transforms.releases.slots import SlotFacts
from transforms.wire import joined


@dataclass(frozen=True)
class HatRelease:
    """slots: facts of every slot; those of one `plan` are drawn together. cap: what is kept of a vehicle in a slot."""

    policy: Policy
    slots: Mapping[int, SlotFacts]
    cap: ContributionBound | None = None
    in_order = False
    learns = False
    keeps_late = True

    @classmethod
    def of(cls, asked: Asked) -> "HatRelease":
        policy = Policy(
            spec_id=asked.spec_id,
            value=asked.value,
            statistics=asked.statistics,
            allocation=asked.allocation,
            release_shards=asked.shards,
            region=asked.region,
            digest_key=asked.digest_key,
        )
        return cls(policy, asked.slots, asked.cap)

    @staticmethod
    def why_no_stream(asked: Allocation, _options: object) -> str | None:
        """Tells as a sentence why slots cannot be released one by one; None where they can."""
        if not asked.whole_periods:
            return None
        return (
            "privacy.scope = 'period' plans and seals a period as a whole, which a stream never holds: "
            "use `hatstream release`, or scope = 'slot'"
        )

    @property
    def spec_id(self) -> str:
        return self.policy.spec_id

    @property
    def shards(self) -> int:
        return self.policy.release_shards

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return self.policy.shares

    def continuing(self, digest: str | None) -> "HatRelease":
        """Goes on with digests of the form that the ledger has (transforms.releases.hats.digest)."""
        plain = digest is not None and is_plain(digest)
        return replace(self, policy=replace(self.policy, plain_digests=plain))

    def claims(self, _before: Before) -> dict[str, list[Debit]] | None:
        return None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.policy.columns

    def group(self, slot_s: int) -> int:
        return self.slots[slot_s].plan[0]

    def draw(self, groups: Mapping[SlotShard, Tallies], before: Before, noise: Noise) -> list[DrawnUnit]:
        """Raises StepError where a HAT has no plan."""
        if before.recorded:
            return []
        failpoint("before-noise")
        try:
            whole = {group: joined(list(tallies())) for group, tallies in groups.items()}
            units = draw_releases(whole, self.slots, self.policy, noise)
        except PlanError as error:
            raise StepError(f"a HAT cannot be released: {error}") from None
        failpoint("after-noise")
        return [DrawnUnit(*unit) for unit in units]

    def estimator(self, _account: LedgerAccount) -> Estimator:
        return _Plain(self.policy)


class _Plain:
    """Reads a slot by its own plans alone."""

    def __init__(self, policy: Policy) -> None:
        self._names, self._lower = policy.names, policy.value.lower

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        yield estimates_of(all_of(HatUnit, recorded.units), self._names, self._lower)

    def keep(self) -> None:
        """Keeps nothing: nothing is learned."""
