"""Interface of release kinds, and releasing one group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from dpops.allocation import Allocation
from dpops.noise import Noise
from dpops.statistics import Column, RequestedStatistic
from transforms.count.tally import ContributionBound
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.units import Debit, LiveEntry, StageEntry, StageUnit, Unit
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases import SlotFacts
from transforms.value import Value
from transforms.wire import Exposure, Tally

Tallies = Callable[[], Iterable[Tally]]  # reads a group's tallies one by one: a vehicle is in one of them
RecordUnits = Callable[[Sequence[Unit]], Sequence[RecordedSlot]]
"""Records units in one transaction and says what the ledger returned; nothing where it refused them."""


class MustStop(Exception):
    """Raised by a draw that stops the run; its text is the period."""


class DrawnUnit(NamedTuple):
    """Unit to be recorded, with vehicles' spending if known."""

    unit: Unit
    exposure: Exposure | None = None


class History(NamedTuple):
    """Account of a release, and its group's slots recorded so far."""

    account: LedgerAccount
    recorded: Sequence[RecordedSlot] = ()

    def stages(self, spec_id: str) -> list[StageEntry]:
        """Lists all recorded stages of a specification."""
        return self.account.open().stages(self.account.name, spec_id)

    def live(self, spec_id: str, period: str) -> list[LiveEntry]:
        """Lists the recorded live slots of a period."""
        return self.account.open().live(self.account.name, spec_id, period)

    def stop_once(self, unit: StageUnit, run: str) -> None:
        """Raises MustStop in the run that first meets a stopping unit, and its retries.

        In unattended runs always, until an attended one has continued: then the period has a later stage. run: name of
        this run, which its retries have too.
        """
        account, stages = self.account, (entry.unit for entry in self.stages(unit.spec_id))
        is_first = account.open().stop(account.name, unit.spec_id, unit.period, run)  # recorded, unless it is already
        has_gone_on = any(stage.period == unit.period and stage.stage > unit.stage for stage in stages)
        if is_first or (account.unattended and not has_gone_on):
            raise MustStop(unit.period)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A specification's request to a kind of release."""

    spec_id: str
    value: Value
    region: Sequence[int] | None
    statistics: tuple[RequestedStatistic, ...]
    allocation: Allocation
    cap: ContributionBound | None
    shards: int
    options: Any
    zone: str
    slots: Mapping[int, SlotFacts]
    account: LedgerAccount
    digest_key: bytes = field(repr=False)


class ReleaseKind(Protocol):
    """A kind of release, registered by name."""

    @property
    def spec_id(self) -> str:
        """Id of the specification."""

    @property
    def slots(self) -> Mapping[int, SlotFacts]:
        """Facts of slots; one `plan`'s slots are drawn together."""

    @property
    def cap(self) -> ContributionBound | None:
        """Contribution bound of tallies; None for all."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies besides counts."""

    @property
    def shards(self) -> int:
        """Number of parts of a group, drawn separately."""

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Shares of a HAT's epsilon by statistic, perhaps none."""

    @property
    def draws_in_order(self) -> bool:
        """Whether groups must be drawn in order, oldest first."""

    @property
    def learns(self) -> bool:
        """Whether a slot's estimates depend on earlier entries."""

    @property
    def keeps_late(self) -> bool:
        """Whether streams count late reports until slots are closed."""

    def with_digest_form(self, digest: str | None) -> "ReleaseKind":
        """Returns the kind that writes digests in the form of a ledger's first one."""

    def claims(self, history: History) -> dict[str, list[Debit]] | None:
        """Lists periods' debits, or None where units decide them."""

    def group(self, slot_s: int) -> int:
        """Returns the first slot drawn together with this one."""

    def draw(self, groups: Mapping[SlotShard, Tallies], history: History, noise: Noise) -> list[DrawnUnit]:
        """Draws the groups' next units, by slot and shard.

        Returns none when nothing is left; a single group where draws rest on recorded entries.
        Raises StepError, LedgerError or MustStop.
        """

    def estimates(self, recorded: RecordedSlot, history: History) -> Iterator[SlotEstimates]:
        """Yields estimates of a slot or a complete period."""


def release_group(
    release: ReleaseKind, group: SlotShard, tallies: Tallies, account: LedgerAccount, record: RecordUnits
) -> Iterator[SlotEstimates]:
    """Draws, records and estimates a group, unless over limit. Raises MustStop."""
    recorded: list[RecordedSlot] = []
    # Of a period stage by stage, as a later one rests on those recorded; none is left at the end.
    while drawn := release.draw({group: tallies}, History(account, recorded), Noise()):
        slots = record([unit for unit, _ in drawn])
        if not slots:  # the ledger refused them: nothing may be published
            return iter(())
        recorded += slots
    return release.estimates(recorded[-1], History(account)) if recorded else iter(())
