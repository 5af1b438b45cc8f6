"""What a kind of release is, what it rests on, and how a group is drawn to its end."""

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

Tallies = Callable[[], Iterable[Tally]]
"""Reads the tallies of a group, one after another: all rows of a vehicle are in one of them."""
RecordUnits = Callable[[Sequence[Unit]], Sequence[RecordedSlot]]
"""Records units in one transaction and says what the ledger returned; nothing where it refused them."""


class Stopped(NamedTuple):
    """A run ends before a period is released whole, whose first entry says that its input may be wrong."""

    period: str


class MustStop(Exception):
    """Raised by a draw that must stop the run; `release_group` answers with Stopped."""


class DrawnUnit(NamedTuple):
    """A unit that may be recorded, and what each vehicle spends in it, where counts tell that."""

    unit: Unit
    exposure: Exposure | None = None


class Before(NamedTuple):
    """Inputs of a draw besides tallies: an account, whose entries it reads, and this run's records of the group."""

    account: LedgerAccount | None
    recorded: Sequence[RecordedSlot] = ()

    def stages(self, spec_id: str) -> list[StageEntry]:
        """Lists all recorded stages of a specification."""
        return self._account.open().stages(self._account.name, spec_id)

    def live(self, spec_id: str, period: str) -> list[LiveEntry]:
        """Lists the recorded live slots of a period."""
        return self._account.open().live(self._account.name, spec_id, period)

    def stop_once(self, unit: StageUnit, run: str) -> None:
        """Raises MustStop in the run that first comes to a unit that must stop it, and when that run tries again.

        In unattended runs, in each, until an attended one has gone on.
        """
        account, stages = self._account, (entry.unit for entry in self.stages(unit.spec_id))
        is_first = account.open().stop(account.name, unit.spec_id, unit.period, run)
        has_gone_on = any(stage.period == unit.period and stage.stage > unit.stage for stage in stages)
        if is_first or (account.unattended and not has_gone_on):
            raise MustStop(unit.period)

    @property
    def _account(self) -> LedgerAccount:
        if self.account is None:
            raise ValueError("this kind of release rests on recorded entries: it needs an account")
        return self.account


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A specification's request to a release kind; `shards` counts parts of a group's cells."""

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
    """A kind of release. It is made by its class method `of(asked)`, and found by its name in `registry`."""

    @property
    def spec_id(self) -> str: ...

    @property
    def slots(self) -> Mapping[int, SlotFacts]:
        """The facts of every slot; `plan` of one are the slots that are drawn together with it."""

    @property
    def cap(self) -> ContributionBound | None:
        """What is kept of a vehicle when it is counted; None for all."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What tallies carry besides counts."""

    @property
    def shards(self) -> int:
        """Number of parts of a group's cells, each drawn separately."""

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Shares of a HAT's epsilon, by statistic; none where counts tell of no vehicle."""

    @property
    def in_order(self) -> bool:
        """Whether a group rests on recorded ones: drawn one by one, the oldest first, from parts of its vehicles."""

    @property
    def learns(self) -> bool:
        """Whether estimates of a slot rest on what earlier entries teach."""

    @property
    def keeps_late(self) -> bool:
        """Whether a stream still counts a report that comes when its pane is over and its slot is not."""

    def continuing(self, digest: str | None) -> "ReleaseKind":
        """Makes the release that goes on with a ledger. digest: of its specification's first entry, if it has one."""

    def claims(self, history: Before) -> dict[str, list[Debit]] | None:
        """Lists each period's debits where no input decides them; None where units do."""

    def group(self, slot_s: int) -> int:
        """Returns the first of the slots that are drawn together with this one."""

    def draw(self, groups: Mapping[SlotShard, Tallies], history: Before, noise: Noise) -> list[DrawnUnit]:
        """Draws the next units of groups; none where nothing is left. Raises StepError, LedgerError or MustStop.

        groups: by first slot and release shard; a single one where draws rest on recorded entries.
        """

    def estimates(self, recorded: RecordedSlot, history: Before) -> Iterator[SlotEstimates]:
        """Yields estimates of a slot, or of a period from its last stage."""


def release_group(
    release: ReleaseKind, group: SlotShard, tallies: Tallies, account: LedgerAccount, record: RecordUnits
) -> Iterator[SlotEstimates] | Stopped:
    """Draws and records a group to its end, then estimates it; nothing where the account's limit refuses it."""
    recorded: list[RecordedSlot] = []
    try:
        while drawn := release.draw({group: tallies}, Before(account, recorded), Noise()):
            slots = record([unit for unit, _ in drawn])
            if not slots:
                return iter(())
            recorded += slots
    except MustStop as stop:
        return Stopped(*stop.args)
    return release.estimates(recorded[-1], Before(account)) if recorded else iter(())
